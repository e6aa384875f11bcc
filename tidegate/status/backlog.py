"""What waits at the source of a flow: the part of a reading that a job makes before and after it runs the flow. Takes no lock."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from tidegate.errors import CheckpointCorruptError, OffsetsExpiredError, TableInDoubtError, TableUnreadableError
from tidegate.status import source
from tidegate.status.checkpoint_reading import CheckpointReading, measured, part

if TYPE_CHECKING:
    from tidegate.environment import Environment
    from tidegate.project.resolution import ResolvedFlow
    from tidegate.status.source import Backlog


@dataclass(frozen=True, kw_only=True, eq=False)
class BacklogReading(CheckpointReading):
    """A reading of a flow's checkpoint and of its source."""

    def measure(self) -> Self:
        """Read what waits for the flow.

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
        try:
            return self.ask(*self.parts_measured())
        except (CheckpointCorruptError, OffsetsExpiredError, TableInDoubtError, TableUnreadableError):
            # A job that went on between two of the things that were read makes them contradict each other.
            self._forget()
            return self.ask(*self.parts_measured())

    def _forget(self) -> None:
        """Measure again what was measured, and let the store ask for everything again that is of the flow."""
        for name in [name for name in vars(self) if isinstance(getattr(type(self), name, None), measured)]:
            del vars(self)[name]
        place, tables = self.resolved.place(self.layout), (*self.resolved.flow.read_tables, self.target)
        for address in (place.checkpoints, place.quarantine, place.late, *map(self.layout.table, tables)):
            address.forget()

    @measured
    def backlog(self) -> Backlog:
        """What waits at its source; rows that flows above it have yet to write are not counted."""
        self.ask(CheckpointReading.proven)
        backlog = source.load(self.resolved.flow).backlog(self)
        if self.resolved.flow.snapshots is None:
            return backlog
        from tidegate.sources.snapshots import waiting

        return waiting.with_snapshots(self, backlog)

    @classmethod
    def parts_measured(cls) -> tuple[part[Any], ...]:
        """What `measure` reads, in its order."""
        return (cls.backlog,)


def measure(environment: Environment, resolved: ResolvedFlow) -> Backlog:
    """What waits at the source of a flow; raises as `BacklogReading.measure`."""
    return BacklogReading.of(environment, resolved).measure().backlog
