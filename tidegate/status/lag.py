"""The lag of a flow, and the decision whether a run has work. Starts no JVM and takes no lock.

Safe to call while a job runs: nothing is written, and files are read in an order that tolerates a commit in between.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import pendulum

from tidegate import dates, fingerprints, json_codec, states
from tidegate.alerting import expiry
from tidegate.checkpoints import checkpoint, lease, overrides, progress, refusal, rewrite, vector
from tidegate.errors import SourceUnavailableError, TidegateError
from tidegate.formatting import count, span
from tidegate.layout import Layout
from tidegate.ops import evolution, plans
from tidegate.probes import delta
from tidegate.report import describe_error
from tidegate.spec import ChangeFeed, FileSource, KafkaSource, SnapshotFeed
from tidegate.states import Facts, RefusedBy, status_of
from tidegate.status import backlog, idle, intervals, snapshots, topic_backlog
from tidegate.status.interval import interval_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from tidegate.checkpoints.checkpoint import CheckpointRef
    from tidegate.checkpoints.progress import PlannedBatch
    from tidegate.environment import Environment
    from tidegate.resolution import ResolvedFlow, ResolvedPipeline
    from tidegate.spec import Flow, Pipeline
    from tidegate.status.backlog import Backlog
    from tidegate.status.intervals import Completeness

SMALL_BYTES = 64 * 1024 * 1024
"""A run with less to read than this is faster with C1-only compilation (docs/architecture.md, "Start-up")."""
SMALL_FIRST_BYTES = 16 * 1024 * 1024
"""The same limit if a checkpoint was never used."""


@dataclass(frozen=True, kw_only=True)
class Lag:
    """How far one flow is behind its source."""

    flow: str
    kind: Literal["files", "kafka", "change_feed", "snapshots"]
    rows: int | None
    """Records still to read; None if unknown."""
    bytes: int | None
    rows_exact: bool
    """False if ``rows`` is an estimate, which is shown with ``~``."""
    bytes_exact: bool
    behind: int
    """Files, messages (offsets), versions of the source table, or snapshots."""
    pending_batch: int | None
    """A batch that was planned and not committed; the next run starts with it."""
    has_work: bool
    refused: bool
    """The pending batch was refused, and neither suite nor code changed since, or its schema change has no answer yet. Or the
    swap of a new table was refused, and its numbers are not accepted yet."""
    refused_by: RefusedBy | None = None
    written: bool = False
    """The table has the pending batch; its ledger line or its end in the checkpoint is missing."""
    refresh_pending: bool = False
    """A full refresh is staged and not swapped in."""
    switched_off: bool
    """A person switched the flow off; it has no work, whatever its backlog."""
    reason: str
    """Why there is work or none: one sentence without a full stop."""
    position: str
    """The position up to which everything is read and committed."""
    first: bool
    """The checkpoint was never used: a new flow, a new version or a full refresh."""
    reads: str = ""
    """What the next increment reads, as the object of a sentence: ``2 new files in orders``."""
    unfinished: str = ""
    """What earlier runs left unfinished, which comes first: sentences, separated by semicolons."""
    remarks: str = ""
    """What a person should know about the source: sentences, separated by semicolons."""
    ahead: str = ""
    """What is to be read: ``a.csv, b.csv``, ``offsets 0:15-19 1:10-14``, ``versions 3 to 5``; empty for nothing."""
    rewritten: int = 0
    """Files that changed after they were read; Spark's file source does not notice."""
    ignored: int = 0
    """Files in the landing folder that are hidden, do not fit the glob, or are too old."""
    first_offsets: Mapping[int, int] = field(default_factory=dict)
    """For a topic: partition to the first offset that the broker still has."""
    unread: Mapping[int, int] = field(default_factory=dict)
    """For a topic: partition to the offset that is read next, for partitions with unread messages."""
    unread_until_ms: int | None = None
    """For a topic: up to when its retention keeps all unread messages, in milliseconds since 1970; None if that is far off or
    unknown."""
    unread_since_ms: int | None = None
    """For a table: when the first unread version was committed, in milliseconds since 1970; None if that is unknown."""
    completeness: Completeness | None = None
    """Of a source that declares intervals: which of them are complete."""
    error: TidegateError | None = None
    """Why the lag could not be measured; then the numbers are missing."""

    @property
    def failed(self) -> bool:
        """Whether a run of the flow would end with `error`; a flow that is switched off does not run."""
        return self.error is not None and not self.switched_off

    def facts(self, pipeline: str) -> Facts:
        """What it says about the state of the flow."""
        return Facts(
            pipeline=pipeline,
            flow=self.flow,
            error=None if self.error is None else " ".join(self.error.message.split()),
            unreachable=isinstance(self.error, SourceUnavailableError),
            off=self.reason if self.switched_off else None,
            refused_by=self.refused_by,
            has_work=self.has_work,
            written=self.written,
            refresh_pending=self.refresh_pending,
            unfinished=bool(self.unfinished),
            reason=self.reason,
        )

    def to_json(self) -> dict[str, Any]:
        """A JSON-serializable dict, without the intervals, which may be many."""
        error = None if self.error is None else describe_error(self.error)
        values = dataclasses.asdict(dataclasses.replace(self, error=None, completeness=None)) | {"error": error}
        del values["completeness"]
        return values


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Whether a run of some flows has work."""

    work: bool
    reasons: tuple[str, ...]
    """One per flow with work or an error; one per flow if none has work. As in ``silver: 2 new versions of bronze.flights``."""
    lags: tuple[Lag, ...]
    """In graph order. A flow downstream of a flow with work has work."""
    small: bool
    """So little is pending that a short start-up matters more than compiled code."""

    @property
    def reason(self) -> str:
        """All reasons in one line."""
        return "; ".join(self.reasons)

    @property
    def errors(self) -> tuple[TidegateError, ...]:
        """Errors of the flows that would fail, permanent ones before transient ones."""
        errors = [lag.error for lag in self.lags if lag.error is not None and lag.failed]
        return tuple(sorted(errors, key=lambda error: error.transient))


def measure(environment: Environment, resolved: ResolvedFlow) -> Lag:
    """The lag of one flow behind its own source; rows that upstream flows have yet to write are not counted.

    Raises:
        SpecError: The flow's suite or transform is missing or cannot be read, or another flow wrote its table.
        SourceError: The landing folder or the topic does not exist.
        SourceUnavailableError: No broker answers. Transient.
        OffsetsExpiredError: The source no longer has the data that the checkpoint reads next.
        CheckpointCorruptError: A file of the checkpoint cannot be read.
    """
    if resolved.error is not None:
        raise resolved.error
    layout, pipeline, flow = Layout.of(environment), resolved.pipeline, resolved.flow
    ref = checkpoint.current(layout, pipeline, flow)
    folder = ref.path(layout)
    state = progress.read(folder)
    if state.last_committed is None:
        checkpoint.check_writers(flow, ref, delta.writers(layout.table(flow.target.name), ref.app_id))
    committed = None if state.last_committed is None else progress.planned_batch(folder, state.last_committed)
    pending = _backlog(environment, layout, resolved, ref, committed)
    # A newer snapshot takes the place of a refused one.
    waiting = None if flow.kind.snapshots and pending.has_data else state.pending_batch
    refused = None if waiting is None else _refused(layout, resolved, ref, waiting)
    judged = rewrite.refused(layout, pipeline.name, flow.name)
    swap_pending = _swap_pending(layout, pipeline, flow, ref)
    by_limits = (
        refused is None
        and judged is not None
        and judged.app_id == ref.app_id
        and (swap_pending or (flow.kind.snapshots and waiting is not None))
        # Raised limits count from the next plan on.
        and bool(pipeline.rewrite_limits_of(flow).exceeded(judged.impact))
    )
    note = {} if refused is None else refusal.recorded(layout, ref)
    refused_by: RefusedBy | None = None
    if refused is not None:
        refused_by = "contract" if "schema_change_id" in note else "statistic" if refusal.is_held(note) else "gate"
    if by_limits and judged is not None:
        refused_by = "limits"
        otherwise = "derive the table again with mode full_refresh" if swap_pending else "land a newer snapshot"
        refused = f"waits: {judged.summary()}; accept the numbers, or {otherwise}"
    decision = None if state.pending_batch is None else refusal.decision(layout, ref, state.pending_batch)
    quarantined_whole = decision is not None and decision.action == "take"
    written = (
        state.pending_batch is not None
        and refused is None
        and not quarantined_whole
        and _is_written(layout, pipeline, flow, ref, state.pending_batch)
    )
    backfill = _unfinished_backfill(layout, pipeline, flow, ref)
    claimed = _interrupted(layout, pipeline, flow, layout.claim(pipeline.name, flow.name))
    undoing = _interrupted(layout, pipeline, flow, layout.undo(pipeline.name, flow.name))
    beat = idle.heartbeat_due(layout, resolved, ref, pendulum.now("UTC"))
    unfinished = state.pending_batch is not None or swap_pending or backfill is not None or claimed or undoing
    left = _unfinished(
        state.pending_batch,
        quarantined_whole=quarantined_whole,
        written=written,
        swap_pending=swap_pending,
        backfill=backfill,
        claimed=claimed,
        undoing=undoing,
    )
    completeness = intervals.read(layout, pipeline, flow, pendulum.now("UTC"))
    remarks = _sentences(
        completeness.summary() if completeness is not None else "",
        pending.skipped,
        _rewritten(pending.rewritten),
        _sent_again(flow, ref) if state.last_committed is None else "",
        _expiry_warning(layout, resolved, pending),
        judged.summary() if judged is not None and refused is None else "",
    )
    off = overrides.switched_off(layout, pipeline.name, flow.name)
    has_work = off is None and refused is None and (pending.has_data or unfinished or beat is not None)
    return Lag(
        flow=flow.name,
        kind=flow.source.identity()["kind"],
        rows=pending.rows,
        bytes=pending.size,
        rows_exact=pending.rows_exact,
        bytes_exact=pending.size_exact,
        behind=pending.behind,
        pending_batch=state.pending_batch,
        has_work=has_work,
        refused=refused is not None,
        refused_by=refused_by,
        written=written,
        refresh_pending=swap_pending,
        switched_off=off is not None,
        reason=off.summary()
        if off is not None
        else _sentences(refused or _work(pending, left), _heartbeat(flow, beat is not None), remarks),
        reads=pending.summary,
        unfinished="" if refused is not None else left,
        remarks=remarks,
        completeness=completeness,
        position=pending.position,
        first=state.last_committed is None,
        ahead=pending.ahead,
        rewritten=pending.rewritten,
        ignored=pending.ignored,
        first_offsets=pending.first_offsets,
        unread=pending.unread,
        unread_until_ms=pending.unread_until_ms,
        unread_since_ms=pending.unread_since_ms,
    )


def plan(environment: Environment, resolved: ResolvedPipeline, flows: tuple[Flow, ...]) -> Plan:
    """Decide whether a run of these flows has work.

    A flow downstream of a flow with work has work too. A flow downstream of a refused or failing flow has none, because
    it is blocked. An error that `measure` raises only affects its own flow.
    """
    lags: dict[str, Lag] = {}
    blocked: dict[str, str] = {}
    swap = False
    layout, pipeline = Layout.of(environment), resolved.pipeline
    for each in resolved.flows:
        flow = each.flow
        if flow not in flows:
            continue
        lag = _measured(environment, each)
        upstream = [above.name for above in pipeline.upstream_of(flow)]
        if lag.refused or lag.failed:
            blocked[flow.name] = states.waits_for(flow.name, status_of(lag.facts(pipeline.name)).name)
        elif stopped := [above for above in upstream if above in blocked]:
            blocked[flow.name] = blocked[stopped[0]]
            lag = dataclasses.replace(lag, has_work=False, reason=blocked[flow.name])
        elif not (lag.has_work or lag.switched_off) and (written := _written_above(upstream, lags)):
            lag = dataclasses.replace(lag, has_work=True, reason=f"reads {written}", reads=written)
        if lag.error is None:
            swap = swap or _swap_pending(layout, pipeline, flow, checkpoint.current(layout, pipeline, flow))
        lags[flow.name] = lag
    work = any(lag.has_work for lag in lags.values())
    explained = [lag for lag in lags.values() if lag.has_work or not work or lag.switched_off or lag.flow in blocked]
    return Plan(
        work=work,
        reasons=tuple(f"{lag.flow}: {lag.reason}" for lag in explained),
        lags=tuple(lags.values()),
        small=not swap and _is_small(tuple(lags.values())),
    )


def _written_above(upstream: Sequence[str], lags: Mapping[str, Lag]) -> str:
    """What the flows above a flow will write in the same run; empty if none has work."""
    writing = [above for above in upstream if above in lags and lags[above].has_work]
    flows = f"flow {writing[0]} writes" if len(writing) == 1 else f"flows {' and '.join(writing)} write"
    return f"what {flows}" if writing else ""


def _measured(environment: Environment, resolved: ResolvedFlow) -> Lag:
    """The flow's lag; an error of the measurement is stored in it."""
    flow, off = resolved.flow, None
    try:
        off = overrides.switched_off(Layout.of(environment), resolved.pipeline.name, flow.name)
        return measure(environment, resolved)
    except TidegateError as error:
        return Lag(
            flow=flow.name,
            kind=flow.source.identity()["kind"],
            rows=None,
            bytes=None,
            rows_exact=True,
            bytes_exact=True,
            behind=0,
            pending_batch=None,
            has_work=False,
            refused=False,
            switched_off=off is not None,
            reason=" ".join(error.message.split()) if off is None else off.summary(),
            position="",
            first=False,
            error=error,
        )


def _backlog(
    environment: Environment, layout: Layout, resolved: ResolvedFlow, ref: CheckpointRef, committed: PlannedBatch | None
) -> Backlog:
    flow = resolved.flow
    match flow.source:
        case FileSource():
            folder, reingests = layout.landing(flow.source.path), layout.reprocessing(ref.dag_id, ref.flow)
            return backlog.of_files(folder, flow.source, ref.path(layout), committed, reingests)
        case KafkaSource():
            table = layout.table(flow.target.name)
            return topic_backlog.of_topic(environment.kafka, flow.source, table, layout, ref, committed)
        case SnapshotFeed():
            return snapshots.backlog(layout, resolved.pipeline, flow, ref)
        case ChangeFeed():
            if flow.state is not None and resolved.writer is not None:
                beats = layout.heartbeats(resolved.pipeline.name, resolved.writer.name)
                return backlog.of_stateful(layout, flow.feeds[0], beats, committed)
            return backlog.of_tables(layout, flow.feeds, committed, vector.starts(layout, ref))


def _refused(layout: Layout, resolved: ResolvedFlow, ref: CheckpointRef, batch_id: int) -> str | None:
    """Why the pending batch waits, if another attempt would be refused for the same reason; else None."""
    decision = refusal.decision(layout, ref, batch_id)
    if decision is not None and decision.action == "take":
        return None
    try:
        note = refusal.recorded(layout, ref)
        if note.get("batch_id") != batch_id:
            return None
        if refusal.is_held(note):
            held_by = {
                "statistics_fingerprint": resolved.statistics_fingerprint(),
                "code_fingerprint": resolved.code_fingerprint(),
            }
            take = "send it to quarantine" if resolved.flow.kind.takes_batches else "correct the source"
            wait = f"waits: batch {batch_id} is held, because a statistic of it breaks its rule; accept it, or {take}"
            same = all(note.get(name) == value for name, value in held_by.items())
            return wait if same and decision is None else None
        if "schema_change_id" in note:
            schema_change_id = evolution.open_schema_change(layout, resolved)
            wait = f"waits: batch {batch_id} was refused by its frozen contract; schema change {schema_change_id} needs an answer"
            return wait if schema_change_id is not None else None
        if "transform_error_share" in note:
            share = resolved.pipeline.thresholds_of(resolved.flow).transform_error_share
            current = {"code_fingerprint": resolved.code_fingerprint(), "transform_error_share": share}
            wait = f"waits: batch {batch_id} was refused, because transform {resolved.flow.transform} raises; correct the transform"
            return wait if all(note.get(name) == value for name, value in current.items()) else None
        if resolved.flow.gate is None or resolved.suite is None:
            return None
        current = {
            "suite_fingerprint": fingerprints.suite_fingerprint(resolved.suite),
            "code_fingerprint": resolved.code_fingerprint(),
        }
    except (OSError, ValueError):
        # A file changed after the flow was resolved: the next plan has the error.
        return None
    if any(note.get(name) != value for name, value in current.items()):
        return None
    return (
        f"waits: batch {batch_id} was refused by {resolved.flow.gate.suite}; fix the suite, the transform or the data"
    )


def _is_written(layout: Layout, pipeline: Pipeline, flow: Flow, ref: CheckpointRef, batch_id: int) -> bool:
    """Whether the table, or the staging table of a refresh, has a batch."""
    staging = layout.staging(pipeline.name, flow.name, ref.version, ref.refresh)
    versions = (delta.transaction_version(path, ref.app_id) for path in (staging, layout.table(flow.target.name)))
    return any(version is not None and version >= batch_id for version in versions)


def _swap_pending(layout: Layout, pipeline: Pipeline, flow: Flow, ref: CheckpointRef) -> bool:
    """Whether a full refresh is staged and not swapped into the live table yet."""
    staging = layout.staging(pipeline.name, flow.name, ref.version, ref.refresh)
    return staging.is_dir() and delta.transaction_version(layout.table(flow.target.name), ref.app_id) is None


@dataclass(frozen=True)
class _Stored:
    done: bool


def _unfinished_backfill(layout: Layout, pipeline: Pipeline, flow: Flow, ref: CheckpointRef) -> int | None:
    """The number of a backfill that wrote rows and did not finish, or None (`tidegate.spark.reprocessing.backfill`)."""
    backfills = sorted(
        layout.reprocessing(pipeline.name, flow.name).glob("*.json"), key=lambda path: (len(path.name), path.name)
    )
    last = json_codec.read(backfills[-1], _Stored, "Restore it from a backup.") if backfills else None
    if last is None or last.done:
        return None
    number, app_id = int(backfills[-1].stem), ref.windows_app_id
    tables = (layout.table(flow.target.name), layout.quarantine(pipeline.name, flow.name))
    return number if any(delta.transaction_version(path, app_id) == number for path in tables) else None


def _interrupted(layout: Layout, pipeline: Pipeline, flow: Flow, marker: Path) -> bool:
    """Whether a replay or an undo left the file that it removes at its end; one that is running holds the lease."""
    if not marker.exists():
        return False
    return lease.holder(layout, lease.checkpoint_resource(pipeline.name, flow.name)) is None


def _sentences(*parts: str) -> str:
    return "; ".join(part for part in parts if part)


def _work(pending: Backlog, unfinished: str) -> str:
    return _sentences(unfinished, pending.summary if pending.has_data or not unfinished else "")


def _unfinished(
    batch_id: int | None,
    *,
    quarantined_whole: bool,
    written: bool,
    swap_pending: bool,
    backfill: int | None,
    claimed: bool,
    undoing: bool,
) -> str:
    parts = []
    if quarantined_whole:
        parts.append(f"batch {batch_id} was refused and goes to quarantine whole")
    elif written:
        parts.append(f"batch {batch_id} is written and not recorded yet; its next run records it")
    elif batch_id is not None:
        parts.append(f"batch {batch_id} was planned and not committed")
    if swap_pending:
        parts.append("a full refresh waits to be swapped in")
    if backfill is not None:
        parts.append(f"backfill or reingest {backfill} is half-written and will be finished first")
    if claimed:
        parts.append("a replay of its quarantine was interrupted and will be finished or released first")
    if undoing:
        parts.append("an undo was interrupted and will be finished first if it has written anything")
    return _sentences(*parts)


def _heartbeat(flow: Flow, is_due: bool) -> str:
    if not is_due or flow.watermark is None:
        return ""
    return f"a heartbeat is due, because no rows came for {flow.watermark.idle}"


def _rewritten(number: int) -> str:
    if not number:
        return ""
    files = count(number, "file")
    return f"{files} changed after being read and will not be read again: land the new content under a new name, or reingest"


def _sent_again(flow: Flow, ref: CheckpointRef) -> str:
    """What the first run of a new version of a sink's flow sends: a checkpoint begins with the whole table."""
    if not flow.kind.sends or (ref.version, ref.refresh) == (1, 0):
        return ""
    return f"v{ref.version} sends every row of {flow.source_tables[0]} to {flow.target.name} again"


def _expiry_warning(layout: Layout, resolved: ResolvedFlow, pending: Backlog) -> str:
    """A warning if the topic's retention will soon delete unread messages, in the words of the alert `expiring`; else empty."""
    pipeline, flow = resolved.pipeline, resolved.flow
    runs = pipeline.thresholds_of(flow).expiry_runs
    if runs is None or not pending.unread:
        return ""
    now = pendulum.now("UTC")
    remaining = expiry.time_to_expiry(
        plans.read(layout, pipeline.name, flow.name),
        pending.first_offsets,
        pending.unread,
        now,
        dates.moment(pending.unread_until_ms),
    )
    if remaining is None:
        return ""
    if remaining >= expiry.limit(runs, interval_of(pipeline, now, resolved.declared)):
        return ""
    return f"the topic will delete unread messages in ~{span(remaining)}: run the flow, or raise the topic's retention"


def _is_small(all_lags: tuple[Lag, ...]) -> bool:
    lags = [lag for lag in all_lags if lag.error is None]
    if any(lag.bytes is None for lag in lags):
        return False
    total = sum(lag.bytes or 0 for lag in lags)
    return total < (SMALL_FIRST_BYTES if any(lag.first for lag in lags) else SMALL_BYTES)
