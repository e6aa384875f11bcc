"""What was read of the files of a landing folder, by key: bronze and quarantine have size and checksum of each. Starts no JVM."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tidegate import hidden
from tidegate.checkpoints.landing_folder import ComparedContent
from tidegate.lake.file_id import FileId, url_of_path
from tidegate.ops import store
from tidegate.probes import delta_table

if TYPE_CHECKING:
    from tidegate.checkpoints.landing_folder import LandingFolder
    from tidegate.lake.place import FlowPlace
    from tidegate.store import Address

_MOST_NAMED = 1_000
"""Up to so many paths are named in a query, so that delta-rs skips files of the table by them."""
ENTRIES = f"SELECT {hidden.ROW_ID}, source FROM delta_table WHERE level = 'file' ORDER BY quarantined_at"
"""SQL for the files in quarantine."""


@dataclass(frozen=True)
class FileContent:
    """A file as it was read."""

    file: FileId
    size: int
    checksum: str | None
    """None where an earlier version of Tidegate read it, or it could not be read."""

    @classmethod
    def of_entry(cls, row: Mapping[str, Any]) -> FileContent:
        """Of an entry of quarantine, by its columns ``_row_id`` and ``source``."""
        source = json.loads(row["source"])
        return cls(FileId.parse(row[hidden.ROW_ID]), source["size"], source["sha256"] or None)


@dataclass(frozen=True)
class FileContents:
    """What was read of the files of a folder."""

    folder: LandingFolder
    stored: Mapping[str, Sequence[FileContent]]
    """By key, the contents that are in bronze, the one that was read last at the end."""
    entries: Mapping[str, Sequence[FileContent]]
    """Likewise in quarantine. The tables have what was read before them."""

    @classmethod
    def of(cls, folder: LandingFolder, stored: Iterable[FileContent], entries: Iterable[FileContent]) -> FileContents:
        """Those of files below the folder, or where it was before, in the order in which they were read."""
        return cls(folder, _by_key(folder, stored), _by_key(folder, entries))

    @classmethod
    def read(cls, folder: LandingFolder, place: FlowPlace, bronze: Address, keys: Collection[str] = ()) -> FileContents:
        """What bronze and quarantine have of these files, by default of all.

        Raises:
            TableUnreadableError: The log of the table is damaged.
        """
        entries = (FileContent.of_entry(row) for row in store.select(place.quarantine, ENTRIES))
        return cls.of(folder, _stored(folder, bronze, keys), entries)

    @property
    def keys(self) -> set[str]:
        """Those of all files of which something was read."""
        return {*self.stored, *self.entries}

    def of_key(self, key: str) -> Sequence[FileContent]:
        """All that was read of a file."""
        return (*self.stored.get(key, ()), *self.entries.get(key, ()))

    def named(self, file: FileId) -> list[FileContent]:
        """What was read under one of the names that a file has now."""
        names = self.folder.names(file)
        return [content for content in self.of_key(self.folder.key(file.path)) if content.file in names]

    def newest(self, file: FileId, size: int) -> list[FileContent]:
        """What was read last of a file, if it was as long: it may be the same. Nothing if the file was compared and is another."""
        key, known = self.folder.key(file.path), self.folder.checksum(file)
        last = [*self.stored.get(key, ())[-1:], *self.entries.get(key, ())[-1:]]
        return [each for each in last if each.size == size and (known is None or each.checksum == known)]

    def compared(self, file: FileId, checksum: str) -> ComparedContent:
        """The content of a file that was compared, with all its times."""
        key = self.folder.key(file.path)
        last = [*self.stored.get(key, ())[-1:], *self.entries.get(key, ())[-1:]]
        times = [time for each in last if each.checksum == checksum for time in self.folder.times(each.file)]
        if not times:
            # What had this content before another one was read is not the same file: its rows may have been replaced.
            read = {each.file.modified_ms for each in self.of_key(key)}
            unread = (each for each in self.folder.moved.of_key(key) if read.isdisjoint(each.times))
            times = [time for each in unread if each.checksum == checksum for time in each.times]
        return ComparedContent(checksum=checksum, times=sorted({*times, file.modified_ms}))


def _by_key(folder: LandingFolder, contents: Iterable[FileContent]) -> dict[str, list[FileContent]]:
    by_key: dict[str, list[FileContent]] = {}
    for content in contents:
        by_key.setdefault(folder.key(content.file.path), []).append(content)
    return by_key


def _stored(folder: LandingFolder, bronze: Address, keys: Collection[str]) -> Iterator[FileContent]:
    columns = delta_table.columns(bronze)
    if not {hidden.PATH, hidden.MODIFIED_AT, hidden.SIZE, hidden.INGESTED_AT} <= {*columns}:
        return
    checksum = hidden.CHECKSUM if hidden.CHECKSUM in columns else "NULL"
    paths = [f"{each}/{key}" for key in keys for each in (folder.path, *folder.earlier)]
    where = "true"
    if 0 < len(paths) <= _MOST_NAMED:
        where = f"{hidden.PATH} IN ({', '.join(map(_literal, paths))})"
    by_file = (
        f"SELECT {hidden.PATH}, {hidden.MODIFIED_AT}, {hidden.SIZE}, {checksum} AS checksum, max({hidden.INGESTED_AT}) AS read_at "
        f"FROM delta_table WHERE {where} GROUP BY {hidden.PATH}, {hidden.MODIFIED_AT}, {hidden.SIZE}, checksum ORDER BY read_at"
    )
    for row in store.select(bronze, by_file):
        file = FileId.of_bronze(row[hidden.PATH], row[hidden.MODIFIED_AT])
        yield FileContent(file, row[hidden.SIZE], row["checksum"])


def _literal(path: str) -> str:
    """The ``_path`` of a file as an SQL literal."""
    return "'" + url_of_path(path).replace("'", "''") + "'"
