"""Whatever a transform or a contract does with the rows of a batch, each source row has exactly one disposition."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.spark.batch.splits import NEW, Open, counts, refused, split, stored, write
from tests.spark.job import SILVER, landed, reading
from tidegate.errors import ContractRefusedError, LedgerImbalanceError, SpecError
from tidegate.lake.place import PipelinePlace
from tidegate.ops import evolution
from tidegate.schema.contract import Contract
from tidegate.spark.batch.rows import split_rows
from tidegate.spec import FileSource

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.jvm


def doubled(rows: DataFrame) -> DataFrame:
    """Two output rows per source row: the second has another key; the amount determines whether it is broken or filtered."""
    from pyspark.sql import functions as F

    both = rows.withColumn("leg", F.explode(F.array(F.lit(0), F.lit(100))))
    second = F.col("leg") == 100
    return both.select(
        "_row_id",
        "_origin",
        "at",
        "amount",
        F.when(~second | (F.col("amount") != 666), F.col("id") + F.col("leg")).alias("id"),
        F.when(second & F.col("amount").isin(99, 98) | (F.col("amount") == 98), F.lit("odd")).alias("_filtered"),
    )


def test_a_source_row_with_several_output_rows_counts_once_by_precedence(latest: Open) -> None:
    job = latest(doubled)

    result = split(job, (1, 1, 10), (2, 1, 666), (3, 1, 99), (4, 1, 98))

    assert counts(result.prepared) == {"read": 4, "written": 2, "quarantined": 1, "filtered": 1}
    assert refused(result) == {"2|1|insert": ["null_key(id)"]}
    assert result.expected_rows == 3, "two output rows of the first source row, one of the third"
    write(job, result)
    assert stored(job, "id") == [(1,), (101,), (3,)]


@pytest.mark.usefixtures("existing_table")
def test_a_source_row_is_written_if_one_of_its_output_rows_is_newer_than_the_table(latest: Open) -> None:
    result = split(latest(doubled), (1, 2, 10), batch_id=1)

    assert counts(result.prepared) == {"read": 1, "written": 1}
    assert result.expected_rows == 1


def test_a_transform_that_drops_rows_is_an_imbalance(latest: Open) -> None:
    with pytest.raises(LedgerImbalanceError, match=r"transform None dropped 1 row and added 0; nothing was written"):
        split(latest(lambda rows: rows.where("amount > 5")), (1, 1, 10), (2, 1, 5))


def test_a_transform_that_adds_rows_is_an_imbalance(latest: Open) -> None:
    from pyspark.sql import functions as F

    added = (F.when(F.col("id") == 1, F.array("_row_id", F.lit("x"))).otherwise(F.array("_row_id")),)
    with pytest.raises(LedgerImbalanceError, match="dropped 0 rows and added 1"):
        split(latest(lambda rows: rows.withColumn("_row_id", F.explode(*added))), (1, 1, 10), (2, 1, 5))


def test_a_transform_that_replaces_one_row_by_another_is_an_imbalance_despite_equal_counts(latest: Open) -> None:
    from pyspark.sql import functions as F

    swapped = F.when(F.col("id") == 1, F.lit("2|1|insert")).otherwise(F.col("_row_id"))
    with pytest.raises(LedgerImbalanceError, match="dropped 1 row and added 0"):
        split(latest(lambda rows: rows.withColumn("_row_id", swapped)), (1, 1, 10), (2, 1, 5))


@pytest.mark.parametrize("column", ["_row_id", "_origin", "id", "at"])
def test_a_transform_that_drops_a_required_column_is_an_error(latest: Open, column: str) -> None:
    with pytest.raises(SpecError, match=rf"transform None does not return {column}; it must return"):
        latest_rows = latest(lambda rows: rows.drop(column))
        split(latest_rows, (1, 1, 10))


def test_a_transform_that_returns_a_reserved_column_is_an_error(latest: Open) -> None:
    with pytest.raises(
        SpecError, match=r"returns _disposition; name it otherwise: names that begin with '_' are reserved"
    ):
        split(latest(lambda rows: rows.selectExpr("*", "1 AS _disposition")), (1, 1, 10))


def test_an_unreadable_record_is_refused_with_its_text_and_a_new_field_is_in_the_schema_history(
    spark: SparkSession, latest: Open
) -> None:
    job = latest(flow=SILVER)
    batch = landed(
        spark,
        '{"id": 1, "at": 1, "amount": 5, "gate": "B12"}',
        "{not json",
        '{"id": 2, "at": 1, "amount": "many"}',
        '{"id": 3}',
    )

    result = split_rows(job, batch.union(landed(spark, '{"id": 9, "at": 9}', kind="delete")), 0, NEW)

    assert result is not None
    assert counts(result.prepared) == {"read": 4, "written": 1, "quarantined": 3}
    assert result.prepared.rules == {"malformed_json": 1, "wrong_type(amount)": 1, "null_sequence(at)": 1}
    assert result.refused is not None
    texts = {row["_row_id"]: (row["record"], json.loads(row["source"])["line"]) for row in result.refused.collect()}
    assert texts["a#1"] == ("{not json", 1)
    history = evolution.read(PipelinePlace(job.place.layout, "orders"))
    assert [(line.change.field, line.decision) for line in history] == [("gate", "rescue")]


def test_a_batch_that_a_frozen_contract_refuses_writes_no_split(spark: SparkSession, latest: Open) -> None:
    source = FileSource(
        path="orders", format="json", schema="id INT, at INT, amount INT", contract=Contract(mode="freeze")
    )
    job = reading(latest(flow=SILVER), source)

    with pytest.raises(ContractRefusedError):
        split_rows(job, landed(spark, '{"id": 1, "at": 1, "gate": "B12"}'), 0, NEW)

    assert [line.event for line in evolution.read(PipelinePlace(job.place.layout, "orders"))] == ["refused"]
