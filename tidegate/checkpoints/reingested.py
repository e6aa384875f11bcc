"""The files that reingests of windows and of gaps have read, from what they store beside the checkpoint.

They are read outside of the stream, so the checkpoint's own log of files does not have them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from tidegate import json_codec
from tidegate.advice import OutsideAct
from tidegate.folders import entries

State = tuple[str, int]
"""Path and modification time, in milliseconds since 1970, of a file."""


@dataclass(frozen=True, kw_only=True)
class _Piece:
    """What this module needs of `tidegate.spark.reprocessing.reingest.Piece`."""

    files: dict[str, int] = field(default_factory=dict)
    done: bool = False


def unread(folder: Path, changed: Iterable[State]) -> set[State]:
    """Those of the changed files that no reingest has read as they are now; bronze or quarantine has the others.

    Args:
        folder: `tidegate.layout.Layout.reprocessing` of the flow. It is read only if a file was changed.

    Raises:
        DamagedFileError: The content of a file in the folder does not fit.
    """
    left = set(changed)
    return left - read(folder) if left else left


def read(folder: Path) -> set[State]:
    """The files that reingests have read, as they were then.

    Raises:
        DamagedFileError: The content of a file in the folder does not fit.
    """
    files: set[State] = set()
    for path in entries(folder, "*.json"):
        piece = json_codec.read(path, _Piece, OutsideAct("restore it from a backup"))
        if piece is not None and piece.done:
            files |= piece.files.items()
    return files
