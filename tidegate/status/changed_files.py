"""Files that have another time than when they were read, and that nothing has read since as they are now. Starts no JVM, and opens none."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from tidegate import hidden
from tidegate.checkpoints import landing_folder, reingested
from tidegate.lake.file_id import FileId
from tidegate.lake.place import FlowPlace
from tidegate.ops import store
from tidegate.probes import delta_table
from tidegate.spec import FileSource, Flow
from tidegate.status.file_contents import FileContents
from tidegate.times import dates

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tidegate.checkpoints.landing_folder import LandingFolder
    from tidegate.probes.files import LandedFile
    from tidegate.store import Address

COLUMNS = (hidden.PATH, hidden.MODIFIED_AT)
"""The columns of bronze that `states` needs."""
STORED = f"SELECT DISTINCT {hidden.PATH}, {hidden.MODIFIED_AT} FROM delta_table"
"""SQL for the files with records in bronze."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class ChangedFiles:
    """Landed files with another time than when they were read."""

    overwritten: tuple[LandedFile, ...] = ()
    """Those with another content than was read last. Also those of which no checksum is stored."""
    touched: tuple[LandedFile, ...] = ()
    """Those that may have the content that was read last: the next run compares them."""
    contents: FileContents | None = field(default=None, repr=False)
    """What was read of them; None without any."""


def unread(place: FlowPlace, flow: Flow, read: Mapping[str, int], changed: list[LandedFile]) -> ChangedFiles:
    """Those of some files with another time that neither a reingest nor a replay has read as they are now.

    A reingest lists what it read. What a replay read is in bronze: its rows have the times of their files. The time of the replay says
    nothing about a file whose time another machine wrote. So a file that was corrected to one without a record needs a reingest.

    Args:
        read: The files that the checkpoint has read: path to modification time, in milliseconds since 1970.
        changed: The landed files that have another time (`files.with_another_time`). Without one, neither table nor reingests are opened.

    Raises:
        DamagedFileError: What a reingest stored does not fit.
        TableUnreadableError: The log of the table is damaged.
    """
    if not changed:
        return ChangedFiles()
    assert isinstance(flow.source, FileSource)
    source_folder = landing_folder.of(place, flow.source)
    known = {source_folder.identity(FileId(file.path, read[file.path])) for file in changed}
    known |= set(map(source_folder.identity, reingested.read(place)))
    changed = _without(source_folder, changed, known)
    if changed:
        times = [_EPOCH + timedelta(milliseconds=time) for file in changed for time in source_folder.times(file.id)]
        since_until = (min(times), max(times) + timedelta(milliseconds=1))
        table = place.layout.table(flow.target.name)
        changed = _without(source_folder, changed, set(map(source_folder.identity, stored(table, since_until))))
    return of_contents(place, flow, source_folder, changed)


def of_contents(
    place: FlowPlace, flow: Flow, source_folder: LandingFolder, changed: Iterable[LandedFile]
) -> ChangedFiles:
    """Which of these files may have a content that was read, without those that were read with this time; raises as `unread`."""
    files = list(changed)
    if not files:
        return ChangedFiles()
    keys = {source_folder.key(file.path) for file in files}
    contents = FileContents.read(source_folder, place, place.layout.table(flow.target.name), keys)
    touched = {
        file: any(each.checksum is not None for each in contents.newest(file.id, file.size))
        for file in files
        if not contents.named(file.id)
    }
    return ChangedFiles(
        tuple(file for file, may_be_same in touched.items() if not may_be_same),
        tuple(file for file, may_be_same in touched.items() if may_be_same),
        contents,
    )


def _without(source_folder: LandingFolder, listed: Iterable[LandedFile], known: set[FileId]) -> list[LandedFile]:
    return [file for file in listed if source_folder.identity(file.id) not in known]


def stored(bronze: Address, times: tuple[datetime, datetime] | None = None) -> set[FileId]:
    """The files with records in bronze.

    Args:
        times: Only files whose time is in this range, without its end.
    """
    if not set(COLUMNS) <= set(delta_table.columns(bronze)):
        return set()
    where = "true"
    if times is not None:
        # With this condition, files of the table are skipped by their statistics.
        since, until = map(dates.literal, times)
        where = f"{hidden.MODIFIED_AT} >= {since} AND {hidden.MODIFIED_AT} < {until}"
    return states(store.select(bronze, f"{STORED} WHERE {where}"))


def states(rows: Iterable[Mapping[str, Any]]) -> set[FileId]:
    """The files of rows with `COLUMNS`."""
    return {FileId.of_bronze(row[hidden.PATH], row[hidden.MODIFIED_AT]) for row in rows}
