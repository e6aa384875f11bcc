"""Whether the tables that a flow stands on have the history that is known of them. Starts no JVM.

Tables that it reads are proven by what it knows itself, and by what the flows that write them know (`tidegate.status.evidence`);
tables that it writes by what it knows.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from tidegate.advice import Either, OutsideAct, recover_command
from tidegate.checkpoints import checkpoint
from tidegate.errors import CheckpointCorruptError, TableInDoubtError, TableUnreadableError, TidegateError
from tidegate.lake.place import FlowPlace, Place
from tidegate.lake.table_history import Doubt, ForeignCommit, Position, Proof
from tidegate.probes import delta, delta_history
from tidegate.probes.delta_history import Follower
from tidegate.status import evidence

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tidegate.checkpoints.history import History
    from tidegate.lake.layout import Layout
    from tidegate.project.resolution import ResolvedFlow
    from tidegate.spec import Flow, Pipeline
    from tidegate.status.evidence import Evidence
    from tidegate.store import Address


@dataclass(frozen=True, kw_only=True)
class Proven:
    """What a flow stands on is proven."""

    known: History
    """What was known before."""
    tables: dict[Address, Position] = field(default_factory=dict)
    """The newest version of every table that exists."""
    foreign: tuple[ForeignCommit, ...] = ()
    """Commits of others that changed rows: those that the flow has not read yet, and the last ones that it has."""

    def summary(self) -> str:
        """The commits of others, for people; empty without one."""
        return "; ".join(commit.summary() for commit in self.foreign)


def check(resolved: ResolvedFlow, place: Place, since: Mapping[Address, Position] | None = None) -> Proven:
    """Prove the tables that a flow stands on.

    Args:
        since: Positions in tables that were proven a moment ago, behind which everything is read again.

    Raises:
        TableInDoubtError: The history of one of them is not proven.
    """
    return _Check(place.layout, resolved, place, since or {}).run()


def doubts(resolved: ResolvedFlow, place: Place, given: Evidence) -> tuple[Doubt, ...]:
    """What a flow itself doubts of the tables that it reads and writes: what is left once the writers of its sources stand by them again.

    Tables whose log cannot be read are left out.

    Args:
        given: What the flow knows.
    """
    looked = _Check(place.layout, resolved, place, {})
    known = [] if given.doubt is None else [given.doubt]
    sources = [(path, replace(follower, vouched=sys.maxsize)) for path, follower in looked.followed()]
    for path, follower in (*sources, *looked.written()):
        try:
            proof = delta_history.prove(path, given.known.of(path), follower)
        except TableUnreadableError:
            continue
        if isinstance(proof, Doubt) and all(each.table != proof.table for each in known):
            known.append(proof)
    return tuple(known)


@dataclass(frozen=True)
class _Check:
    layout: Layout
    resolved: ResolvedFlow
    place: Place
    since: Mapping[Address, Position]

    @property
    def pipeline(self) -> Pipeline:
        return self.resolved.pipeline

    @property
    def flow(self) -> Flow:
        return self.resolved.flow

    def run(self) -> Proven:
        known = self._known(self.pipeline, self.flow, self.place)
        tables: dict[Address, Position] = {}
        foreign: list[ForeignCommit] = list(known.foreign)
        for path, proof in (*self._sources(known), *self._own(known)):
            tables[path] = proof.position
            foreign += proof.foreign
        return Proven(known=known, tables=tables, foreign=tuple(dict.fromkeys(foreign)))

    def _sources(self, known: History) -> Iterator[tuple[Address, Proof]]:
        for path, seen_by_flow in self.followed():
            writer = writer_of(self.resolved, seen_by_flow.table)
            if writer is not None:
                lake, (pipeline, above) = self.layout.of_table(seen_by_flow.table), writer
                of_writer = FlowPlace(lake, pipeline.name, above.name)
                place = checkpoint.current(of_writer, above.checkpoint_version)
                position = self._known(pipeline, above, place).of(path)
                if position is not None:
                    seen_by_flow = replace(seen_by_flow, vouched=position.version)
                    by_writer = Follower(table=seen_by_flow.table, owner=seen_by_flow.owner)
                    self._prove(path, position, by_writer, above, pipeline)
            if proof := self._prove(path, known.of(path), seen_by_flow, self.flow, self.pipeline):
                yield path, proof

    def followed(self) -> Iterator[tuple[Address, Follower]]:
        """The tables that the flow reads, as it follows them."""
        flow = self.flow
        follows = self.resolved.landing is None and flow.kind.follows_feed and not flow.kind.stateful
        for table in flow.source_tables:
            writer = writer_of(self.resolved, table)
            owner = "" if writer is None else f"{writer[0].name}/{writer[1].name}/"
            yield self.layout.read_table(table), Follower(table=table, owner=owner, follows_changes=follows)
        if flow.state is not None and self.resolved.writer is not None:
            names = (self.pipeline.name, self.resolved.writer.name)
            path = self.resolved.above(self.layout).heartbeats
            name, owner = f"heartbeats.{'.'.join(names)}", f"{'/'.join(names)}/"
            yield path, Follower(table=name, owner=owner, platform=True)

    def _own(self, known: History) -> Iterator[tuple[Address, Proof]]:
        for path, follower in self.written():
            if proof := self._prove(path, known.of(path), follower, self.flow, self.pipeline):
                yield path, proof

    def written(self) -> Iterator[tuple[Address, Follower]]:
        """The tables that the flow writes."""
        pipeline, flow = self.pipeline, self.flow
        live = self.layout.table(flow.target.name)
        for path in evidence.own_tables(self.place, flow):
            if path == self.place.staging and not path.exists():
                # A swap removes it.
                continue
            name = flow.target.name if path == live else ".".join(path.key.split("/")[:3])
            is_platform = path in (self.place.quarantine, self.place.late)
            yield path, Follower(table=name, owner=f"{pipeline.name}/{flow.name}/", platform=is_platform)

    def _known(self, pipeline: Pipeline, flow: Flow, place: Place) -> History:
        result = evidence.read(place, flow)
        if result.doubt is not None:
            raise self._error(result.doubt, flow, pipeline)
        return result.known

    def _prove(
        self, address: Address, position: Position | None, follower: Follower, by: Flow, pipeline: Pipeline
    ) -> Proof | None:
        """Prove one table in the eyes of a flow."""
        recent = self.since.get(address)
        if recent is not None and (position is None or recent.version >= position.version):
            position = recent
        result = delta_history.prove(address, position, follower)
        if isinstance(result, Doubt):
            raise self._error(result, by, pipeline)
        return result

    def _error(self, doubt: Doubt, by: Flow, pipeline: Pipeline) -> TableInDoubtError:
        return TableInDoubtError(
            doubt,
            flow=self.resolved.flow.name,
            known_by=f"{pipeline.name}/{by.name}",
            is_own=(pipeline.name, by.name) == (self.resolved.pipeline.name, self.resolved.flow.name),
            way_out=recover_command(doubt.table if doubt.table in by.source_tables else by.recovered_by[0]),
        )


def check_checkpoint(resolved: ResolvedFlow, place: Place, proven: Proven, planned: int | None) -> None:
    """Check that no table has a later batch of a checkpoint than it planned: then it is an older copy.

    Args:
        planned: The last batch that it planned; None for one that was never used.

    Raises:
        CheckpointCorruptError: A table has.
    """
    for path in evidence.own_tables(place, resolved.flow):
        position = proven.tables.get(path)
        if position is None:
            continue
        # A position has the last commit, which may be of other work than the stream.
        is_of_stream = position.app_id == place.app_id
        batch = position.batch_id if is_of_stream else delta.transaction_version(path, place.app_id)
        if batch is not None and batch > (-1 if planned is None else planned):
            name, ends = (path.key, "is empty" if planned is None else f"ends with batch {planned}")
            raise CheckpointCorruptError(
                f"flow {place.flow!r}: {name} has batch {batch} of {place.app_id}, but the checkpoint at {place.checkpoint} {ends}: it was "
                "restored from an older copy, or files of it are missing.",
                Either(OutsideAct("restore the newer checkpoint"), recover_command(*resolved.flow.recovered_by)),
                path=str(place.checkpoint),
            )


def writer_of(resolved: ResolvedFlow, table: str) -> tuple[Pipeline, Flow] | None:
    """The pipeline and the flow that may write a table: the declared one; None if its file does not load."""
    others = (each for each in resolved.declared.values() if not isinstance(each, TidegateError))
    for pipeline in (resolved.pipeline, *others):
        if (flow := pipeline.writer_of(table)) is not None:
            return pipeline, flow
    return None
