"""What is damaged of a flow, so that only a new checkpoint goes on: its tables, its checkpoint, or what it has read. Starts no JVM.

Each flow is looked at by what it knows itself. So a flow below a damaged table is damaged only if it cannot follow the changes by
which that table becomes right again; else its next increment reads them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from tidegate.checkpoints import checkpoint, progress
from tidegate.errors import CheckpointCorruptError, OffsetsExpiredError, TableUnreadableError
from tidegate.probes import delta_history, delta_log
from tidegate.sources.tables import measure as tables
from tidegate.spec import FileSource, Flow, KafkaSource
from tidegate.status import evidence, proofs
from tidegate.store import Address

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tidegate.lake.layout import Layout
    from tidegate.lake.place import Place
    from tidegate.lake.table_history import Position
    from tidegate.project.resolution import ResolvedFlow

Kind = Literal["table", "checkpoint", "source", "unfinished"]
"""``table``: one that the flow writes. ``source``: one that it reads, of which it has read what is no longer there.
``unfinished``: nothing new; an earlier recovery of the flow was interrupted."""


@dataclass(frozen=True, kw_only=True)
class Damage:
    """Something that is damaged, by one flow that stands on it."""

    kind: Kind
    pipeline: str
    flow: str
    what: str
    """The table or the checkpoint."""
    cause: str
    """What happened to it, as the rest of a sentence."""

    def summary(self) -> str:
        """For people: ``shop/silver: silver.shop: its log ends at version 3, …``."""
        return f"{self.pipeline}/{self.flow}: {self.what}: {self.cause}"


def of_flow(layout: Layout, resolved: ResolvedFlow) -> tuple[Damage, ...]:
    """What is damaged of one flow; empty if its checkpoint can go on.

    Raises:
        TidegateError: It cannot be judged: the log of the ledger is damaged, or the operating system refuses to read.
    """
    return tuple(_damages(resolved, checkpoint.current(resolved.place(layout), resolved.flow.checkpoint_version)))


def cut_off(address: Address) -> str:
    """What is wrong with the log of a table that cannot be read up to its newest version; empty if nothing is."""
    newest, later = delta_history.extent(address)
    if newest is None:
        return ""
    readable = delta_history.readable_version(address)
    try:
        delta_log.check(address)
        if readable != newest:
            delta_history.position(address, 0 if readable is None else readable + 1)
    except TableUnreadableError as error:
        return f"{error.file.rpartition('/')[2]} {error.damage}"
    if readable != newest:
        return f"its log cannot be read from version {0 if readable is None else readable + 1} on"
    return "" if later is None else f"its log ends at version {newest}, but has files of version {later}"


def _damages(resolved: ResolvedFlow, place: Place) -> Iterator[Damage]:
    pipeline, flow = resolved.pipeline, resolved.flow

    def damage(kind: Kind, what: str, cause: str) -> Damage:
        return Damage(kind=kind, pipeline=pipeline.name, flow=flow.name, what=what, cause=cause)

    names = place.layout.delta_tables()
    unreadable = False
    for path in own_paths(place, resolved.flow):
        if cause := cut_off(path):
            name = next((each for each, other in names.items() if other == path), flow.target.name)
            yield damage("table", name, cause)
            unreadable = True
    state = None
    try:
        state = _read_checkpoint(resolved, place.checkpoint)
    except CheckpointCorruptError as error:
        yield damage("checkpoint", f"checkpoint v{place.version}/{place.refresh}", error.problem.rstrip("."))
    if unreadable or state is None:
        return
    given = evidence.read(place, flow)
    known = given.known
    doubtful: set[str] = set()
    for doubt in proofs.doubts(resolved, place, given):
        doubtful.add(doubt.table)
        yield damage("source" if doubt.table in flow.source_tables else "table", doubt.table, doubt.what)
    for table in dict.fromkeys(flow.source_tables):
        if table not in doubtful and _has_read_behind(path := place.layout.read_table(table), known.of(path)):
            doubtful.add(table)
            yield damage("source", table, "its log cannot be read up to the version that the flow has read")
    if doubtful:
        return
    try:
        proven = proofs.Proven(known=known, tables=_newest(resolved, place))
        proofs.check_checkpoint(resolved, place, proven, state.last_planned)
    except CheckpointCorruptError as error:
        yield damage("checkpoint", f"checkpoint v{place.version}/{place.refresh}", error.problem.rstrip("."))
        return
    if flow.feeds and flow.kind.follows_feed and state.last_committed is not None:
        try:
            tables.backlog_of(resolved, place, progress.planned_batch(place.checkpoint, state.last_committed))
        except OffsetsExpiredError as error:
            yield damage("source", ", ".join(dict.fromkeys(flow.source_tables)), error.problem.rstrip("."))
            return
        except TableUnreadableError:
            # The damage of the flow that writes it.
            pass
    origin = checkpoint.ORIGIN.read(place)
    if origin is not None and origin.recovers:
        yield damage("unfinished", flow.target.name, f"its recovery, begun at {origin.recorded_at}, is not finished")


def own_paths(place: Place, flow: Flow) -> tuple[Address, ...]:
    """The tables that a flow writes, with the heartbeats of a flow with a watermark."""
    beats = (place.heartbeats,) if flow.watermark is not None else ()
    return (*evidence.own_tables(place, flow), *beats)


def _newest(resolved: ResolvedFlow, place: Place) -> dict[Address, Position]:
    newest = {path: delta_history.extent(path)[0] for path in evidence.own_tables(place, resolved.flow)}
    return {path: delta_history.position(path, version) for path, version in newest.items() if version is not None}


def _has_read_behind(address: Address, position: Position | None) -> bool:
    """Whether a flow has read behind the last version up to which the log of a table can be read."""
    if position is None or not cut_off(address):
        return False
    readable = delta_history.readable_version(address)
    return readable is None or position.version > readable


def _read_checkpoint(resolved: ResolvedFlow, folder: Address) -> progress.Progress:
    """The state of a checkpoint, of which all files that the next run needs are read.

    Raises:
        CheckpointCorruptError: One of them is missing, torn or of another source.
    """
    state, flow = progress.read(folder), resolved.flow
    planned = [each for each in {state.last_planned, state.last_committed} if each is not None]
    for batch in planned:
        offsets = progress.planned_batch(folder, batch)
        if isinstance(flow.source, FileSource):
            progress.source_files(folder, up_to=offsets.log_offset)
        elif isinstance(flow.source, KafkaSource):
            offsets.kafka_offsets(flow.source.topics)
        elif flow.state is not None:
            offsets.delta_positions(len(flow.feeds) + 1)
        elif flow.kind.follows_feed:
            offsets.delta_positions(len(flow.feeds))
    return state
