"""Whether the tables that a flow stands on have the history that is known of them. Starts no JVM.

Tables that it reads are proven in its own eyes, and in those of the flows that write them; tables that it writes in its own.
Evidence, the newest wins: the note beside the checkpoint, the commits of the flow, which carry the same positions, and the ledger.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tidegate.checkpoints import checkpoint, history, progress
from tidegate.errors import CheckpointCorruptError, TableInDoubtError, TidegateError
from tidegate.probes import delta, delta_history
from tidegate.probes.delta_history import Standing
from tidegate.table_history import Doubt, ForeignCommit, Position, Proof

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from tidegate.checkpoints.checkpoint import CheckpointRef
    from tidegate.checkpoints.history import History
    from tidegate.layout import Layout
    from tidegate.resolution import ResolvedFlow
    from tidegate.spec import Flow, Pipeline


@dataclass(frozen=True, kw_only=True)
class Proven:
    """What a flow stands on is proven."""

    known: History
    """What was known before."""
    tables: dict[Path, Position] = field(default_factory=dict)
    """The newest version of every table that exists."""
    foreign: tuple[ForeignCommit, ...] = ()
    """Commits of others that changed rows: those that the flow has not read yet, and the last ones that it has."""

    def summary(self) -> str:
        """The commits of others, for people; empty without one."""
        return "; ".join(commit.summary() for commit in self.foreign)


def own_tables(layout: Layout, pipeline: Pipeline, flow: Flow, ref: CheckpointRef) -> tuple[Path, ...]:
    """The tables that a flow writes, with the staging table of its checkpoint; some may not exist."""
    if flow.kind.sends:
        return ()
    names = (pipeline.name, flow.name)
    staging = layout.staging(*names, ref.version, ref.refresh)
    return (layout.quarantine(*names), layout.late(*names), staging, layout.table(flow.target.name))


def check(
    layout: Layout, resolved: ResolvedFlow, ref: CheckpointRef, since: Mapping[Path, Position] | None = None
) -> Proven:
    """Prove the tables that a flow stands on.

    Args:
        since: Positions in tables that were proven a moment ago, behind which everything is read again.

    Raises:
        TableInDoubtError: The history of one of them is not proven.
    """
    return _Check(layout, resolved, ref, since or {}).run()


@dataclass(frozen=True)
class _Check:
    layout: Layout
    resolved: ResolvedFlow
    ref: CheckpointRef
    since: Mapping[Path, Position]

    def run(self) -> Proven:
        pipeline, flow = self.resolved.pipeline, self.resolved.flow
        known = evidence(self.layout, pipeline, flow, self.ref)
        tables: dict[Path, Position] = {}
        foreign: list[ForeignCommit] = list(known.foreign)
        for path, proof in (*self._sources(known), *self._own(known)):
            tables[path] = proof.position
            foreign += proof.foreign
        return Proven(known=known, tables=tables, foreign=tuple(dict.fromkeys(foreign)))

    def _sources(self, known: History) -> Iterator[tuple[Path, Proof]]:
        flow = self.resolved.flow
        follows = self.resolved.landing is None and not (flow.kind.stateful or flow.kind.snapshots)
        for table in flow.source_tables:
            path, writer = self.layout.table(table), writer_of(self.resolved, table)
            vouched, owner = -1, ""
            if writer is not None:
                above, ref = writer[1], checkpoint.current(self.layout, *writer)
                owner = f"{ref.dag_id}/{ref.flow}/"
                position = evidence(self.layout, *writer, ref).of(self.layout, path)
                if position is not None:
                    vouched = position.version
                    self._prove(path, position, Standing(table=table, owner=owner), above, writer[0])
            seen_by_flow = Standing(table=table, owner=owner, follows_changes=follows, vouched=vouched)
            position = known.of(self.layout, path)
            if proof := self._prove(path, position, seen_by_flow, flow, self.resolved.pipeline):
                yield path, proof
        if flow.state is not None and self.resolved.writer is not None:
            names = (self.resolved.pipeline.name, self.resolved.writer.name)
            path = self.layout.heartbeats(*names)
            standing = Standing(table=f"heartbeats.{'.'.join(names)}", owner=f"{'/'.join(names)}/", platform=True)
            if proof := self._prove(path, known.of(self.layout, path), standing, flow, self.resolved.pipeline):
                yield path, proof

    def _own(self, known: History) -> Iterator[tuple[Path, Proof]]:
        pipeline, flow = self.resolved.pipeline, self.resolved.flow
        live, staging = (
            self.layout.table(flow.target.name),
            self.layout.staging(pipeline.name, flow.name, self.ref.version, self.ref.refresh),
        )
        for path in own_tables(self.layout, pipeline, flow, self.ref):
            if path == staging and not path.exists():
                # A swap removes it.
                continue
            name = flow.target.name if path == live else ".".join(path.relative_to(self.layout.lake).parts[:3])
            is_platform = path in (
                self.layout.quarantine(pipeline.name, flow.name),
                self.layout.late(pipeline.name, flow.name),
            )
            standing = Standing(table=name, owner=f"{pipeline.name}/{flow.name}/", platform=is_platform)
            if proof := self._prove(path, known.of(self.layout, path), standing, flow, pipeline):
                yield path, proof

    def _prove(
        self, path: Path, position: Position | None, standing: Standing, by: Flow, pipeline: Pipeline
    ) -> Proof | None:
        """Prove one table in the eyes of a flow."""
        recent = self.since.get(path)
        if recent is not None and (position is None or recent.version >= position.version):
            position = recent
        result = delta_history.prove(path, position, standing)
        if isinstance(result, Doubt):
            raise TableInDoubtError(
                result,
                flow=self.resolved.flow.name,
                known_by=f"{pipeline.name}/{by.name}",
                is_own=(pipeline.name, by.name) == (self.resolved.pipeline.name, self.resolved.flow.name),
                way_out=way_out(pipeline, by),
            )
        return result


def check_checkpoint(layout: Layout, ref: CheckpointRef, proven: Proven, planned: int | None) -> None:
    """Check that no table has a later batch of a checkpoint than it planned: then it is an older copy.

    Raises:
        CheckpointCorruptError: A table has.
    """
    for path, position in proven.tables.items():
        if planned is not None and position.app_id == ref.app_id and position.batch_id > planned:
            name = path.relative_to(layout.lake).as_posix()
            raise CheckpointCorruptError(
                f"flow {ref.flow!r}: {name} has batch {position.batch_id} of {ref.app_id}, but the checkpoint at {ref.path(layout)} "
                f"ends with batch {planned}: it was restored from an older copy, or files of it are missing. Restore the newer "
                f"checkpoint, or set checkpoint_version={ref.version + 1}.",
                path=str(ref.path(layout)),
            )


def writer_of(resolved: ResolvedFlow, table: str) -> tuple[Pipeline, Flow] | None:
    """The pipeline and the flow that may write a table: the declared one; None if its file does not load."""
    others = (each for each in resolved.declared.values() if not isinstance(each, TidegateError))
    for pipeline in (resolved.pipeline, *others):
        if (flow := pipeline.writer_of(table)) is not None:
            return pipeline, flow
    return None


def way_out(pipeline: Pipeline, flow: Flow) -> str:
    """What makes the tables of a flow right again after their history was lost, or what it has derived from a table, as a clause."""
    name, version = pipeline.name, flow.checkpoint_version + 1
    if not flow.feeds:
        return f"read the source again with `tidegate run {name} --mode reingest --flow {flow.name}`"
    if flow.is_staged:
        return f"derive it again with `tidegate run {name} --mode full_refresh --flow {flow.name}`"
    if flow.kind.sends:
        return f"send the whole table again with checkpoint_version={version} of flow {flow.name!r}"
    return f"derive it again: set checkpoint_version={version} for flow {flow.name!r}, or give its table another name"


def evidence(layout: Layout, pipeline: Pipeline, flow: Flow, ref: CheckpointRef) -> History:
    """What is known of the tables that a checkpoint stands on, from its note and, where that is missing or older, from its commits.

    Raises:
        TableInDoubtError: The ledger has a batch that the table lacks.
    """
    note = history.read(layout, ref)
    try:
        committed = progress.read(ref.path(layout)).last_committed
    except CheckpointCorruptError:
        # An error of the flow itself, not of those that read its table.
        committed = None
    if committed is None or (note is not None and note.batch is not None and note.batch >= committed):
        return note or history.History()
    positions = {} if note is None else dict(note.positions)
    for path in own_tables(layout, pipeline, flow, ref):
        last = delta_history.last_of(path, ref.app_id)
        carried = {} if last is None else {**last.stands_on, history.key(layout, path): last.position}
        for name, position in carried.items():
            if name not in positions or position.version > positions[name].version:
                positions[name] = position
    if not flow.kind.sends:
        _check_recorded(layout, pipeline, flow, ref)
    foreign = () if note is None else note.foreign
    return history.History(batch=committed, positions=positions, foreign=foreign)


def _check_recorded(layout: Layout, pipeline: Pipeline, flow: Flow, ref: CheckpointRef) -> None:
    """Check that the table has every batch of the checkpoint that the ledger has."""
    recorded = delta.transaction_version(layout.ops(pipeline.name, "ledger"), ref.app_id)
    if recorded is None:
        return
    staging, live = own_tables(layout, pipeline, flow, ref)[-2:]
    batches = [delta.transaction_version(path, ref.app_id) for path in (staging, live)]
    written = max((batch for batch in batches if batch is not None), default=-1)
    if delta.current_version(live) is None or written >= recorded:
        return
    doubt = Doubt(
        table=flow.target.name,
        reason="lost",
        what=f"the ledger has batch {recorded} of {ref.app_id}, but the table ends with batch {written}",
        version=(delta.current_version(live) or 0) + 1,
    )
    raise TableInDoubtError(
        doubt,
        flow=flow.name,
        known_by=f"{pipeline.name}/{flow.name}",
        is_own=True,
        way_out=way_out(pipeline, flow),
    )
