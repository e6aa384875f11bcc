"""Backfills and reingests of windows as JSON files beside the checkpoint, stored before they write to a table.

Each has a number, which is its ``txnVersion``. So after a crash it is known which one was running, and whether it had
written anything.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from tidegate import identity
from tidegate.checkpoints.pending_jobs import WINDOWS, PendingWindow
from tidegate.spark.batch import ledger, micro_batch
from tidegate.spark.batch.work import Work
from tidegate.spark.lake import tables

if TYPE_CHECKING:
    from pathlib import Path

    from tidegate.place import Place
    from tidegate.spark.context import FlowContext


@dataclass(frozen=True, kw_only=True)
class PendingWork(PendingWindow, Work):
    """A backfill, or a piece of a reingest."""

    def app_id(self, ref: Place) -> str:
        """The one of the checkpoint's windows."""
        return ref.windows_app_id

    def planned_ms(self, context: FlowContext, batch_id: int) -> int:
        """When it was stored."""
        return self.planned_at_ms


Stored = TypeVar("Stored", bound=PendingWork)


def numbers(context: FlowContext) -> list[int]:
    """The numbers of all stored backfills or reingests of the flow, ascending."""
    return WINDOWS.numbers(context.ref)


def read(context: FlowContext, number: int, kind: type[Stored]) -> Stored:
    """One of them; raises `DamagedFileError` if its file does not have the content that `write` gave it."""
    work = WINDOWS.read_as(context.ref, number, kind)
    assert work is not None
    return work


def write(context: FlowContext, work: PendingWork) -> None:
    """Store one, or replace it, atomically."""
    WINDOWS.write(context.ref, work.number, work)


def drop(context: FlowContext, number: int) -> None:
    """Delete one that has written nothing."""
    WINDOWS.clear(context.ref, number)


def has_begun(context: FlowContext, number: int) -> bool:
    """Whether the live table or the quarantine contains a write of the one with this number."""
    app_id = context.ref.windows_app_id
    return any(
        tables.transactions(context.spark, path).get(app_id, -1) == number
        for path in (context.quarantine, context.live)
    )


def record_superseded(context: FlowContext, work: PendingWork) -> None:
    """Note that an earlier checkpoint had begun this one, and record the ledger line of what its table has.

    It is not finished: the new checkpoint reads its rows again, with the present code, and judges them.
    """
    kind = None if context.flow.target.keys else "append"
    for path in (context.live, context.quarantine):
        for app_id, number in tables.transactions(context.spark, path).items():
            ref = context.ref.of_stream(identity.stream_app_id(app_id))
            if ref is None or app_id != ref.windows_app_id or number != work.number:
                continue
            own = dataclasses.replace(context, ref=ref).doing(work)
            note = (
                f"{identity.label(app_id, number, kind)} of checkpoint v{ref.version}/{ref.refresh} was half-written and is not finished: "
                "the new checkpoint reads its rows again"
            )
            if (
                path == context.live
                and tables.version_of(path, app_id, number, tables.version(context.spark, path)) is not None
            ):
                ledger.record_batch(own, micro_batch.recorded_in_target(own, number))
            if note not in context.report.notes:
                context.report.notes.append(note)


def is_unfinished(context: FlowContext) -> bool:
    """Whether the last one was interrupted after it had begun to write."""
    last = numbers(context)[-1:]
    return any(not read(context, number, PendingWork).done and has_begun(context, number) for number in last)


def folder(context: FlowContext) -> Path:
    """The folder of the flow's files, and of the keys of its backfills."""
    return WINDOWS.folder(context.ref)
