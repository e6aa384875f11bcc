"""What is known of a flow without its source: its declaration, its checkpoint and the tables that it writes.

The part of a reading that its sources are measured from. Takes no lock, and starts no JVM.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, overload

import pendulum

from tidegate.checkpoints import checkpoint, progress
from tidegate.lake.layout import Layout
from tidegate.probes import delta, delta_log
from tidegate.status import proofs

if TYPE_CHECKING:
    from datetime import datetime

    from tidegate.checkpoints.progress import PlannedBatch, Progress
    from tidegate.environment import Environment
    from tidegate.environment.clusters import Clusters
    from tidegate.errors import TidegateError
    from tidegate.lake.place import Place
    from tidegate.project.resolution import ResolvedFlow
    from tidegate.status.proofs import Proven

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class part(Generic[T_co]):  # noqa: N801
    """A part of a reading, which is read when it is first asked for, and kept.

    `functools.cached_property` of Python 3.11 has one lock for all instances: a broker that does not answer would hold up every flow.
    """

    def __init__(self, read: Callable[[Any], T_co]) -> None:
        """Has the documentation of the function."""
        self.read, self.__doc__ = read, read.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        """The name under which a reading keeps it."""
        self.name = name

    @overload
    def __get__(self, reading: None, owner: type) -> Self: ...
    @overload
    def __get__(self, reading: object, owner: type) -> T_co: ...
    def __get__(self, reading: object | None, owner: type) -> Self | T_co:
        """The part; of the class, this."""
        return self if reading is None else self.of(reading)

    def of(self, reading: object) -> T_co:
        """The part of a reading."""
        known = vars(reading)
        if self.name not in known:
            self.check(reading)
            known[self.name] = self.read(reading)
        value: T_co = known[self.name]
        return value

    def check(self, reading: object) -> None:
        """Raise if the part is not to be read."""


class measured(part[T_co]):  # noqa: N801
    """A part that is read on the way to what waits for a flow. After an error it is not read any more."""

    def check(self, reading: Any) -> None:
        """Raises as ``expect_no_error`` of the reading: a source that did not answer is not asked again."""
        reading.expect_no_error()


@dataclass(frozen=True, kw_only=True, eq=False)
class CheckpointReading:
    """A reading of a flow's checkpoint. A part that is not known yet is read when it is asked for, and raises what that raises."""

    layout: Layout
    """The lake, whose store reads each file once."""
    clusters: Clusters
    """Those of Kafka."""
    declared: ResolvedFlow | str = field(repr=False)
    """The name of the pipeline, if its declaration does not load; ``<pipeline>/<table>`` of a list's table that is not valid."""
    at: datetime
    """When the reading began."""
    error: TidegateError | None = None
    """Why the declaration, the checkpoint or the source could not be read."""

    @classmethod
    def of(cls, environment: Environment, resolved: ResolvedFlow, at: datetime | None = None) -> Self:
        """A reading of which nothing is known yet, by default of the present."""
        return cls(
            layout=Layout.of(environment), clusters=environment.cluster, declared=resolved, at=at or pendulum.now("UTC")
        )

    def given(self, **known: Any) -> Self:
        """The same reading with some fields or parts known."""
        kind = type(self)
        assert all(hasattr(kind, name) or name in {each.name for each in fields(self)} for name in known), known
        copy = object.__new__(kind)
        vars(copy).update(vars(self) | known)
        return copy

    def known(self, wanted: part[T]) -> T | None:
        """A part, as ``BacklogReading.backlog``, if it has been read; reads nothing."""
        value: T | None = vars(self).get(wanted.name)
        return value

    def ask(self, *parts: part[Any]) -> Self:
        """Read some parts, in this order."""
        for each in parts:
            each.of(self)
        return self

    def expect_no_error(self) -> None:
        """Called before a part is measured."""
        assert self.error is None, self.error

    @property
    def resolved(self) -> ResolvedFlow:
        """The flow, of a pipeline that loads."""
        assert not isinstance(self.declared, str), f"the declaration of {self.declared} does not load"
        return self.declared

    @property
    def pipeline(self) -> str:
        """The name of its pipeline."""
        return self.declared.partition("/")[0] if isinstance(self.declared, str) else self.declared.pipeline.name

    @property
    def flow(self) -> str:
        """Its name; empty if the declaration does not load."""
        return "" if isinstance(self.declared, str) else self.declared.flow.name

    @property
    def label(self) -> str:
        """``<pipeline>/<flow>``, or what is not declared."""
        return self.declared if isinstance(self.declared, str) else f"{self.pipeline}/{self.flow}"

    @property
    def target(self) -> str:
        """The table that it writes."""
        return "" if isinstance(self.declared, str) else self.declared.flow.target.name

    @property
    def takes_batches(self) -> bool:
        """Whether all rows of a refused batch can go to quarantine."""
        return isinstance(self.declared, str) or self.declared.flow.kind.takes_batches

    @property
    def version(self) -> int | None:
        """Of its checkpoint."""
        return None if isinstance(self.declared, str) else self.declared.flow.checkpoint_version

    @part
    def place(self) -> Place:
        """Its checkpoint."""
        return checkpoint.current(self.resolved.place(self.layout), self.resolved.flow.checkpoint_version)

    @measured
    def progress(self) -> Progress:
        """Which batches of its checkpoint are planned and committed."""
        return progress.read(self.place.checkpoint)

    @measured
    def committed(self) -> PlannedBatch | None:
        """The last committed batch; None for a checkpoint that was never used: of a new flow, a new version or a full refresh."""
        last = self.progress.last_committed
        return None if last is None else progress.planned_batch(self.place.checkpoint, last)

    @measured
    def proven(self) -> Proven:
        """What its tables are proven to have; raises if a run could not begin."""
        resolved = self.resolved
        if resolved.error is not None:
            raise resolved.error
        of_pipeline, target = resolved.place(self.layout).of_pipeline, self.layout.table(self.target)
        # A batch would find damage in the log of a table that it writes after its first write; those that it reads are read below.
        own = (target, resolved.place(self.layout).quarantine, resolved.place(self.layout).late)
        for path in (*own, of_pipeline.ops("ledger"), of_pipeline.ops("verdicts")):
            delta_log.check(path)
        if resolved.flow.transform is not None:
            from tidegate.checkpoints import derivation

            derivation.check_recorded(self.layout, resolved)
        proven = proofs.check(resolved, self.place)
        proofs.check_checkpoint(resolved, self.place, proven, self.progress.last_planned)
        if self.progress.last_committed is None:
            checkpoint.check_writers(resolved.flow, self.place, delta.writers(target, self.place.app_id))
        return proven
