"""Is there anything new, and how far behind is a flow? Answered from its checkpoint and its source, with no JVM.

The rules are those of docs/architecture.md, "Is there anything new": a batch that was planned and not committed is
work, what the source holds past the committed position is work, and whenever the source cannot tell, it is work too.
"""

from __future__ import annotations

import dataclasses
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from tidegate import checkpoint, fingerprints, progress, wording
from tidegate.environment import Environment
from tidegate.layout import Layout
from tidegate.probes import delta, files, kafka
from tidegate.progress import PlannedBatch
from tidegate.spec import ChangeFeed, FileSource, Flow, KafkaSource, Pipeline

SMALL_BYTES = 64_000_000
"""Below this a run ends before full compilation would pay (docs/architecture.md, "Start-up")."""

_OLDEST_MS = 3650 * 24 * 3600 * 1000
"""The stream's ``maxFileAge``: a file older than the newest by more is passed over in silence."""


@dataclass(frozen=True, kw_only=True)
class Lag:
    """How far one flow is behind its source."""

    flow: str
    source: Literal["files", "kafka", "change_feed"]
    rows: int | None = None
    """Records, messages or change rows not read yet; None when nobody can tell."""
    rows_exact: bool = True
    bytes: int | None = None
    """Bytes not read yet, as they lie there; None when nobody can tell."""
    bytes_exact: bool = True
    files: int | None = None
    """Files not read yet, of a landing folder or a change feed."""
    offsets: int | None = None
    """Kafka offsets not read yet, over all partitions."""
    versions: int | None = None
    """Commits of the source table that changed data and were not read to their end."""
    pending_batch: int | None = None
    """The batch that was planned and not committed; the next run does it again."""
    last_committed: int | None = None
    has_work: bool = False
    refused: bool = False
    """The pending batch waits for a person: the same suite and code would refuse it again."""
    is_new: bool = False
    """The checkpoint was never used: a first load, or a new version."""
    reason: str = ""
    """One sentence for people: why there is work, or why not."""
    position: str = "not begun"
    """Up to where the source was read, in words."""
    rewritten: int = 0
    """Files that changed after they were read. The file source never reads a path twice."""

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        return dataclasses.asdict(self)


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Whether to start a JVM."""

    work: bool
    reasons: tuple[str, ...]
    """Why, flow by flow."""
    lags: tuple[Lag, ...]
    small: bool
    """So little is pending that a quick start matters more than fully compiled code."""

    @property
    def reason(self) -> str:
        """All reasons in one sentence."""
        return "; ".join(self.reasons)

    @property
    def refused(self) -> bool:
        """Whether a flow waits because its batch was refused."""
        return any(lag.refused for lag in self.lags)

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        return dataclasses.asdict(self)


@dataclass(frozen=True)
class _Place:
    """One flow's checkpoint, read once."""

    environment: Environment
    layout: Layout
    flow: Flow
    ref: checkpoint.CheckpointRef
    folder: Path
    state: progress.Progress
    committed: PlannedBatch | None
    timeout: float


def measure(environment: Environment, pipeline: Pipeline, flow: Flow, *, timeout: float = 5.0) -> Lag:
    """How far a flow is behind its source now.

    Args:
        environment: Places.
        pipeline: The flow's pipeline.
        flow: The flow.
        timeout: Seconds that a Kafka broker may take to answer.

    Raises:
        SourceError: The source is not there (terminal) or does not answer (`SourceUnavailableError`, transient).
        CheckpointCorruptError: A file of the checkpoint cannot be read.
    """
    layout = Layout.of(environment)
    ref = checkpoint.current(layout, pipeline, flow)
    folder = ref.path(layout)
    state = progress.read(folder)
    committed = None if state.last_committed is None else progress.planned_batch(folder, state.last_committed)
    place = _Place(environment, layout, flow, ref, folder, state, committed, timeout)
    match flow.source:
        case FileSource():
            lag = _of_files(place, flow.source)
        case KafkaSource():
            lag = _of_topic(place, flow.source)
        case ChangeFeed():
            lag = _of_feed(place, flow.source)
    return _with_pending_batch(environment, place, lag)


def plan(environment: Environment, pipeline: Pipeline, flows: tuple[Flow, ...], *, timeout: float = 5.0) -> Plan:
    """Whether some flows of a pipeline have anything to do.

    Args:
        environment: Places.
        pipeline: The pipeline.
        flows: The chosen ones. A flow below one that has work has work itself; one below a refused flow waits with it.
        timeout: Seconds that a Kafka broker may take to answer.

    Raises:
        CheckpointIncompatibleError: A declaration changed in a way that its checkpoint cannot follow.
        SourceError: A source is not there or does not answer.
        CheckpointCorruptError: A file of a checkpoint cannot be read.
    """
    layout = Layout.of(environment)
    lags: dict[str, Lag] = {}
    for flow in (known for known in pipeline.flows if known in flows):
        checkpoint.check_compatible(layout, pipeline, flow)
        lag = measure(environment, pipeline, flow, timeout=timeout)
        upstream = pipeline.upstream_of(flow)
        above = lags.get(upstream.name) if upstream is not None else None
        if above is not None and above.refused:
            lag = dataclasses.replace(lag, has_work=False, refused=True, reason=f"waits for {above.flow}")
        elif above is not None and above.has_work and not lag.has_work and not lag.refused:
            lag = dataclasses.replace(lag, has_work=True, reason=f"{above.flow} has work, and this reads what it writes")
        lags[flow.name] = lag
    working = [lag for lag in lags.values() if lag.has_work]
    told = [lag for lag in lags.values() if lag.has_work or lag.refused] or list(lags.values())
    return Plan(
        work=bool(working),
        reasons=tuple(f"{lag.flow}: {lag.reason}" for lag in told),
        lags=tuple(lags.values()),
        small=bool(working) and _is_small(working),
    )


def _is_small(working: list[Lag]) -> bool:
    pending = [lag.bytes for lag in working]
    known = [size for size in pending if size is not None]
    return len(known) == len(pending) and sum(known) < SMALL_BYTES and not any(lag.is_new for lag in working)


def _of_files(place: _Place, source: FileSource) -> Lag:
    # Spark logs paths without `..` and doubled slashes.
    folder = Path(os.path.normpath(place.layout.landing(source.path)))
    listed = files.list_files(folder, source.glob)
    log_offset = -1 if place.committed is None else place.committed.log_offset
    seen = {file.path: file.modified_ms for file in progress.source_files(place.folder, up_to=log_offset)}
    fresh = [file for file in listed if file.path not in seen]
    oldest = max(seen.values(), default=0) - _OLDEST_MS
    unread = [file for file in fresh if file.has_readable_name and file.modified_ms >= oldest]
    rewritten = sum(seen.get(file.path, file.modified_ms) != file.modified_ms for file in listed)
    rows = files.estimate_rows(unread, has_header=source.format == "csv") if unread else 0
    size = sum(file.size for file in unread)
    told = f"{wording.count(len(unread), 'new file')} ({wording.size(size)})" if unread else f"nothing new in {folder}"
    left_out = len(fresh) - len(unread)
    if rewritten:
        told += f"; {wording.count(rewritten, 'file')} changed after being read and will not be read again: land it under a new name"
    if left_out:
        told += f"; {wording.count(left_out, 'file')} can never be read: the name is not UTF-8, or it is ten years older than the newest"
    return Lag(
        flow=place.flow.name,
        source="files",
        rows=rows,
        rows_exact=not unread,
        bytes=size,
        files=len(unread),
        has_work=bool(unread) or progress.newest_log_batch(place.folder) > log_offset,
        reason=told,
        position="not begun" if place.committed is None else f"{wording.count(len(seen), 'file')} read",
        rewritten=rewritten,
    )


def _of_topic(place: _Place, source: KafkaSource) -> Lag:
    held = kafka.end_offsets(place.environment.kafka, source.topic, place.timeout)
    ours = {} if place.committed is None else place.committed.kafka_offsets(source.topic)
    behind = sum(end - max(ours.get(partition, first), first) for partition, (first, end) in held.items())
    gone = [p for p, offset in ours.items() if p not in held or offset < held[p][0] or offset > held[p][1]]
    told = f"{wording.count(behind, 'new message')} in {wording.count(len(held), 'partition')}" if behind else f"nothing new in topic {source.topic}"
    if gone:
        told = f"topic {source.topic} no longer holds what is read next in partition {', '.join(map(str, gone))}"
    target = place.layout.table(place.flow.target.name)
    each = delta.row_bytes(target) if behind > 0 else None
    return Lag(
        flow=place.flow.name,
        source="kafka",
        rows=max(behind, 0),
        # A new version begins behind what bronze holds already, which only the job looks up.
        rows_exact=place.committed is not None or delta.version(target) is None,
        bytes=0 if behind <= 0 else None if each is None else round(each * behind),
        bytes_exact=behind <= 0,
        offsets=max(behind, 0),
        has_work=behind > 0 or bool(gone),
        reason=told,
        position=", ".join(f"{partition}:{offset}" for partition, offset in sorted(ours.items())) or "not begun",
    )


def _of_feed(place: _Place, source: ChangeFeed) -> Lag:
    path = place.layout.table(source.table)
    at = None if place.committed is None else place.committed.delta
    changes = delta.snapshot(path) if at is None else delta.changes_since(path, at)
    if changes is None:
        lost = at is not None
        told = f"table {source.table} is gone" if lost else f"table {source.table} does not exist yet"
        return Lag(flow=place.flow.name, source="change_feed", rows=None if lost else 0, bytes=None if lost else 0, has_work=lost, reason=told)
    told = f"nothing new in {source.table}"
    if changes.files:
        rows = "" if changes.rows is None else f", {wording.marked(wording.count(changes.rows, 'row'), changes.rows_exact)}"
        what = "the first load" if at is None else wording.count(changes.versions, "new version")
        told = f"{what} of {source.table} ({wording.size(changes.bytes)}{rows})"
    if changes.doubt:
        told = f"{source.table} cannot tell what is new: {changes.doubt}"
    return Lag(
        flow=place.flow.name,
        source="change_feed",
        rows=changes.rows,
        rows_exact=changes.rows_exact,
        bytes=None if changes.doubt else changes.bytes,
        bytes_exact=not changes.doubt,
        files=changes.files,
        versions=changes.versions,
        has_work=bool(changes.files) or changes.doubt is not None,
        reason=told,
        position="not begun" if at is None else _told_position(at),
    )


def _told_position(at: progress.DeltaPosition) -> str:
    if at.of_snapshot:
        return f"first load of version {at.version}, file {at.index + 1}"
    return f"version {at.version - 1}" if at.index < 0 else f"version {at.version}, file {at.index + 1}"


def _with_pending_batch(environment: Environment, place: _Place, lag: Lag) -> Lag:
    pending = place.state.pending_batch
    lag = dataclasses.replace(
        lag, pending_batch=pending, last_committed=place.state.last_committed, is_new=place.state.last_planned is None
    )
    if pending is not None:
        if _is_refused_again(environment, place, pending):
            suite = place.flow.gate.suite if place.flow.gate else "its gate"
            told = f"waits: batch {pending} was refused by {suite}; mend suite or code"
            return dataclasses.replace(lag, has_work=False, refused=True, reason=told)
        return dataclasses.replace(lag, has_work=True, reason=f"batch {pending} was planned and not finished; {lag.reason}")
    if not lag.has_work and _waits_in_staging(place):
        return dataclasses.replace(lag, has_work=True, reason=f"version {place.ref.version} is built and not yet in place")
    return lag


def _is_refused_again(environment: Environment, place: _Place, pending: int) -> bool:
    """Whether a gate refused this batch, and suite and code are still the same."""
    path = place.layout.refusal(place.ref.dag_id, place.ref.flow, place.ref.version, place.ref.refresh)
    gate, transform = place.flow.gate, place.flow.transform
    if gate is None:
        return False
    try:
        noted = json.loads(path.read_text(encoding="utf-8"))
        suite = fingerprints.suite_fingerprint(environment.project / "expectations" / f"{gate.suite}.json")
        code = fingerprints.code_fingerprint(transform.partition(":")[0]) if transform else ""
        return bool(noted["batch_id"] == pending and noted["suite_fingerprint"] == suite and noted["code_fingerprint"] == code)
    except (OSError, ValueError, KeyError, TypeError):
        return False  # in doubt, let the gate judge


def _waits_in_staging(place: _Place) -> bool:
    """Whether a new version was built to its end and a crash came before it was swapped in."""
    staging = place.layout.staging(place.ref.dag_id, place.ref.flow, place.ref.version, place.ref.refresh)
    if not staging.is_dir() or delta.transaction_version(staging, place.ref.app_id) is None:
        return False
    return delta.transaction_version(place.layout.table(place.flow.target.name), place.ref.app_id) is None
