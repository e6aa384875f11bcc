"""The files that reingests of windows and of gaps have read, from what they store beside the checkpoint.

They are read outside of the stream, so the checkpoint's own log of files does not have them.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tidegate.checkpoints.pending_jobs import WINDOWS, PendingWindow
from tidegate.lake.file_id import FileId, of_paths
from tidegate.lake.place import FlowPlace


@dataclass(frozen=True, kw_only=True)
class _Piece(PendingWindow):
    """What this module needs of `tidegate.spark.reprocessing.reingest.Piece`."""

    files: dict[str, int] = field(default_factory=dict)


def read(place: FlowPlace) -> set[FileId]:
    """The files that reingests have read, as they were then.

    Raises:
        DamagedFileError: The content of a file in the folder does not fit.
    """
    files: set[FileId] = set()
    for number in WINDOWS.numbers(place):
        piece = WINDOWS.read_as(place, number, _Piece)
        if piece is not None and piece.done:
            files.update(of_paths(piece.files))
    return files
