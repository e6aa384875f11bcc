"""The log of a Delta table is read without a JVM."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow
import pytest
from deltalake import DeltaTable, write_deltalake

from tests.spark_files import TABLE_ID, DeltaLog, add, change, remove, txn
from tidegate.probes import delta
from tidegate.store import Address


@pytest.fixture
def log(folder: Address) -> DeltaLog:
    return DeltaLog(folder / "table")


def test_without_a_table_there_is_no_version(folder: Address) -> None:
    assert delta.current_version(folder / "missing") is None
    (folder / "empty" / "_delta_log").make_folder()
    assert delta.current_version(folder / "empty") is None
    assert delta.transaction_version(folder / "empty", "app") is None
    assert delta.row_bytes(folder / "empty") is None
    assert delta.commits_since(folder / "empty", 0) == []


def test_the_version_is_that_of_the_newest_commit_and_temporary_files_are_ignored(log: DeltaLog) -> None:
    log.commit(add("a", 1))
    log.commit(add("b", 1))
    for name in (
        ".00000000000000000007.json.crc",
        "00000000000000000008.json.tmp",
        "_last_checkpoint",
        "00000000000000000009.crc",
    ):
        (log.path / "_delta_log" / name).put(b"")
    assert delta.current_version(log.path) == 1
    (log.path / "_delta_log" / "00000000000000000012.checkpoint.parquet").put(b"")
    assert delta.current_version(log.path) == 12


def test_an_append_counts_the_rows_of_its_files(log: DeltaLog) -> None:
    log.commit(add("a", 3, 10), add("b", 4, 20))
    (commit,) = delta.commits_since(log.path, 0)
    assert (commit.rows, commit.size, len(commit.files), commit.has_change_files, commit.table_id) == (
        7,
        30,
        2,
        False,
        TABLE_ID,
    )


def test_a_merge_with_change_files_counts_rows_from_its_metrics_and_an_update_once(log: DeltaLog) -> None:
    log.commit(add("a", 3))
    metrics = {
        "numTargetRowsInserted": 2,
        "numTargetRowsUpdated": 1,
        "numTargetRowsDeleted": 4,
        "numTargetRowsCopied": 9,
    }
    log.commit(remove("a", 3), add("b", 5), change(70), operation="MERGE", metrics=metrics)
    (commit,) = delta.commits_since(log.path, 1)
    assert (commit.rows, commit.size, commit.has_change_files) == (7, 70, True)


@pytest.mark.parametrize(("operation", "metric"), [("UPDATE", "numUpdatedRows"), ("DELETE", "numDeletedRows")])
def test_updates_and_deletes_are_counted_by_their_metric(log: DeltaLog, operation: str, metric: str) -> None:
    log.commit(add("a", 3))
    log.commit(remove("a", None), add("b", 3), change(), operation=operation, metrics={metric: 2})
    assert delta.read_commit(log.path, 1).rows == 2


def test_rows_of_removed_files_count_as_deleted(log: DeltaLog) -> None:
    log.commit(add("a", 3))
    log.commit(remove("a", 3), operation="DELETE")
    assert delta.read_commit(log.path, 1).rows == 3


def test_a_commit_that_only_adds_is_told_from_one_that_deletes_or_changes(log: DeltaLog) -> None:
    log.commit(add("a", 3))
    log.commit(remove("a", 3), operation="DELETE")
    log.commit(add("b", 1), change(), operation="MERGE")
    assert [delta.only_adds(log.path, version) for version in range(3)] == [True, False, False]
    with pytest.raises(FileNotFoundError):
        delta.only_adds(log.path, 3)


def test_a_new_deletion_vector_counts_only_its_rows(log: DeltaLog) -> None:
    log.commit(add("a", 10))
    log.commit(remove("a", 10), add("a", 10, hidden=4), operation="DELETE")
    assert delta.read_commit(log.path, 1).rows == 4


def test_the_number_of_rows_is_none_without_statistics(log: DeltaLog) -> None:
    log.commit(add("a", 3))
    log.commit(remove("a", None), operation="TRUNCATE")
    commit = delta.read_commit(log.path, 1)
    assert commit.rows is None
    assert commit.files
    log.commit(change(), operation="RESTORE")
    assert delta.read_commit(log.path, 2).rows is None


@pytest.mark.parametrize("number", range(4))
def test_commits_that_change_no_row_have_no_files(log: DeltaLog, number: int) -> None:
    log.commit(add("a", 3), add("b", 3))
    zero = {f"numTargetRows{what}": 0 for what in ("Inserted", "Updated", "Deleted")}
    without_changes = (
        ([remove("a", 3, data_change=False), add("c", 3, data_change=False)], "OPTIMIZE", None),
        ([log.metadata], "SET TBLPROPERTIES", None),
        ([txn("app", 1)], "WRITE", None),
        ([remove("a", 3), add("c", 3)], "MERGE", zero),
    )
    actions, operation, metrics = without_changes[number]
    log.commit(*actions, operation=operation, metrics=metrics)
    commit = delta.read_commit(log.path, 1)
    assert (commit.files, commit.rows, commit.size) == ((), 0, 0)


def test_a_commit_that_is_no_longer_in_the_log_is_an_error(log: DeltaLog) -> None:
    for name in "abc":
        log.commit(add(name, 1))
    (log.path / "_delta_log" / f"{1:020d}.json").delete()
    with pytest.raises(FileNotFoundError):
        delta.commits_since(log.path, 1)
    assert len(delta.commits_since(log.path, 2)) == 1


def test_the_last_batch_of_an_application_is_found(log: DeltaLog) -> None:
    log.commit(add("a", 1), txn("flights/silver/v1/0", 3))
    log.commit(add("b", 1), txn("flights/silver/v1/0", 4), txn("other", 9))
    log.commit(add("c", 1))
    assert delta.transaction_version(log.path, "flights/silver/v1/0") == 4
    assert delta.transaction_version(log.path, "flights/silver/v2/0") is None
    assert delta.table_id(log.path) == TABLE_ID


def test_a_snapshot_has_the_files_of_its_version(log: DeltaLog) -> None:
    log.commit(add("b", 1, 10), add("a", 2, 20))
    log.commit(remove("b", 1), add("c", 5, 50))
    assert [(file.rows, file.size) for file in delta.snapshot_files(log.path, 0)] == [(2, 20), (1, 10)], (
        "by time, then by path"
    )
    assert sorted((file.rows, file.size) for file in delta.snapshot_files(log.path)) == [(2, 20), (5, 50)]


def test_the_rows_that_versions_added_are_counted_without_those_before(log: DeltaLog) -> None:
    for number in (1, 2, 4):
        log.commit(add(f"file{number}", number))
    assert [delta.rows_added(log.path, after, 2) for after in (-1, 0, 1, 2)] == [7, 6, 4, 0]
    assert delta.rows_added(log.path, -1, 1) == 3


def test_rows_of_versions_that_the_log_no_longer_has_are_not_counted(log: DeltaLog) -> None:
    for number in (1, 2, 4):
        log.commit(add(f"file{number}", number))
    DeltaTable(str(log.path)).create_checkpoint()
    for version in (0, 1):
        (log.path / "_delta_log" / f"{version:020d}.json").delete()
    assert [delta.rows_added(log.path, after, 2) for after in (-1, 0, 1)] == [7, 4, 4]
    assert delta.rows_added(log.path, -1, 1) == 0


def test_the_size_of_a_row_is_from_the_newest_commit_with_statistics(log: DeltaLog) -> None:
    log.commit(add("a", 10, 1000))
    log.commit(add("b", 10, 500))
    log.commit(log.metadata)
    assert delta.row_bytes(log.path) == 50


def test_a_log_can_be_read_during_writes(log: DeltaLog) -> None:
    import threading

    log.commit(add("first", 1))
    folder, stop = log.path / "_delta_log", threading.Event()

    def write() -> None:
        while not stop.is_set() and log.next < 400:
            draft = folder / ".draft.tmp"
            draft.put(
                (
                    '{"commitInfo":{"operation":"WRITE"}}\n'
                    + '{"add":{"path":"x","size":1,"dataChange":true,"stats":"{\\"numRecords\\":1}"}}\n'
                ).encode()
            )
            Path(draft).replace(folder / f"{log.next:020d}.json")
            log.next += 1

    thread = threading.Thread(target=write)
    thread.start()
    try:
        for _ in range(20):
            commits = delta.commits_since(log.path, 0)
            assert [commit.version for commit in commits] == list(range(len(commits)))
            assert sum(commit.rows or 0 for commit in commits) == len(commits)
    finally:
        stop.set()
        thread.join()


def test_versions_whose_log_or_files_were_removed_can_no_longer_be_read(folder: Address) -> None:
    path = folder / "table"
    for number in range(5):
        write_deltalake(str(path), pyarrow.table({"n": [number]}), mode="append")
    assert delta.served_ranges(path, 0, 9) == [(0, 4)]
    assert delta.served_ranges(path, 1, 2) == [(1, 2)]

    (removed,) = delta_files(path, 1)
    removed.delete()
    assert delta.served_ranges(path, 0, 4) == [(0, 0), (2, 4)]
    assert [delta.can_read_version(path, version) for version in (0, 1, 4)] == [True, False, False]

    DeltaTable(str(path), version=3).create_checkpoint()
    for version in (0, 1):
        (path / "_delta_log" / f"{version:020d}.json").delete()
    assert delta.served_ranges(path, 0, 4) == [(3, 4)], "versions before the oldest checkpoint cannot be reconstructed"
    assert not delta.can_read_version(path, 0)


def delta_files(path: Address, version: int) -> list[Address]:
    """The files that a commit added."""
    lines = (path / "_delta_log" / f"{version:020d}.json").read().data.decode().splitlines()
    return [path / action["add"]["path"] for line in lines if "add" in (action := json.loads(line))]


def test_the_files_of_the_newest_version_are_those_of_delta_rs(folder: Address) -> None:
    path = folder / "table"
    assert delta.newest_files(path) == (-1, set())
    for number in range(4):
        write_deltalake(str(path), pyarrow.table({"id": [number]}), mode="append")
    first = delta.newest_files(path)
    table = DeltaTable(str(path))
    table.create_checkpoint()
    table.optimize.compact()
    write_deltalake(str(path), pyarrow.table({"id": [9]}), mode="append")
    expected = (5, set(DeltaTable(str(path)).file_uris()))
    assert len(expected[1]) == 2
    assert delta.newest_files(path) == expected
    assert delta.newest_files(path, *first) == expected, "only later commits are read"
    for commit in range(4):
        (path / "_delta_log" / f"{commit:020d}.json").delete()
    assert delta.newest_files(path) == expected, "a checkpoint replaces the commits before it"
