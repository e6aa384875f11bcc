"""Versions, transactions and commits, read from a Delta table."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tidegate.errors import LedgerImbalanceError
from tidegate.spark.lake import tables, writes
from tidegate.spark.lake.writes import Transaction
from tidegate.store import Address

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.jvm

SILVER, OTHER = "orders/silver/v1/0", "orders/silver/v2/0"


def rows(spark: SparkSession, *ids: int) -> DataFrame:
    return spark.createDataFrame([(number,) for number in ids], "id int").coalesce(1)


def append(spark: SparkSession, path: Address, batch_id: int, *ids: int, app_id: str = SILVER) -> tables.Commit:
    txn = Transaction(app_id=app_id, batch_id=batch_id, prepared={"read": len(ids)})
    return writes.append(rows(spark, *ids), path, txn)


@pytest.fixture
def path(folder: Address) -> Address:
    return folder / "table"


@pytest.fixture(scope="module")
def batches(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Address:
    """A table with two batches of one checkpoint, and one batch of another checkpoint with the id of the first batch."""
    path = Address.local(tmp_path_factory.mktemp("lake")) / "table"
    append(spark, path, 0, 1, 2)
    append(spark, path, 0, 3, app_id=OTHER)
    append(spark, path, 1, 4, 5, 6)
    return path


@pytest.fixture
def written(batches: Address, path: Address) -> Address:
    """A copy of `batches` that the test may change."""
    shutil.copytree(batches, path)
    return path


def test_a_table_exists_if_it_has_a_commit(spark: SparkSession, path: Address) -> None:
    assert not tables.exists(path)
    (path / "_delta_log").make_folder()
    assert not tables.exists(path), "the writer failed before its first commit"
    assert tables.transactions(spark, path) == {}
    (path / "_delta_log").delete_folder()

    append(spark, path, 0, 1)

    assert tables.exists(path)


def test_a_table_is_read_at_its_newest_and_at_an_older_version(spark: SparkSession, written: Address) -> None:
    def ids(frame: Any) -> list[int]:
        return sorted(row["id"] for row in frame.collect())

    assert ids(tables.read(spark, written)) == [1, 2, 3, 4, 5, 6]
    assert ids(tables.read(spark, written, 1)) == [1, 2, 3]
    assert ids(tables.read(spark, written, 0)) == [1, 2]
    assert tables.version(spark, written) == 2


def test_transactions_are_the_last_batch_of_every_writer(spark: SparkSession, written: Address) -> None:
    assert tables.transactions(spark, written) == {SILVER: 1, OTHER: 0}


def test_transactions_are_read_from_the_log_if_the_newest_version_has_no_checksum(
    spark: SparkSession, written: Address
) -> None:
    from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

    properties = CommitProperties(app_transactions=[Transaction(app_id="orders/silver/replay", version=7)])
    write_deltalake(
        str(written), DeltaTable(str(written)).to_pyarrow_table(), mode="append", commit_properties=properties
    )
    assert not (written / "_delta_log" / f"{3:020d}.crc").exists()

    assert tables.transactions(spark, written) == {SILVER: 1, OTHER: 0, "orders/silver/replay": 7}
    assert tables.version(spark, written) == 3


def test_a_damaged_checksum_is_as_none(spark: SparkSession, written: Address) -> None:
    checksum = written / "_delta_log" / f"{2:020d}.crc"
    checksum.put(checksum.read().data[:50])
    (written / "_delta_log" / f".{checksum.name}.crc").delete()
    assert tables.transactions(spark, written) == {SILVER: 1, OTHER: 0}


def test_the_commit_of_a_batch_is_found_by_transaction(spark: SparkSession, written: Address) -> None:
    first, other = (
        tables.find_commit(written, SILVER, 0, 2),
        tables.find_commit(written, OTHER, 0, 2),
    )

    assert (first.version, first.metadata["prepared"], first.metrics["numOutputRows"]) == (0, {"read": 2}, 2)
    assert (other.version, other.metadata["prepared"]) == (1, {"read": 1})


def test_a_commit_that_is_missing_from_the_log_is_an_error(spark: SparkSession, written: Address) -> None:
    (written / "_delta_log" / f"{0:020d}.json").delete()

    assert tables.find_commit(written, SILVER, 1, 2).version == 2
    with pytest.raises(LedgerImbalanceError, match="its log no longer has the commit"):
        tables.find_commit(written, SILVER, 0, 2)
    with pytest.raises(LedgerImbalanceError, match="its log no longer has the commit"):
        tables.find_commit(written, SILVER, 9, 2)


def test_commits_that_are_in_the_log_are_returned_oldest_first(spark: SparkSession, written: Address) -> None:
    assert [commit.version for commit in tables.commits(written, 1, 2)] == [1, 2]
    (written / "_delta_log" / f"{1:020d}.json").delete()
    assert [commit.version for commit in tables.commits(written, 0, 5)] == [0, 2]


def test_a_commit_of_another_writer_has_empty_metadata(spark: SparkSession, path: Address) -> None:
    rows(spark, 1).write.format("delta").option("userMetadata", "by hand").save(str(path))

    (commit,) = tables.commits(path, 0, 0)

    assert commit.metadata == {}
    assert commit.metrics["numOutputRows"] == 1


def test_a_version_is_read_however_old_it_is_by_the_clock_while_its_files_are_there(
    spark: SparkSession, path: Address
) -> None:
    for batch_id in range(2):
        append(spark, path, batch_id, batch_id)
    for entry in Path(path / "_delta_log").iterdir():
        os.utime(entry, (0, 86_400))
    spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()  # type: ignore[union-attr]

    assert [row["id"] for row in tables.read(spark, path, 0).collect()] == [0]
