"""Every source row gets exactly one fate, whatever the transform makes of it; shown on changes of a keyed table."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.spark.flow_context import LATEST, SILVER, changes, flow_context, landed, table, transaction
from tidegate.errors import ContractRefusedError, LedgerImbalanceError, SpecError
from tidegate.ops import evolution
from tidegate.report import BatchRecord
from tidegate.schema.contract import Contract
from tidegate.spark.batch import rows as row_flows
from tidegate.spark.batch.rows import split_rows
from tidegate.spark.batch.split import Decision, Split, arrived_rows
from tidegate.spec import FileSource, Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tidegate.spark.context import FlowContext

pytestmark = pytest.mark.jvm

ORDERS = "id int, at int, amount int"
NEW = Decision(quarantined=False, written=False)
Open = Callable[..., "FlowContext"]


@pytest.fixture
def latest(spark: SparkSession, tmp_path: Path) -> Open:
    """The flow `latest`, from one keyed table into another, with a transform of the test's."""

    def make(transform: Callable[[DataFrame], DataFrame] | None = None, **more: Any) -> FlowContext:
        return flow_context(spark, tmp_path, more.pop("flow", LATEST), transform=transform, **more)

    return make


def split(context: FlowContext, *rows: tuple[Any, ...], batch_id: int = 0) -> Split:
    """What the batch is decided to be. A row is ``id, at, amount`` and, if it matters, its change type and version."""
    result = split_rows(context, changes(context.spark, ORDERS, *rows), batch_id, NEW)
    assert result is not None
    assert result.planned.imbalance() == 0
    return result


def write(context: FlowContext, result: Split) -> None:
    """Write the target as the micro-batch does; the commit takes as many rows as were planned."""
    commit = result.write(transaction(context, result.planned.batch_id, result.planned))
    assert arrived_rows(commit) == result.arriving


def counts(record: BatchRecord) -> dict[str, int]:
    """All counts of rows that are not 0."""
    names = ("read", "written", "quarantined", "deduplicated", "superseded", "already_read")
    numbers = {name: getattr(record, name) for name in names} | {"filtered": sum(record.filtered.values())}
    return {name: number for name, number in numbers.items() if number}


def stored(context: FlowContext, *columns: str) -> list[tuple[Any, ...]]:
    return [tuple(row[name] for name in columns or ("id", "at", "amount")) for row in table(context.target)]


def refused(result: Split) -> dict[str, list[str]]:
    """Rules of each refused source row, by its id."""
    return {} if result.refused is None else {row["_row_id"]: row["rules"] for row in result.refused.collect()}


def test_every_fate_is_counted_by_its_own_name(latest: Open) -> None:
    from pyspark.sql import functions as F

    context = latest(lambda rows: rows.withColumn("_filtered", F.when(F.col("amount") == 99, F.lit("odd"))))
    write(context, split(context, (4, 6, 40)))

    result = split(
        context,
        (1, 1, 10, "insert", 2),
        (1, 3, 30, "update_postimage", 3),
        (1, 2, 20, "update_postimage", 4),
        (4, 5, 41),
        *((number, 1, 50) for number in (5, 6, 7)),
        (None, 1, 60, "insert", 2),
        (None, 1, 60, "insert", 3),
        (8, None, 60),
        *((number, 1, 99) for number in (11, 12, 13, 14, 15)),
        batch_id=1,
    )

    assert counts(result.planned) == {
        "read": 15,
        "written": 4,
        "deduplicated": 2,
        "superseded": 1,
        "quarantined": 3,
        "filtered": 5,
    }
    assert result.planned.filtered == {"odd": 5}
    assert result.planned.rules == {"null_key(id)": 2, "null_sequence(at)": 1}
    assert (result.planned.flow, result.planned.batch_id, result.planned.app_id) == (
        "latest",
        1,
        "orders/latest/v1/0",
    )
    assert result.planned.kind == "upsert"
    assert result.arriving == 4
    write(context, result)
    assert stored(context) == [(1, 3, 30), (4, 6, 40), (5, 1, 50), (6, 1, 50), (7, 1, 50)]


def test_a_stored_row_carries_its_order_its_id_and_its_batch(latest: Open) -> None:
    context = latest()
    write(context, split(context, (1, 5, 10, "insert", 3)))

    (row,) = table(context.target)

    assert row["_order"] == {"at": 5, "_commit_version": 3, "_rank": 1}
    assert (row["_row_id"], row["_batch_id"], row["_deleted"]) == ("1|3|insert", 0, False)
    assert row["_ingested_at"] == datetime(2026, 1, 1, tzinfo=UTC)
    assert [name for name in row if name.startswith("_")] == [
        "_order",
        "_deleted",
        "_row_id",
        "_ingested_at",
        "_batch_id",
    ]


@pytest.mark.parametrize(
    ("newcomer", "fate"),
    [
        ((1, 6, 11, "insert", 1), "written"),
        ((1, 4, 11, "insert", 9), "superseded"),
        ((1, 5, 11, "insert", 4), "written"),
        ((1, 5, 11, "insert", 2), "superseded"),
        ((1, 5, 10, "insert", 3), "superseded"),
        ((1, 5, 0, "delete", 4), "written"),
        ((2, 1, 11, "insert", 1), "written"),
    ],
    ids=["later", "earlier", "same, newer version", "same, older version", "the very same", "a delete", "another key"],
)
def test_a_row_is_written_only_when_its_order_is_higher_than_that_of_the_table(
    latest: Open, newcomer: tuple[Any, ...], fate: str
) -> None:
    context = latest()
    write(context, split(context, (1, 5, 10, "insert", 3)))

    result = split(context, newcomer, batch_id=1)

    assert counts(result.planned) == {"read": 1, fate: 1}
    assert result.arriving == (1 if fate == "written" else 0)


def test_of_one_key_the_highest_order_of_the_batch_is_written_whatever_came_first(latest: Open) -> None:
    context = latest()

    result = split(context, (1, 2, 20, "insert", 5), (1, 3, 30, "insert", 4), (1, 3, 31, "insert", 3), (2, 1, 1))

    assert counts(result.planned) == {"read": 4, "written": 2, "deduplicated": 2}
    write(context, result)
    assert stored(context) == [(1, 3, 30), (2, 1, 1)]


def test_within_one_version_a_delete_comes_before_an_insert_of_the_same_key(latest: Open) -> None:
    context = latest()

    result = split(context, (1, 2, 20, "insert"), (1, 2, 10, "delete"))

    assert counts(result.planned) == {"read": 2, "written": 1, "deduplicated": 1}
    write(context, result)
    assert stored(context, "amount", "_deleted") == [(20, False)]


def test_a_delete_leaves_a_tombstone_with_its_order(latest: Open) -> None:
    context = latest()
    write(context, split(context, (1, 1, 10, "insert", 1)))

    write(context, split(context, (1, 1, 10, "delete", 2), batch_id=1))

    assert stored(context, "id", "_deleted", "_batch_id") == [(1, True, 1)]
    assert counts(split(context, (1, 1, 10, "insert", 1), batch_id=2).planned) == {"read": 1, "superseded": 1}


def test_pre_images_are_no_rows(latest: Open) -> None:
    result = split(latest(), (1, 1, 10, "update_preimage", 2), (1, 1, 20, "update_postimage", 2))

    assert counts(result.planned) == {"read": 1, "written": 1}


def test_without_rows_there_is_nothing_to_split(latest: Open) -> None:
    context = latest()
    batch = changes(context.spark, ORDERS, (1, 1, 10, "update_preimage", 2))

    assert split_rows(context, batch, 0, NEW) is None


def test_a_refused_or_filtered_row_takes_the_place_of_no_good_row_of_its_key(latest: Open) -> None:
    from pyspark.sql import functions as F

    good = F.col("amount") < 90
    context = latest(
        lambda rows: rows.withColumns(
            {
                "_filtered": F.when(F.col("amount") == 99, F.lit("odd")),
                "at": F.when(good | (F.col("amount") == 99), F.col("at")),
            }
        )
    )

    result = split(context, (1, 1, 10, "insert", 1), (1, 7, 98, "insert", 2), (1, 8, 99, "insert", 3))

    assert counts(result.planned) == {"read": 3, "written": 1, "quarantined": 1, "filtered": 1}
    assert refused(result) == {"1|2|insert": ["null_sequence(at)"]}
    write(context, result)
    assert stored(context) == [(1, 1, 10)]


def test_what_is_filtered_needs_neither_key_nor_sequence(latest: Open) -> None:
    from pyspark.sql import functions as F

    context = latest(lambda rows: rows.withColumn("_filtered", F.lit("holiday")))

    result = split(context, (None, None, 1))

    assert counts(result.planned) == {"read": 1, "filtered": 1}
    assert result.refused is None
    write(context, result)
    assert context.target.exists() and table(context.target) == [], "the batch is recorded in the table"


def test_a_row_that_lacks_key_and_sequence_names_both(latest: Open) -> None:
    result = split(latest(), (None, None, 1), (2, 1, 5))

    assert result.planned.rules == {"null_key(id)": 1, "null_sequence(at)": 1}
    assert counts(result.planned) == {"read": 2, "written": 1, "quarantined": 1}
    (row,) = result.refused.collect() if result.refused is not None else []
    assert row.asDict() == {
        "_row_id": "1|insert",
        "level": "row",
        "rules": ["null_key(id)", "null_sequence(at)"],
        "record": '{"amount":1}',
        "source": '{"version":1}',
    }


APPENDING = dataclasses.replace(LATEST, transform="orders:clean", target=Table("silver.latest"))


def test_a_table_without_keys_takes_every_row_that_is_neither_refused_nor_filtered(latest: Open) -> None:
    from pyspark.sql import functions as F

    context = latest(
        lambda rows: rows.withColumn("_filtered", F.when(F.col("amount") == 99, F.lit("odd"))), flow=APPENDING
    )

    result = split(context, (1, 1, 10, "insert", 1), (1, 1, 10, "insert", 2), (2, 1, 99), (None, 1, 5))

    assert counts(result.planned) == {"read": 4, "written": 3, "filtered": 1}
    assert result.planned.kind == "append"
    write(context, result)
    assert stored(context) == [(1, 1, 10), (1, 1, 10), (None, 1, 5)]
    assert "_order" not in table(context.target)[0]


def doubled(rows: DataFrame) -> DataFrame:
    """Two rows of each: the second has a key of its own, and the amount decides what becomes of it."""
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


def test_one_row_made_into_several_counts_once_by_the_first_fate_that_one_of_them_has(latest: Open) -> None:
    context = latest(doubled)

    result = split(context, (1, 1, 10), (2, 1, 666), (3, 1, 99), (4, 1, 98))

    assert counts(result.planned) == {"read": 4, "written": 2, "quarantined": 1, "filtered": 1}
    assert refused(result) == {"2|1|insert": ["null_key(id)"]}
    assert result.arriving == 3, "of the first row two, of the third one"
    write(context, result)
    assert stored(context, "id") == [(1,), (101,), (3,)]


def test_of_a_row_of_which_some_are_older_than_the_table_the_others_count(latest: Open) -> None:
    context = latest(doubled)
    plain = latest()
    write(plain, split(plain, (1, 5, 1)))

    result = split(context, (1, 2, 10), batch_id=1)

    assert counts(result.planned) == {"read": 1, "written": 1}
    assert result.arriving == 1


def test_a_transform_that_drops_rows_is_an_imbalance_that_names_it(latest: Open) -> None:
    with pytest.raises(LedgerImbalanceError, match=r"transform None lost 1 rows and invented 0; nothing was written"):
        split(latest(lambda rows: rows.where("amount > 5")), (1, 1, 10), (2, 1, 5))


def test_a_transform_that_invents_rows_is_an_imbalance(latest: Open) -> None:
    from pyspark.sql import functions as F

    added = (F.when(F.col("id") == 1, F.array("_row_id", F.lit("x"))).otherwise(F.array("_row_id")),)
    with pytest.raises(LedgerImbalanceError, match="lost 0 rows and invented 1"):
        split(latest(lambda rows: rows.withColumn("_row_id", F.explode(*added))), (1, 1, 10), (2, 1, 5))


def test_a_transform_that_swaps_one_row_for_another_is_noticed_although_the_numbers_fit(latest: Open) -> None:
    from pyspark.sql import functions as F

    swapped = F.when(F.col("id") == 1, F.lit("2|1|insert")).otherwise(F.col("_row_id"))
    with pytest.raises(LedgerImbalanceError, match="lost 1 rows and invented 0"):
        split(latest(lambda rows: rows.withColumn("_row_id", swapped)), (1, 1, 10), (2, 1, 5))


@pytest.mark.parametrize("column", ["_row_id", "_origin", "id", "at"])
def test_a_transform_without_what_it_must_carry_is_told_so(latest: Open, column: str) -> None:
    with pytest.raises(SpecError, match=rf"transform None does not return {column}; it must carry"):
        latest_rows = latest(lambda rows: rows.drop(column))
        split(latest_rows, (1, 1, 10))


def test_a_transform_that_makes_a_name_of_ours_is_told_so(latest: Open) -> None:
    with pytest.raises(SpecError, match=r"makes _fate; names that begin with '_' are ours"):
        split(latest(lambda rows: rows.selectExpr("*", "1 AS _fate")), (1, 1, 10))


def anew(context: FlowContext, keys: list[int], *rows: tuple[Any, ...], batch_id: int = 7) -> Split:
    """The batch as the new content of these keys, as a replay of a window derives it."""
    named = context.spark.createDataFrame([(key,) for key in keys], "id int")
    result = split_rows(context, changes(context.spark, ORDERS, *rows), batch_id, NEW, anew=named)
    assert result is not None
    assert result.planned.imbalance() == 0
    return result


def test_rows_derived_anew_replace_what_stands_under_their_keys_whatever_its_order(latest: Open) -> None:
    context = latest()
    write(context, split(context, (1, 5, 10), (2, 5, 20), (3, 5, 30), (9, 5, 90)))

    # The same row under another id of its own; an older one; none; one more that is refused; a key that nobody knows.
    result = anew(context, [1, 2, 3, 4], (1, 5, 10, "update_postimage"), (2, 1, 21), (None, 1, 0))

    record = result.planned
    assert (record.kind, record.groups, record.upserted, record.deleted, record.unchanged) == ("rederive", 4, 1, 1, 2)
    assert counts(record) == {"read": 3, "written": 2, "quarantined": 1}
    assert result.arriving == 2
    write(context, result)
    assert stored(context, "id", "at", "amount", "_batch_id") == [(1, 5, 10, 0), (2, 1, 21, 7), (9, 5, 90, 0)]


def test_rows_derived_anew_say_which_passed_also_where_none_is_refused(latest: Open) -> None:
    context = latest()
    nobody = anew(context, [1], (1, 5, 10))
    assert nobody.refused is None, "there is no quarantine whose entries may have ended"
    assert nobody.passed is not None and [row["_row_id"] for row in nobody.passed.collect()] == ["1|1|insert"]
    context.spark.createDataFrame([("x",)], "_row_id string").write.format("delta").save(str(context.quarantine))

    result = anew(context, [1], (1, 5, 10), (1, 4, 9, "insert", 2), (None, 1, 0))

    assert result.passed is not None
    assert sorted(row["_row_id"] for row in result.passed.collect()) == ["1|1|insert", "1|2|insert"]
    again = anew(context, [1], (1, 5, 10))
    assert again.refused is not None and again.refused.count() == 0


def test_a_record_that_cannot_be_read_is_refused_with_its_text_and_what_it_brings_is_in_the_history(
    spark: SparkSession, latest: Open
) -> None:
    context = latest(flow=SILVER)
    batch = landed(
        spark,
        '{"id": 1, "at": 1, "amount": 5, "gate": "B12"}',
        "{not json",
        '{"id": 2, "at": 1, "amount": "many"}',
        '{"id": 3}',
    )

    result = split_rows(context, batch.union(landed(spark, '{"id": 9, "at": 9}', kind="delete")), 0, NEW)

    assert result is not None
    assert counts(result.planned) == {"read": 4, "written": 1, "quarantined": 3}
    assert result.planned.rules == {"malformed_json": 1, "wrong_type(amount)": 1, "null_sequence(at)": 1}
    assert result.refused is not None
    texts = {row["_row_id"]: (row["record"], json.loads(row["source"])["line"]) for row in result.refused.collect()}
    assert texts["a#1"] == ("{not json", 1)
    history = evolution.read(context.layout, "orders")
    assert [(line.change.field, line.decision) for line in history] == [("gate", "rescue")]


def test_a_batch_that_a_frozen_contract_refuses_writes_no_fate(spark: SparkSession, latest: Open) -> None:
    source = FileSource(
        path="orders", format="json", schema="id INT, at INT, amount INT", contract=Contract(mode="freeze")
    )
    context = dataclasses.replace(latest(flow=SILVER), landing=source)

    with pytest.raises(ContractRefusedError):
        split_rows(context, landed(spark, '{"id": 1, "at": 1, "gate": "B12"}'), 0, NEW)

    assert [line.event for line in evolution.read(context.layout, "orders")] == ["refused"]


def test_the_order_of_fates_is_the_precedence_of_a_source_row() -> None:
    assert row_flows.FATES == ("quarantined", "written", "superseded", "deduplicated", "filtered")
