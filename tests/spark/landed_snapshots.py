"""Files of full snapshots: their records in bronze, and their announcement to the flow that compares them."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from tests.spark.job import write_table
from tidegate.sources.snapshots import announcements

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidegate.spark.job import Job
    from tidegate.store import Address

BRONZE_COLUMNS = (
    "_row_id string, line string, _header string, _modified_at timestamp, _path string, _line_number bigint, "
    "_ingested_at timestamp"
)
LANDED_AT = datetime(2026, 1, 1, tzinfo=UTC)


class LandedSnapshots:
    """The snapshots of one bronze table, a file each."""

    def __init__(self) -> None:
        self._rows: list[tuple[Any, ...]] = []

    def land(
        self,
        job: Job,
        bronze: Address,
        name: str,
        path: str,
        modified: datetime,
        lines: Sequence[str],
        *,
        has_file: bool = True,
    ) -> None:
        """Add the records of a file to bronze, and announce the snapshot.

        Args:
            job: Of the flow that compares.
            name: Of the snapshot's day.
            path: Of the file, different for each; the identities of its rows begin with its name.
            has_file: Whether it landed: a marker alone is a snapshot without files.
        """
        self._rows += [
            (f"{PurePath(path).stem}#{number}", line, None, modified, f"file://{path}", number, LANDED_AT)
            for number, line in enumerate(lines)
        ]
        write_table(bronze, BRONZE_COLUMNS, *self._rows)
        announcements.announce(job.place, name, {path: int(modified.timestamp() * 1000)} if has_file else {})
