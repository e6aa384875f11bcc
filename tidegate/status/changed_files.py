"""Files that were changed after they were read, and that nothing has read since as they are now. Starts no JVM."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from tidegate import hidden
from tidegate.checkpoints import landing_folder, reingested
from tidegate.lake.file_id import FileId
from tidegate.lake.place import FlowPlace
from tidegate.ops import query, store
from tidegate.spec import FileSource, Flow
from tidegate.times import dates

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tidegate.probes.files import LandedFile
    from tidegate.store import Address

COLUMNS = (hidden.PATH, hidden.MODIFIED_AT)
"""The columns of bronze that `states` needs."""
STORED = f"SELECT DISTINCT {hidden.PATH}, {hidden.MODIFIED_AT} FROM delta_table"
"""SQL for the files with records in bronze."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def unread(place: FlowPlace, flow: Flow, read: Mapping[str, int], listed: Iterable[LandedFile]) -> set[FileId]:
    """Those of the listed files that were changed after they were read, and that neither a reingest nor a replay has read as they are now.

    A reingest lists what it read. What a replay read is in bronze: its rows have the times of their files. The time of the replay says
    nothing about a file whose time another machine wrote. So a file that was corrected to one without a record needs a reingest.

    Args:
        read: The files that the checkpoint has read: path to modification time, in milliseconds since 1970.
        listed: The files of the landing zone. Without a changed one, neither table nor reingests are opened.

    Raises:
        DamagedFileError: What a reingest stored does not fit.
        TableUnreadableError: The log of the table is damaged.
    """
    changed = (file.id for file in listed if file.modified_ms != read.get(file.path, file.modified_ms))
    left = set(changed)
    if left:
        assert isinstance(flow.source, FileSource)
        source_folder = landing_folder.of(place, flow.source)
        left -= set(map(source_folder.present, reingested.read(place)))
    if left:
        times = [_EPOCH + timedelta(milliseconds=file.modified_ms) for file in left]
        since_until = (min(times), max(times) + timedelta(milliseconds=1))
        left -= set(map(source_folder.present, stored(place.layout.table(flow.target.name), since_until)))
    return left


def stored(bronze: Address, times: tuple[datetime, datetime] | None = None) -> set[FileId]:
    """The files with records in bronze.

    Args:
        times: Only files whose time is in this range, without its end.
    """
    if not set(COLUMNS) <= set(query.columns(bronze)):
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
