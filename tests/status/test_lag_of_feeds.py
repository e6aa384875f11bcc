"""The lag of a flow behind the table whose changes it reads."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from tests.spark_files import add, change, delta_offset, remove, txn
from tests.status.sample_project import SILVER, SampleProject
from tidegate.errors import OffsetsExpiredError


def test_a_missing_source_table_is_no_work(project: SampleProject) -> None:
    lag = project.measure(SILVER)
    assert (lag.source_kind, lag.has_work, lag.backlog.behind) == ("change_feed", False, 0)
    assert lag.reason == "waits: bronze.trips does not exist yet"


def test_an_unused_checkpoint_reads_the_whole_table(project: SampleProject) -> None:
    log = project.table("bronze.trips")
    log.commit(add("a", 3, 10))
    log.commit(add("b", 4, 20))
    lag = project.measure(SILVER)
    backlog = lag.backlog
    assert (lag.has_work, lag.committed is None, backlog.behind, backlog.rows, backlog.rows_exact, backlog.size) == (
        True,
        True,
        2,
        7,
        True,
        30,
    )
    assert lag.reason == "all of bronze.trips, version 1"


def test_an_empty_source_table_is_no_work(project: SampleProject) -> None:
    log = project.table("bronze.trips")
    log.commit()
    assert project.measure(SILVER).has_work is False
    log.commit(add("a", 0))
    assert project.measure(SILVER).has_work is False


def test_an_up_to_date_feed_continues_with_the_next_version(project: SampleProject) -> None:
    log = project.table("bronze.trips")
    log.commit(add("a", 3))
    checkpoint = project.checkpoint("silver")
    checkpoint.run(0, delta_offset(1))
    lag = project.measure(SILVER)
    backlog = lag.backlog
    assert (lag.has_work, backlog.behind, backlog.position) == (False, 0, "version 0")
    log.commit(add("b", 4, 20))
    log.commit(remove("a", 3, data_change=False), add("c", 3, data_change=False), operation="OPTIMIZE")
    log.commit(
        change(70), operation="MERGE", metrics={f"numTargetRows{w}": 2 for w in ("Inserted", "Updated", "Deleted")}
    )
    lag = project.measure(SILVER)
    backlog = lag.backlog
    assert (lag.has_work, backlog.behind, backlog.rows, backlog.size) == (True, 2, 10, 90)
    assert (lag.reason, lag.backlog.ahead) == ("2 new versions of bronze.trips", "versions 1 to 3")


def test_maintenance_of_the_source_is_no_work(project: SampleProject) -> None:
    log = project.table("bronze.trips")
    log.commit(add("a", 3))
    project.checkpoint("silver").run(0, delta_offset(1))
    log.commit(remove("a", 3, data_change=False), add("c", 3, data_change=False), operation="OPTIMIZE")
    log.commit(log.metadata, operation="SET TBLPROPERTIES")
    log.commit(txn("app", 1))
    assert project.measure(SILVER).has_work is False


def test_a_feed_that_ends_with_the_last_file_of_a_commit_is_up_to_date(project: SampleProject) -> None:
    log = project.table("bronze.trips")
    log.commit(add("a", 3))
    log.commit(change(), operation="DELETE", metrics={"numDeletedRows": 2})
    project.checkpoint("silver").run(0, delta_offset(1, 0))
    lag = project.measure(SILVER)
    assert (lag.has_work, lag.backlog.position) == (False, "version 1, file 1")


def test_the_other_files_of_a_partly_read_commit_are_still_to_read(project: SampleProject) -> None:
    log = project.table("bronze.trips")
    log.commit(add("a", 1, 1), add("b", 2, 2), add("c", 4, 4))
    project.checkpoint("silver").run(0, delta_offset(0, 0))
    lag = project.measure(SILVER)
    backlog = lag.backlog
    assert (lag.has_work, backlog.behind, backlog.rows, backlog.size) == (True, 1, 6, 6)


def test_the_rest_of_a_partly_read_first_load_and_later_commits_are_still_to_read(project: SampleProject) -> None:
    log = project.table("bronze.trips")
    log.commit(add("a", 1, 1), add("b", 2, 2), add("c", 4, 4))
    log.commit(add("d", 8, 8))
    project.checkpoint("silver").run(0, delta_offset(0, 1, snapshot=True))
    lag = project.measure(SILVER)
    backlog = lag.backlog
    assert (lag.has_work, backlog.behind, backlog.rows, backlog.size) == (True, 2, 12, 12)
    assert lag.backlog.position == "first load of version 0, file 2"


def test_rows_that_are_not_in_the_log_are_unknown(project: SampleProject) -> None:
    log = project.table("bronze.trips")
    log.commit(add("a", 1))
    project.checkpoint("silver").run(0, delta_offset(1))
    log.commit(change(70), operation="RESTORE")
    lag = project.measure(SILVER)
    backlog = lag.backlog
    assert (lag.has_work, backlog.rows, backlog.rows_exact, backlog.size) == (True, None, False, 70)


def test_the_version_of_an_only_batch_must_be_there_because_spark_opens_it_again(project: SampleProject) -> None:
    log = project.table("bronze.trips")
    log.commit(add("a", 3))
    checkpoint = project.checkpoint("silver")
    checkpoint.run(0, delta_offset(1))
    log.commit(remove("a", 3, data_change=False), add("c", 3, data_change=False), operation="OPTIMIZE")
    DeltaTable(str(log.path)).create_checkpoint()
    assert project.measure(SILVER).has_work is False
    (log.path / "_delta_log" / f"{0:020d}.json").delete()

    with pytest.raises(OffsetsExpiredError, match="no longer holds version 0, which the first batch has read"):
        project.measure(SILVER)

    checkpoint.run(1, delta_offset(2))
    assert project.measure(SILVER).has_work is False, "after a second batch it only opens what comes next"


@pytest.mark.parametrize("cause", ["ends earlier", "replaced", "log cleaned", "deleted", "vacuumed"])
def test_a_source_without_the_next_version_is_an_error(project: SampleProject, cause: str) -> None:
    log = project.table("bronze.trips")
    for name in "abc":
        log.commit(add(name, 1))
    version = 9 if cause == "ends earlier" else 1
    table_id = "another" if cause == "replaced" else log.metadata["metaData"]["id"]
    project.checkpoint("silver").run(0, delta_offset(version, table_id=str(table_id)))
    folder = log.path / "_delta_log"
    if cause == "log cleaned":
        DeltaTable(str(log.path)).create_checkpoint()
        for cleaned in (0, 1):
            (folder / f"{cleaned:020d}.json").delete()
    if cause == "vacuumed":
        (log.path / "c").delete()
    if cause == "deleted":
        for entry in Path(folder).iterdir():
            entry.unlink()
    with pytest.raises(OffsetsExpiredError, match="tidegate recover") as raised:
        project.measure(SILVER)
    assert "bronze.trips" in raised.value.message


@pytest.mark.parametrize(
    ("properties", "days", "kept_days"),
    [
        ({}, 3, None),
        ({}, 4, 7),
        ({"delta.deletedFileRetentionDuration": "interval 1 month"}, 29, None),
        ({"delta.deletedFileRetentionDuration": "interval 30 days"}, 14, None),
        ({"delta.deletedFileRetentionDuration": "interval 30 days"}, 16, 30),
        (
            {
                "delta.deletedFileRetentionDuration": "interval 4 weeks",
                "delta.logRetentionDuration": "interval 240 hours",
            },
            6,
            10,
        ),
    ],
)
def test_changes_that_are_unread_for_half_of_the_retention_have_a_time_up_to_which_they_are_kept(
    project: SampleProject, properties: dict[str, str], days: float, kept_days: int | None
) -> None:
    log = project.table("bronze.trips")
    configuration: Any = log.metadata["metaData"]["configuration"]
    configuration |= properties
    log.commit(add("a", 1))
    project.checkpoint("silver").run(0, delta_offset(1))
    version = log.commit(add("b", 1))
    log.commit(add("c", 1))
    committed = time.time() - days * 86_400
    os.utime(log.path / "_delta_log" / f"{version:020d}.json", (committed, committed))

    until = project.measure(SILVER).backlog.unread_until_ms

    assert until == (None if kept_days is None else pytest.approx((committed + kept_days * 86_400) * 1000, abs=2))
