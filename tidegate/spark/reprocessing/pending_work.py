"""Jobs that are noted before they write to a table, and their one recovery.

Each has a number, which is its ``txnVersion``. So after a crash the logs of the tables say whether it had written anything. What each
kind notes, and where: `tidegate.checkpoints.pending_jobs`.
"""

from __future__ import annotations

import dataclasses
from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Self, TypeVar

from tidegate import identity
from tidegate.checkpoints.pending_jobs import WINDOWS, PendingJob, PendingWindow, last_window
from tidegate.spark.batch import ledger, micro_batch
from tidegate.spark.batch.split import check_not_ahead, last_batches
from tidegate.spark.batch.work import Work
from tidegate.spark.lake import tables
from tidegate.store import Address

if TYPE_CHECKING:
    from tidegate.spark.context import FlowContext


@dataclass(frozen=True, kw_only=True)
class Job(PendingJob, Work):
    """A job with its note, as it is run."""

    number: int
    """The ``txnVersion`` of its writes."""

    may_be_dropped_after: ClassVar[tuple[str, ...]] = ()
    """The tables, by the names of `last_batches`, whose part of it `drop` takes back."""

    @classmethod
    @abstractmethod
    def pending(cls, context: FlowContext) -> Self | None:
        """The one that was noted and is not settled; None without one, or if it cannot be settled yet."""

    @abstractmethod
    def finish(self, context: FlowContext) -> None:
        """Do what is left of it, and end its note."""

    @abstractmethod
    def drop(self, context: FlowContext) -> None:
        """Forget it, with its note: it has written nothing that stays."""

    def has_begun(self, context: FlowContext) -> bool:
        """Whether a table has its transaction, so that it can only be finished.

        Raises:
            CheckpointCorruptError: A table has a later one: notes or quarantine are older than the tables.
        """
        own = context.doing(self)
        written = last_batches(own)
        check_not_ahead(own, written, self.number)
        return any(number == self.number for name, number in written.items() if name not in self.may_be_dropped_after)


def settle(context: FlowContext, *kinds: type[Job]) -> None:
    """Settle the jobs of these kinds that a crash has interrupted, in this order: finish what has begun, drop what has not.

    Every start of a flow calls it before its own work, under the flow's leases, for the kinds whose code it has.

    Raises:
        TidegateError: As for the job. The next start goes on with it.
    """
    for kind in kinds:
        job = kind.pending(context)
        if job is None:
            continue
        if job.has_begun(context):
            job.finish(context)
        else:
            job.drop(context)


@dataclass(frozen=True, kw_only=True)
class PendingWork(PendingWindow, Job):
    """A backfill, or a piece of a reingest."""

    @classmethod
    def pending(cls, context: FlowContext) -> Self | None:
        """The last one, unless it is done."""
        last = last_window(context.place, cls)
        return None if last is None or last.done else last

    def drop(self, context: FlowContext) -> None:
        """Also one that an earlier checkpoint began, whose transaction id is another one."""
        record_superseded(context, self)
        drop(context, self.number)

    def planned_ms(self, context: FlowContext, batch_id: int) -> int:
        """When it was stored."""
        return self.planned_at_ms


Stored = TypeVar("Stored", bound=PendingWork)


def numbers(context: FlowContext) -> list[int]:
    """The numbers of all stored backfills or reingests of the flow, ascending."""
    return WINDOWS.numbers(context.place)


def read(context: FlowContext, number: int, kind: type[Stored]) -> Stored:
    """One of them; raises `DamagedFileError` if its file does not have the content that `write` gave it."""
    work = WINDOWS.read_as(context.place, number, kind)
    assert work is not None
    return work


def write(context: FlowContext, work: PendingWork) -> None:
    """Store one, or replace it, atomically."""
    WINDOWS.write(context.place, work.number, work)


def drop(context: FlowContext, number: int) -> None:
    """Delete one that has written nothing."""
    WINDOWS.clear(context.place, number)


def record_superseded(context: FlowContext, work: PendingWork) -> None:
    """Note that an earlier checkpoint had begun this one, and record the ledger line of what its table has.

    It is not finished: the new checkpoint reads its rows again, with the present code, and judges them.
    """
    kind = None if context.flow.target.keys else "append"
    for path in (context.live, context.quarantine):
        for app_id, number in tables.transactions(context.spark, path).items():
            earlier = context.place.of_stream(identity.stream_app_id(app_id))
            if earlier is None or app_id != earlier.windows_app_id or number != work.number:
                continue
            own = dataclasses.replace(context, place=earlier).doing(work)
            note = (
                f"{identity.label(app_id, number, kind)} of checkpoint v{earlier.version}/{earlier.refresh} was half-written and is not "
                "finished: the new checkpoint reads its rows again"
            )
            if (
                path == context.live
                and tables.version_of(path, app_id, number, tables.version(context.spark, path)) is not None
            ):
                ledger.record_batch(own, micro_batch.recorded_in_target(own, number))
            if note not in context.report.notes:
                context.report.notes.append(note)


def folder(context: FlowContext) -> Address:
    """The folder of the flow's files, and of the keys of its backfills."""
    return WINDOWS.folder(context.place)
