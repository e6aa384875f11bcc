"""Whether a query of tables would have a batch, by its last position and their logs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.spark_files import TABLE_ID, DeltaLog, add, change
from tidegate.checkpoints.progress import DeltaPosition
from tidegate.spark.kind import _has_read
from tidegate.store import Address

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("position", "has_read"),
    [
        ((3, -1, False), True),
        ((4, -1, False), False),
        ((2, 1, False), True),
        ((2, 0, False), False),
        ((2, -1, False), False),
        ((1, 0, False), False),
        ((2, 3, True), True),
        ((2, 2, True), False),
        ((1, 1, True), False),
    ],
)
def test_a_table_is_read_up_to_the_last_file_of_its_newest_version(
    tmp_path: Path, position: tuple[int, int, bool], has_read: bool
) -> None:
    table = Address.local(tmp_path / "table")
    log, (version, index, of_snapshot) = DeltaLog(table), position
    at = DeltaPosition(table_id=TABLE_ID, version=version, index=index, of_snapshot=of_snapshot)
    assert not _has_read(table, at)
    log.commit(add("a", 1), add("b", 1))
    log.commit()
    log.commit(add("c", 1), add("d", 1))

    assert _has_read(table, at) is has_read


def test_a_commit_with_change_files_is_read_as_a_whole(tmp_path: Path) -> None:
    table = Address.local(tmp_path / "table")
    log = DeltaLog(table)
    log.commit(add("a", 1))
    log.commit(add("b", 2), change(), change())

    assert _has_read(table, DeltaPosition(table_id=TABLE_ID, version=1, index=0, of_snapshot=False))
