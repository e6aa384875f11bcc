"""How far a flow is behind the table whose changes it reads."""

from __future__ import annotations

import pytest

from tests.status.place import SILVER, Place
from tests.written import add, change, delta_offset, remove, txn
from tidegate.errors import OffsetsExpiredError


def test_a_source_table_that_does_not_exist_yet_is_no_work_and_says_so(place: Place) -> None:
    told = place.measure(SILVER)
    assert (told.kind, told.has_work, told.behind) == ("change_feed", False, 0)
    assert told.reason == "waits: bronze.trips does not exist yet"


def test_a_checkpoint_never_used_has_the_whole_table_to_read(place: Place) -> None:
    log = place.table("bronze.trips")
    log.commit(add("a", 3, 10))
    log.commit(add("b", 4, 20))
    told = place.measure(SILVER)
    assert (told.has_work, told.first, told.behind, told.rows, told.rows_exact, told.bytes) == (
        True,
        True,
        2,
        7,
        True,
        30,
    )
    assert told.reason == "all of bronze.trips, version 1, is to be read"


def test_an_empty_source_table_is_no_work(place: Place) -> None:
    log = place.table("bronze.trips")
    log.commit()
    assert place.measure(SILVER).has_work is False
    log.commit(add("a", 0))
    assert place.measure(SILVER).has_work is False


def test_a_drained_feed_stands_before_the_next_version(place: Place) -> None:
    log = place.table("bronze.trips")
    log.commit(add("a", 3))
    checkpoint = place.checkpoint("silver")
    checkpoint.run(0, delta_offset(1))
    told = place.measure(SILVER)
    assert (told.has_work, told.behind, told.position) == (False, 0, "version 0")
    log.commit(add("b", 4, 20))
    log.commit(remove("a", 3, data_change=False), add("c", 3, data_change=False), operation="OPTIMIZE")
    log.commit(
        change(70), operation="MERGE", metrics={f"numTargetRows{w}": 2 for w in ("Inserted", "Updated", "Deleted")}
    )
    told = place.measure(SILVER)
    assert (told.has_work, told.behind, told.rows, told.bytes) == (True, 2, 10, 90)
    assert (told.reason, told.ahead) == ("2 new versions of bronze.trips", "versions 1 to 3")


def test_maintenance_of_the_source_is_no_work(place: Place) -> None:
    log = place.table("bronze.trips")
    log.commit(add("a", 3))
    place.checkpoint("silver").run(0, delta_offset(1))
    log.commit(remove("a", 3, data_change=False), add("c", 3, data_change=False), operation="OPTIMIZE")
    log.commit(log.metadata, operation="SET TBLPROPERTIES")
    log.commit(txn("app", 1))
    assert place.measure(SILVER).has_work is False


def test_a_feed_that_ends_with_a_commits_last_file_is_drained_too(place: Place) -> None:
    log = place.table("bronze.trips")
    log.commit(add("a", 3))
    log.commit(change(), operation="DELETE", metrics={"numDeletedRows": 2})
    place.checkpoint("silver").run(0, delta_offset(1, 0))
    told = place.measure(SILVER)
    assert (told.has_work, told.position) == (False, "version 1, file 1")


def test_a_commit_read_in_part_leaves_its_other_files(place: Place) -> None:
    log = place.table("bronze.trips")
    log.commit(add("a", 1, 1), add("b", 2, 2), add("c", 4, 4))
    place.checkpoint("silver").run(0, delta_offset(0, 0))
    told = place.measure(SILVER)
    assert (told.has_work, told.behind, told.rows, told.bytes) == (True, 1, 6, 6)


def test_a_first_load_read_in_part_leaves_the_rest_of_the_snapshot_and_later_commits(place: Place) -> None:
    log = place.table("bronze.trips")
    log.commit(add("a", 1, 1), add("b", 2, 2), add("c", 4, 4))
    log.commit(add("d", 8, 8))
    place.checkpoint("silver").run(0, delta_offset(0, 1, snapshot=True))
    told = place.measure(SILVER)
    assert (told.has_work, told.behind, told.rows, told.bytes) == (True, 2, 12, 12)
    assert told.position == "first load of version 0, file 2"


def test_rows_that_the_log_does_not_tell_are_marked(place: Place) -> None:
    log = place.table("bronze.trips")
    log.commit(add("a", 1))
    place.checkpoint("silver").run(0, delta_offset(1))
    log.commit(change(70), operation="RESTORE")
    told = place.measure(SILVER)
    assert (told.has_work, told.rows, told.rows_exact, told.bytes) == (True, None, False, 70)


@pytest.mark.parametrize("accident", ["ends earlier", "replaced", "log cleaned", "gone", "vacuumed"])
def test_a_source_that_no_longer_holds_what_comes_next_is_loud(place: Place, accident: str) -> None:
    log = place.table("bronze.trips")
    for name in "abc":
        log.commit(add(name, 1))
    version = 9 if accident == "ends earlier" else 1
    table_id = "another" if accident == "replaced" else log.metadata["metaData"]["id"]
    place.checkpoint("silver").run(0, delta_offset(version, table_id=str(table_id)))
    folder = log.path / "_delta_log"
    if accident == "log cleaned":
        (folder / f"{1:020d}.json").unlink()
    if accident == "vacuumed":
        (log.path / "c").unlink()
    if accident == "gone":
        for entry in folder.iterdir():
            entry.unlink()
    with pytest.raises(OffsetsExpiredError, match="checkpoint_version") as raised:
        place.measure(SILVER)
    assert "bronze.trips" in raised.value.message
