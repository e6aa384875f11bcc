"""Jobs that are noted before they write to a table, and their one recovery.

Each has a number, which is its ``txnVersion``. So after a crash the logs of the tables say whether it had written anything. What each
kind notes, and where: `tidegate.checkpoints.pending_jobs`.
"""

from __future__ import annotations

import dataclasses
from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Self, TypeVar

from tidegate.checkpoints.pending_jobs import WINDOWS, PendingJob, PendingWindow, last_window
from tidegate.lake import identity
from tidegate.spark.batch import ledger, micro_batch
from tidegate.spark.batch.checks import check_not_ahead, last_batches
from tidegate.spark.batch.work import BatchWork
from tidegate.spark.lake import tables
from tidegate.store import Address

if TYPE_CHECKING:
    from tidegate.spark.job import Job


@dataclass(frozen=True, kw_only=True)
class NotedWork(PendingJob, BatchWork):
    """Work with its note, as it is run."""

    number: int
    """The ``txnVersion`` of its writes."""

    may_be_dropped_after: ClassVar[tuple[str, ...]] = ()
    """The tables, by the names of `last_batches`, whose part of it `drop` takes back."""

    @classmethod
    @abstractmethod
    def pending(cls, job: Job) -> Self | None:
        """The one that was noted and is not settled; None without one, or if it cannot be settled yet."""

    @abstractmethod
    def finish(self, job: Job) -> None:
        """Do what is left of it, and end its note."""

    @abstractmethod
    def drop(self, job: Job) -> None:
        """Forget it, with its note: it has written nothing that stays."""

    def has_begun(self, job: Job) -> bool:
        """Whether a table has its transaction, so that it can only be finished.

        Raises:
            CheckpointCorruptError: A table has a later one: notes or quarantine are older than the tables.
        """
        own = job.doing(self)
        written = last_batches(own)
        check_not_ahead(own, written, self.number)
        return any(number == self.number for name, number in written.items() if name not in self.may_be_dropped_after)


def settle(job: Job, *kinds: type[NotedWork]) -> None:
    """Settle the jobs of these kinds that a crash has interrupted, in this order: finish what has begun, drop what has not.

    Every start of a flow calls it before its own work, under the flow's leases, for the kinds whose code it has.

    Raises:
        TidegateError: As for the work. The next start goes on with it.
    """
    for kind in kinds:
        work = kind.pending(job)
        if work is None:
            continue
        if work.has_begun(job):
            work.finish(job)
        else:
            work.drop(job)


@dataclass(frozen=True, kw_only=True)
class PendingWork(PendingWindow, NotedWork):
    """A backfill, or a piece of a reingest."""

    @classmethod
    def pending(cls, job: Job) -> Self | None:
        """The last one, unless it is done."""
        last = last_window(job.place, cls)
        return None if last is None or last.done else last

    def drop(self, job: Job) -> None:
        """Also one that an earlier checkpoint began, whose transaction id is another one."""
        record_superseded(job, self)
        drop(job, self.number)

    def planned_ms(self, job: Job, batch_id: int) -> int:
        """When it was stored."""
        return self.planned_at_ms


Stored = TypeVar("Stored", bound=PendingWork)


def numbers(job: Job) -> list[int]:
    """The numbers of all stored backfills or reingests of the flow, ascending."""
    return WINDOWS.numbers(job.place)


def next_number(job: Job) -> int:
    """The number of the next one."""
    return WINDOWS.next_number(job.place)


def read(job: Job, number: int, kind: type[Stored]) -> Stored:
    """One of them; raises `DamagedFileError` if its file does not have the content that `write` gave it."""
    work = WINDOWS.read_as(job.place, number, kind)
    assert work is not None
    return work


def write(job: Job, work: PendingWork) -> None:
    """Store one, or replace it, atomically."""
    WINDOWS.write(job.place, work.number, work)


def drop(job: Job, number: int) -> None:
    """Delete one that has written nothing."""
    WINDOWS.clear(job.place, number)


def record_superseded(job: Job, work: PendingWork) -> None:
    """Note that an earlier checkpoint had begun this one, and record the ledger line of what its table has.

    It is not finished: the new checkpoint reads its rows again, with the present code, and judges them.
    """
    kind = None if job.flow.target.keys else "append"
    for path in (job.live, job.place.quarantine):
        for app_id, number in tables.transactions(job.spark, path).items():
            earlier = job.place.of_stream(identity.stream_app_id(app_id))
            if earlier is None or app_id != earlier.windows_app_id or number != work.number:
                continue
            own = dataclasses.replace(job, place=earlier).doing(work)
            note = (
                f"{identity.label(app_id, number, kind)} of checkpoint v{earlier.version}/{earlier.refresh} was half-written and is not "
                "finished: the new checkpoint reads its rows again"
            )
            if (
                path == job.live
                and tables.version_of(path, app_id, number, tables.version(job.spark, path)) is not None
            ):
                ledger.record_batch(own, micro_batch.recorded_in_target(own, number))
            if note not in job.run.report.notes:
                job.run.report.notes.append(note)


def folder(job: Job) -> Address:
    """The folder of the flow's files, and of the keys of its backfills."""
    return WINDOWS.folder(job.place)
