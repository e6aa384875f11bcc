"""Settles what a crash, or a new checkpoint, has interrupted. A run imports it only where a job is noted or a checkpoint is new."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegate.checkpoints import pending_jobs
from tidegate.quarantine import decision
from tidegate.spark.reprocessing import pending_work
from tidegate.spark.reprocessing.backfill import Backfill
from tidegate.spark.reprocessing.reingest import Piece
from tidegate.spark.reprocessing.replay import Replay
from tidegate.spark.reprocessing.undo import Undo

if TYPE_CHECKING:
    from tidegate.spark.job import Job


def settle_all(job: Job) -> None:
    """Settle an undo, a replay, and a backfill or a piece of a reingest; raises as `pending_work.settle`."""
    pending_work.settle(job, Undo, Replay, _window_work(job))


def retire_entries(job: Job) -> None:
    """Close the entries of earlier checkpoints, and settle a replay that waited while a run wrote to staging.

    Raises as `pending_work.settle`.
    """
    decision.retire(job.place)
    if pending_jobs.CLAIM.read(job.place) is not None:
        pending_work.settle(job, Replay)


def finish_window(job: Job) -> None:
    """Finish a half-written backfill, or piece of a reingest, before the next refresh opens: its transaction id is the checkpoint's."""
    work = _window_work(job).pending(job)
    if work is not None and work.has_begun(job):
        settle_all(job)


def _window_work(job: Job) -> type[pending_work.PendingWork]:
    return Backfill if job.flow.target.keys else Piece
