"""Reingest of a window, or of gaps: files or messages of some days that bronze does not contain are read again.

Without either, a reingest opens the next refresh, whose stream reads the whole source. The checkpoint of a stream that
ended with a window would leave a gap before the next increment. So a window, or the files of gaps, are read outside of the stream: first an
ordinary increment, then the window in pieces within the source's limits. Each piece goes through the steps of a
micro-batch, under the transaction id of the flow's windows.

A piece is stored before it is read, like a backfill (`tidegate.spark.reprocessing.backfill`). If the process dies after a
piece has written something, the flow's next run finishes the piece. A retry of the run continues after the last piece of
its request.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pendulum

from tidegate.checkpoints.pending_jobs import PendingPiece
from tidegate.spark.batch import micro_batch
from tidegate.spark.reprocessing import pending_work
from tidegate.spark.reprocessing.pending_work import PendingWork

if TYPE_CHECKING:
    from tidegate.spark.job import Job
    from tidegate.times.window import Window


@dataclass(frozen=True, kw_only=True)
class Piece(PendingPiece, PendingWork):
    """A part of a window, as it is read."""

    def finish(self, job: Job) -> None:
        """Read it once more, or record what bronze has."""
        _run(job, self)

    def listed_files(self, job: Job, batch_id: int) -> dict[str, int]:
        """Those of the piece."""
        return self.files


def reingest(job: Job, window: Window | None) -> None:
    """Read the files or messages of a window, or of the gaps, that bronze does not contain, once per request.

    The flow's stream has read everything new before.

    Args:
        window: Of the files' modification times, or of the messages' timestamps; with gaps, the days of these, or None for all.

    Raises:
        TidegateError: As for a micro-batch. The flow's next run finishes the piece.
    """
    earlier = [each for each in _pieces(job) if each.request_id == job.run.request.request_id]
    number = pending_work.next_number(job)
    for part in job.kind.parts(job, window, earlier):
        piece = Piece(
            number=number,
            request_id=job.run.request.request_id,
            window=dataclasses.asdict(window) if window is not None else {},
            planned_at_ms=int(pendulum.now("UTC").timestamp() * 1000),
            requested_by=job.run.request.requested_by,
            **part,
        )
        pending_work.write(job, piece)
        _run(job, piece)
        number += 1


def _run(job: Job, piece: Piece) -> None:
    own = job.doing(piece, job.spark.newSession())
    micro_batch.process(own, own.kind.read_piece(own, piece), piece.number)
    pending_work.write(job, dataclasses.replace(piece, done=True))


def _pieces(job: Job) -> list[Piece]:
    return [pending_work.read(job, number, Piece) for number in pending_work.numbers(job)]
