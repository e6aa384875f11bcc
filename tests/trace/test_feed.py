"""The change feed of a table, without a JVM."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import duckdb
import pyarrow
import pytest
from deltalake import DeltaTable, write_deltalake

from tests import old_timestamps
from tests.old_timestamps import INSTANTS
from tests.s3_server import S3Process
from tests.store.buckets import new_store, upload
from tidegate.store import Address
from tidegate.times import dates
from tidegate.trace import feed

pytestmark = pytest.mark.slow


def test_changes_have_the_timestamps_that_were_written_whatever_their_files_are(folder: Address) -> None:
    path = folder / "table"
    for old in (True, False):
        old_timestamps.append(path, {"sent": list(INSTANTS), "id": [f"a%20{old}"] * len(INSTANTS)}, old=old)
    for instant in INSTANTS:
        rows = feed.rows(path, 0, 1, ["sent"], f"sent = {dates.literal(instant)}")
        assert rows == [
            {"sent": instant, "_change_type": "insert", "_commit_version": version} for version in (0, 1)
        ], instant


def test_the_feed_is_that_of_delta_rs_where_that_reads_right(folder: Address) -> None:
    path = folder / "table"
    day = datetime(2026, 1, 1, tzinfo=UTC)
    old_timestamps.append(path, {"sent": [day, day], "id": ["a", "b"]}, old=True)
    table = DeltaTable(str(path))
    table.update({"id": "'c'"}, predicate="id = 'b'")
    table.delete("id = 'c'")
    table.delete()
    table.restore(0)
    old_timestamps.append(path, {"sent": [day], "id": ["d"], "more": ["x"]}, old=False, schema_mode="merge")
    table.update_incremental()
    columns = ["sent", "id", "more"]
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.register("feed", table.load_cdf(0, columns=[*columns, "_change_type", "_commit_version"]))
        expected = connection.execute("FROM feed").fetchall()
    rows = feed.rows(path, 0, table.version(), columns, "true")
    assert sorted(tuple(row.values()) for row in rows) == sorted(expected)
    assert {row["_change_type"] for row in rows} == {"insert", "delete", "update_preimage", "update_postimage"}
    assert [row["_commit_version"] for row in rows] == sorted(row["_commit_version"] for row in rows)


def test_the_feed_of_a_table_in_a_bucket_is_that_of_the_same_table_in_a_folder(
    folder: Address, s3_server: S3Process
) -> None:
    path, copy = folder / "table", Address(new_store(s3_server), "table")
    write_deltalake(str(path), pyarrow.table({"id": ["a", "a b%20/"], "n": [1, 2]}), partition_by=["id"])
    table = DeltaTable(str(path))
    table.update({"n": "3"}, predicate="id = 'a'")
    table.delete("n = 2")
    upload(Path(path), copy)
    columns = ["id", "n"]
    rows = feed.rows(copy, 0, 2, columns, "n <> 1")
    assert rows == feed.rows(path, 0, 2, columns, "n <> 1")
    assert sorted(row["n"] for row in rows) == [2, 2, 3]


def test_a_file_that_is_gone_is_an_error(folder: Address) -> None:
    path = folder / "table"
    old_timestamps.append(path, {"id": ["a"], "sent": [INSTANTS[0]]}, old=True)
    next(Path(path).glob("*.parquet")).unlink()
    with pytest.raises(FileNotFoundError):
        feed.rows(path, 0, 0, ["id"], "true")
