"""The lag of a flow: what it has still to read, and what it waits for. Starts no JVM and takes no lock.

Safe to call while a job runs: nothing is written, and files are read in an order that tolerates a commit in between.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pendulum

from tidegate import dates
from tidegate.alerting import expiry
from tidegate.checkpoints import checkpoint, derivation, overrides, progress, rewrite
from tidegate.errors import SourceUnavailableError, TableInDoubtError, TidegateError
from tidegate.formatting import count, span
from tidegate.layout import Layout
from tidegate.ops import plans
from tidegate.probes import delta, delta_log
from tidegate.report import describe_error
from tidegate.states import Facts, RefusedBy
from tidegate.status import idle, proofs, topic_intervals, unfinished, wait
from tidegate.status.interval import interval_of
from tidegate.status.sources import source

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tidegate.environment import Environment
    from tidegate.place import Place
    from tidegate.resolution import ResolvedFlow
    from tidegate.spec import Flow
    from tidegate.status.intervals import Completeness
    from tidegate.status.sources.source import Backlog


@dataclass(frozen=True, kw_only=True)
class Lag:
    """How far one flow is behind its source."""

    flow: str
    kind: str
    """Of the source: ``files``, ``kafka``, ``change_feed``, ``snapshots``."""
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
    """For a topic or a table: up to when its retention keeps all that is unread, in milliseconds since 1970; None if that is far off
    or unknown."""
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
            in_doubt=isinstance(self.error, TableInDoubtError),
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


def measure(environment: Environment, resolved: ResolvedFlow) -> Lag:
    """The lag of one flow behind its own source; rows that upstream flows have yet to write are not counted.

    Raises:
        SpecError: The flow's suite or transform is missing or cannot be read, or another flow wrote its table.
        UndeclaredDependenceError: An earlier run found that the transform depends on rows that the declaration does not name.
        SourceError: The landing folder or the topic does not exist.
        SourceUnavailableError: No broker answers. Transient.
        OffsetsExpiredError: The source no longer has the data that the checkpoint reads next.
        CheckpointCorruptError: A file of the checkpoint cannot be read, or it is older than the tables.
        TableUnreadableError: The log of a table that the flow reads or writes is damaged.
        TableInDoubtError: A table that the flow reads or writes does not have the history that is known of it.
    """
    if resolved.error is not None:
        raise resolved.error
    layout, pipeline, flow = Layout.of(environment), resolved.pipeline, resolved.flow
    _check_logs(layout, resolved)
    derivation.check_recorded(layout, resolved)
    place = checkpoint.current(layout, pipeline, flow)
    folder = place.checkpoint
    proven = proofs.check(resolved, place)
    state = progress.read(folder)
    proofs.check_checkpoint(resolved, place, proven, state.last_planned)
    if state.last_committed is None:
        checkpoint.check_writers(flow, place, delta.writers(layout.table(flow.target.name), place.app_id))
    committed = None if state.last_committed is None else progress.planned_batch(folder, state.last_committed)
    pending = source.load(flow).backlog(environment, resolved, place, committed)
    # A newer snapshot takes the place of a refused one.
    waiting = None if flow.kind.snapshots and pending.has_data else state.pending_batch
    judged = rewrite.refused(place)
    left = unfinished.read(place, flow, state.pending_batch)
    refused = None if waiting is None else wait.of_batch(resolved, place, waiting)
    if refused is None:
        refused = wait.of_limits(resolved, place, judged, swap_pending=left.swap_pending, batch=waiting)
    beat = idle.heartbeat_due(resolved, place, pendulum.now("UTC"))
    completeness = topic_intervals.read(environment.kafka, layout, pipeline, flow, pendulum.now("UTC"))
    remarks = _sentences(
        completeness.summary() if completeness is not None else "",
        pending.skipped,
        _rewritten(pending.rewritten),
        proven.summary(),
        _sent_again(flow, place) if state.last_committed is None else "",
        _expiry_warning(layout, resolved, pending),
        judged.summary() if judged is not None and refused is None else "",
    )
    off = overrides.switched_off(place)
    has_work = off is None and refused is None and (pending.has_data or left.exists or beat is not None)
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
        refused_by=None if refused is None else refused.by,
        written=refused is None and left.written,
        refresh_pending=left.swap_pending,
        switched_off=off is not None,
        reason=off.summary()
        if off is not None
        else _sentences(
            _work(pending, left.summary()) if refused is None else refused.reason,
            _heartbeat(flow, beat is not None),
            remarks,
        ),
        reads=pending.summary,
        unfinished="" if refused is not None else left.summary(),
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


def _check_logs(layout: Layout, resolved: ResolvedFlow) -> None:
    """Check the logs of the tables that a batch of the flow writes; those that it reads are read below.

    Raises:
        TableUnreadableError: One of them is damaged. A batch would find it after its first write.
    """
    place, ops = resolved.place(layout), resolved.place(layout).of_pipeline.ops
    own = (layout.table(resolved.flow.target.name), place.quarantine, place.late)
    for path in (*own, ops("ledger"), ops("verdicts")):
        delta_log.check(path)


def _sentences(*parts: str) -> str:
    return "; ".join(part for part in parts if part)


def _work(pending: Backlog, left: str) -> str:
    return _sentences(left, pending.summary if pending.has_data or not left else "")


def _heartbeat(flow: Flow, is_due: bool) -> str:
    if not is_due or flow.watermark is None:
        return ""
    return f"a heartbeat is due, because no rows came for {flow.watermark.idle}"


def _rewritten(number: int) -> str:
    if not number:
        return ""
    files = count(number, "file")
    return f"{files} changed after being read and will not be read again: land the new content under a new name, or reingest"


def _sent_again(flow: Flow, place: Place) -> str:
    """What the first run of a new version of a sink's flow sends: a checkpoint begins with the whole table."""
    if not flow.kind.sends or (place.version, place.refresh) == (1, 0):
        return ""
    return f"v{place.version} sends every row of {flow.source_tables[0]} to {flow.target.name} again"


def _expiry_warning(layout: Layout, resolved: ResolvedFlow, pending: Backlog) -> str:
    """A warning if the topic's retention will soon delete unread messages, in the words of the alert `expiring`; else empty."""
    pipeline, flow = resolved.pipeline, resolved.flow
    runs = pipeline.thresholds_of(flow).expiry_runs
    if runs is None or not pending.unread:
        return ""
    now = pendulum.now("UTC")
    remaining = expiry.time_to_expiry(
        plans.read(resolved.place(layout)),
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
