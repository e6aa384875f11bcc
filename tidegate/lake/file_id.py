"""The identity of an arrived file.

Files are told apart by path and modification time: one that was changed after it was read is another file. Spark's log of source files
has no more of a file than these (``FileStreamSource.FileEntry``), and the files of a batch are those of its log. Several of them may be one
file, of one key, size and checksum, at another path or with another time: `tidegate.checkpoints.landing_folder` knows which.

The text of a file is ``<path>@<time in milliseconds since 1970>``; a ``_row_id`` of a record is this text, ``#`` and the line number. Only
this module builds and parses it.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple, Self
from urllib.parse import unquote

from tidegate import hidden

_LOCAL = "file://"


def path_sql(url: str) -> str:
    """SQL of Spark and of DuckDB: the path of a file by the URL of an expression, as `path_of_url`."""
    return f"regexp_replace({url}, '^{_LOCAL}', '')"


OF_BRONZE = f"concat_ws('@', {path_sql(hidden.PATH)}, CAST(unix_millis({hidden.MODIFIED_AT}) AS STRING))"
"""Spark SQL: the text of the file of a row of bronze."""


class FileId(NamedTuple):
    """A file as it was at one time."""

    path: str
    """Its `Address.uri`: a local path, or ``s3://<bucket>/<key>``."""
    modified_ms: int
    """Its modification time in milliseconds since 1970, rounded down as in Java."""

    def __str__(self) -> str:
        return f"{beginning(self.path)}{self.modified_ms}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """The reverse of ``str``: of the ``_row_id`` of a quarantine entry of a file. A path may have an ``@`` as well."""
        path, _, modified_ms = text.rpartition("@")
        return cls(path, int(modified_ms))

    @classmethod
    def of_bronze(cls, path: str, modified_at: datetime) -> Self:
        """The file of a row of bronze, by its columns ``_path``, a URL, and ``_modified_at``."""
        return cls(path_of_url(path), round(modified_at.timestamp() * 1000))

    @property
    def url(self) -> str:
        """The column ``_path`` of its rows in bronze."""
        return url_of_path(self.path)


def path_of_url(url: str) -> str:
    """The path of a file by its URL in bronze, which is not encoded: ``file://`` is left out."""
    return url.removeprefix(_LOCAL)


def url_of_path(path: str) -> str:
    """The reverse of `path_of_url`."""
    return f"{_LOCAL}{path}" if path.startswith("/") else path


def path_of_spark(uri: str) -> str:
    """The path of a file by a URI of Spark, which is encoded.

    Java encodes what a URI may not hold and leaves the rest (``*``, ``+``, letters beyond ASCII) as it is. Hadoop writes ``file:/``
    or ``file:///``, and the scheme by which S3A was asked.
    """
    scheme, _, rest = uri.partition(":")
    if scheme in ("s3", "s3a"):
        return f"s3:{unquote(rest)}"
    if scheme != "file":
        rest = uri
    return unquote(rest.removeprefix("//") if rest.startswith("///") else rest)


def beginning(path: str) -> str:
    """How the texts of all files of a path begin, whatever their times."""
    return f"{path}@"


def of_paths(files: Mapping[str, int]) -> list[FileId]:
    """The files of a mapping from path to modification time, the form in which notes store them."""
    return [FileId(*file) for file in files.items()]
