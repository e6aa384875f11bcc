"""The identity of an arrived file.

Files are told apart by path and modification time: one that was changed after it was read is another file. Its text is ``<path>@<time in
milliseconds since 1970>``; a ``_row_id`` of a record is this text, ``#`` and the line number. Only this module builds and parses it.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple, Self

from tidegate import hidden

SCHEME = "file://"
"""Before a path in the column ``_path`` of bronze."""
OF_BRONZE = (
    f"concat_ws('@', substring({hidden.PATH}, {len(SCHEME) + 1}), CAST(unix_millis({hidden.MODIFIED_AT}) AS STRING))"
)
"""Spark SQL: the text of the file of a row of bronze."""


class FileId(NamedTuple):
    """A file as it was at one time."""

    path: str
    """The local path, as in Spark's log of source files, decoded."""
    modified_ms: int
    """Its modification time in milliseconds since 1970, rounded down as in Java."""

    def __str__(self) -> str:
        return f"{self.path}@{self.modified_ms}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """The reverse of ``str``: of the ``_row_id`` of a quarantine entry of a file. A path may have an ``@`` as well."""
        path, _, modified_ms = text.rpartition("@")
        return cls(path, int(modified_ms))

    @classmethod
    def of_bronze(cls, path: str, modified_at: datetime) -> Self:
        """The file of a row of bronze, by its columns ``_path``, a URL, and ``_modified_at``."""
        return cls(path.removeprefix(SCHEME), round(modified_at.timestamp() * 1000))

    @property
    def url(self) -> str:
        """The column ``_path`` of its rows in bronze."""
        return f"{SCHEME}{self.path}"


def of_paths(files: Mapping[str, int]) -> list[FileId]:
    """The files of a mapping from path to modification time, the form in which notes store them."""
    return [FileId(*file) for file in files.items()]
