"""What is new and how far behind a flow is, and whether a run has work: asked without a JVM, and without a lock.

It may be asked while a job works: everything is read only, and in an order that a commit in between does not spoil.
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import pendulum

from tidegate import fingerprints, identity
from tidegate.alerting import expiry
from tidegate.checkpoints import checkpoint, intervention, lease, progress, refusal
from tidegate.errors import SpecError, TidegateError
from tidegate.layout import Layout
from tidegate.ops import evolution, plans
from tidegate.probes import delta
from tidegate.report import describe_error
from tidegate.spec import ChangeFeed, FileSource, KafkaSource
from tidegate.status import backlog, topic_backlog
from tidegate.wording import count, span

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tidegate.checkpoints.checkpoint import CheckpointRef
    from tidegate.checkpoints.progress import PlannedBatch
    from tidegate.environment import Environment
    from tidegate.spec import Flow, Pipeline
    from tidegate.status.backlog import Backlog

SMALL_BYTES = 64 * 1024 * 1024
"""Below it, C1-only compilation pays (docs/architecture.md, "Start-up")."""
SMALL_FIRST_BYTES = 16 * 1024 * 1024
"""The same for a checkpoint that was never used."""


@dataclass(frozen=True, kw_only=True)
class Lag:
    """How far one flow is behind its source."""

    flow: str
    kind: Literal["files", "kafka", "change_feed"]
    rows: int | None
    """Records still to read; None when nobody can tell."""
    bytes: int | None
    rows_exact: bool
    """False: ``rows`` is an estimate, to be shown with ``~``."""
    bytes_exact: bool
    behind: int
    """Files, messages (offsets), or versions of the source table."""
    pending_batch: int | None
    """A batch that was planned and not committed; the next run does it first."""
    has_work: bool
    refused: bool
    """The pending batch was refused, and neither suite nor code changed since, or its drift has no answer yet."""
    switched_off: bool
    """A person switched the flow off; it has no work, whatever is behind."""
    reason: str
    """Why there is work or none, in one sentence for people, without a full stop."""
    position: str
    """Up to where everything is read and committed."""
    first: bool
    """The checkpoint was never used: a new flow, a new version or a full refresh."""
    ahead: str = ""
    """Exactly what is to be read: ``a.csv, b.csv``, ``offsets 0:15-19 1:10-14``, ``versions 3 to 5``; empty for nothing."""
    rewritten: int = 0
    """Files that changed after they were read; the file source does not see that."""
    ignored: int = 0
    """Files in the landing folder that are hidden, do not fit the glob, or are too old."""
    begins: Mapping[int, int] = field(default_factory=dict)
    """Of a topic: partition to the first offset that it holds."""
    unread: Mapping[int, int] = field(default_factory=dict)
    """Of a topic: partition to the offset that is read next, of those that hold one."""
    error: TidegateError | None = None
    """Why nobody can tell how far the flow is behind; then there are no numbers."""

    @property
    def failed(self) -> bool:
        """Whether a run of the flow would end with `error`; one that is switched off does not run."""
        return self.error is not None and not self.switched_off

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        error = None if self.error is None else describe_error(self.error)
        return dataclasses.asdict(dataclasses.replace(self, error=None)) | {"error": error}


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Whether a run of some flows has work."""

    work: bool
    reasons: tuple[str, ...]
    """One per flow with work or an error, or one per flow when none has work: ``silver: 2 new versions of bronze.flights``."""
    lags: tuple[Lag, ...]
    """In graph order. A flow below one with work has work."""
    small: bool
    """So little is pending that a quick start is worth more than fast code."""

    @property
    def reason(self) -> str:
        """All reasons in one line."""
        return "; ".join(self.reasons)

    @property
    def errors(self) -> tuple[TidegateError, ...]:
        """Of the flows that would fail; those that need a person come before those that heal by waiting."""
        found = [lag.error for lag in self.lags if lag.error is not None and lag.failed]
        return tuple(sorted(found, key=lambda error: error.transient))


def measure(environment: Environment, pipeline: Pipeline, flow: Flow) -> Lag:
    """How far one flow is behind its own source; what flows above it will write is not counted.

    Raises:
        SourceError: The landing folder or the topic is not there.
        SourceUnavailableError: No broker answers. Transient.
        OffsetsExpiredError: The source no longer holds what comes next.
        CheckpointCorruptError: A file of the checkpoint cannot be read.
    """
    layout = Layout.of(environment)
    ref = checkpoint.current(layout, pipeline, flow)
    folder = ref.path(layout)
    state = progress.read(folder)
    committed = None if state.last_committed is None else progress.planned_batch(folder, state.last_committed)
    found = _backlog(environment, layout, flow, ref, committed)
    refused = None if state.pending_batch is None else _refused(environment, pipeline, flow, ref, state.pending_batch)
    swap_waits = _swap_waits(layout, pipeline, flow, ref)
    taken = state.pending_batch is not None and refusal.taken(layout, ref, state.pending_batch) is not None
    replay = _half_replay(layout, pipeline, flow, ref)
    claimed = _claim_waits(layout, pipeline, flow)
    unfinished = state.pending_batch is not None or swap_waits or replay is not None or claimed
    off = intervention.switched_off(layout, pipeline.name, flow.name)
    has_work = off is None and refused is None and (found.anything or unfinished)
    return Lag(
        flow=flow.name,
        kind=flow.source.identity()["kind"],
        rows=found.rows,
        bytes=found.size,
        rows_exact=found.rows_exact,
        bytes_exact=found.size_exact,
        behind=found.behind,
        pending_batch=state.pending_batch,
        has_work=has_work,
        refused=refused is not None,
        switched_off=off is not None,
        reason=off.told()
        if off is not None
        else _reason(
            found, state.pending_batch, refused, taken=taken, swap_waits=swap_waits, replay=replay, claimed=claimed
        )
        + _expiry(layout, pipeline, flow, found),
        position=found.position,
        first=state.last_committed is None,
        ahead=found.ahead,
        rewritten=found.rewritten,
        ignored=found.ignored,
        begins=found.begins,
        unread=found.unread,
    )


def plan(environment: Environment, pipeline: Pipeline, flows: tuple[Flow, ...]) -> Plan:
    """Decide whether a run of these flows has work.

    A flow below one that has work has work too; a flow below one that was refused or fails has none, because nothing gets
    past it. What `measure` raises is the error of that flow alone.
    """
    lags: dict[str, Lag] = {}
    stopped: set[str] = set()
    swapping = False
    layout = Layout.of(environment)
    for flow in pipeline.flows:
        if flow not in flows:
            continue
        lag = _measured(environment, pipeline, flow)
        above = pipeline.upstream_of(flow)
        if lag.refused or lag.failed:
            stopped.add(flow.name)
        elif above is not None and above.name in stopped:
            stopped.add(flow.name)
            lag = dataclasses.replace(lag, has_work=False, reason=f"waits: flow {above.name} does not get through")
        elif (
            above is not None
            and above.name in lags
            and lags[above.name].has_work
            and not (lag.has_work or lag.switched_off)
        ):
            lag = dataclasses.replace(lag, has_work=True, reason=f"reads what flow {above.name} writes")
        if lag.error is None:
            swapping = swapping or _swap_waits(layout, pipeline, flow, checkpoint.current(layout, pipeline, flow))
        lags[flow.name] = lag
    work = any(lag.has_work for lag in lags.values())
    told = [lag for lag in lags.values() if lag.has_work or not work or lag.switched_off or lag.flow in stopped]
    return Plan(
        work=work,
        reasons=tuple(f"{lag.flow}: {lag.reason}" for lag in told),
        lags=tuple(lags.values()),
        small=not swapping and _is_small(tuple(lags.values())),
    )


def _measured(environment: Environment, pipeline: Pipeline, flow: Flow) -> Lag:
    """The flow's lag, or why there is none."""
    off = None
    try:
        off = intervention.switched_off(Layout.of(environment), pipeline.name, flow.name)
        return measure(environment, pipeline, flow)
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
            reason=" ".join(error.message.split()) if off is None else off.told(),
            position="",
            first=False,
            error=error,
        )


def _backlog(
    environment: Environment, layout: Layout, flow: Flow, ref: CheckpointRef, committed: PlannedBatch | None
) -> Backlog:
    match flow.source:
        case FileSource():
            return backlog.of_files(layout.landing(flow.source.path), flow.source, ref.path(layout), committed)
        case KafkaSource():
            table = layout.table(flow.target.name)
            return topic_backlog.of_topic(environment.kafka, flow.source, table, layout, ref, committed)
        case ChangeFeed():
            return backlog.of_table(layout.table(flow.source.table), flow.source, committed)


def _refused(environment: Environment, pipeline: Pipeline, flow: Flow, ref: CheckpointRef, pending: int) -> str | None:
    """Why the pending batch waits, if another attempt at it would end as before."""
    layout = Layout.of(environment)
    if refusal.taken(layout, ref, pending) is not None:
        return None
    try:
        told = refusal.noted(layout, ref)
        if told.get("batch_id") != pending:
            return None
        if "drift" in told:
            drift = evolution.waits_for(layout, pipeline, flow)
            wait = f"waits: batch {pending} was refused by its frozen contract; drift {drift} needs an answer"
            return wait if drift is not None else None
        if flow.gate is None:
            return None
        module = (flow.transform or "").partition(":")[0]
        suite = environment.project / "expectations" / f"{flow.gate.suite}.json"
        now = {
            "suite_fingerprint": fingerprints.suite_fingerprint(suite),
            "code_fingerprint": fingerprints.code_fingerprint(module) if module else "",
        }
    except (OSError, ValueError, SpecError):
        # A suite or a transform that is not there: the job says which.
        return None
    if any(told.get(name) != value for name, value in now.items()):
        return None
    return f"waits: batch {pending} was refused by {flow.gate.suite}; mend the suite, the transform or the data"


def _swap_waits(layout: Layout, pipeline: Pipeline, flow: Flow, ref: CheckpointRef) -> bool:
    """Whether a full refresh is on its way: staged, and the live table does not hold it yet."""
    staging = layout.staging(pipeline.name, flow.name, ref.version, ref.refresh)
    return staging.is_dir() and delta.transaction_version(layout.table(flow.target.name), ref.app_id) is None


def _half_replay(layout: Layout, pipeline: Pipeline, flow: Flow, ref: CheckpointRef) -> int | None:
    """The number of a replay that wrote something and was not finished (`tidegate.spark.reprocessing.replay`)."""
    plans = sorted(
        layout.replays(pipeline.name, flow.name).glob("*.json"), key=lambda path: (len(path.name), path.name)
    )
    if not plans or json.loads(plans[-1].read_text(encoding="utf-8"))["done"]:
        return None
    number, app_id = int(plans[-1].stem), dataclasses.replace(ref, purpose=identity.WINDOW).app_id
    written = (layout.table(flow.target.name), layout.quarantine(pipeline.name, flow.name))
    return number if any(delta.transaction_version(path, app_id) == number for path in written) else None


def _claim_waits(layout: Layout, pipeline: Pipeline, flow: Flow) -> bool:
    """Whether a replay that ended in the middle has quarantined entries in hand; one that goes on holds the lease."""
    if not layout.claim(pipeline.name, flow.name).exists():
        return False
    return lease.holder(layout, lease.checkpoint_resource(pipeline.name, flow.name)) is None


def _reason(
    found: Backlog,
    pending: int | None,
    refused: str | None,
    *,
    taken: bool,
    swap_waits: bool,
    replay: int | None,
    claimed: bool,
) -> str:
    if refused is not None:
        return refused
    told = []
    if taken:
        told.append(f"batch {pending} was refused and goes to quarantine whole")
    elif pending is not None:
        told.append(f"batch {pending} was planned and not committed")
    if swap_waits:
        told.append("a full refresh waits to be swapped in")
    if replay is not None:
        told.append(f"replay {replay} is half-written and will be finished first")
    if claimed:
        told.append("a replay of its quarantine was interrupted and will be finished or undone first")
    if found.anything or not told:
        told.append(found.what)
    if found.passed_over:
        told.append(found.passed_over)
    if found.rewritten:
        files = count(found.rewritten, "file")
        told.append(f"{files} changed after being read, and will not be read again: land it under a new name")
    return "; ".join(told)


def _expiry(layout: Layout, pipeline: Pipeline, flow: Flow, found: Backlog) -> str:
    """That a topic will soon have deleted what was not read, for the end of a sentence; empty where it will not."""
    runs = pipeline.thresholds_of(flow).expiry_runs
    if runs is None or not found.unread:
        return ""
    now = pendulum.now("UTC")
    left = expiry.time_left(plans.read(layout, pipeline.name, flow.name), found.begins, found.unread, now)
    if left is None:
        return ""
    from tidegate.status.observation import interval_of

    if left >= expiry.limit(runs, interval_of(pipeline, now)):
        return ""
    return f"; at the present rate the topic will have deleted unread messages in ~{span(left)}: run the flow, or keep them longer"


def _is_small(all_lags: tuple[Lag, ...]) -> bool:
    lags = [lag for lag in all_lags if lag.error is None]
    if any(lag.bytes is None for lag in lags):
        return False
    total = sum(lag.bytes or 0 for lag in lags)
    return total < (SMALL_FIRST_BYTES if any(lag.first for lag in lags) else SMALL_BYTES)
