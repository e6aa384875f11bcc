"""Transforms in SQL as functions of DataFrames: judged by DuckDB, and by the same transforms in Python."""

from __future__ import annotations

import dataclasses
import itertools
import random
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import pytest
from pyspark.sql import Column
from pyspark.sql import functions as F

from tests.project.test_statement import ATOMS, VALUES, statement
from tests.spark import job as orders
from tidegate.errors import SpecError
from tidegate.project import statement_rules
from tidegate.spark.derivation.check import check
from tidegate.spark.statement import select, select_rows
from tidegate.spec import ChangeFeed, Flow, Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.jvm

ROWS = "_row_id string, amount int, country string, items array<int>, _deleted boolean, raw string"
GIVEN: tuple[tuple[object, ...], ...] = (
    ("r0", 4, "de", [1, 2], False, "x"),
    ("r1", None, "DE", [], False, "x"),
    ("r2", -1, "1x", None, False, "x"),
    ("r3", None, None, None, True, "x"),
    ("r4", None, None, None, False, None),
)


@pytest.fixture
def rows(spark: SparkSession) -> DataFrame:
    made = spark.createDataFrame(GIVEN, ROWS)
    return made.withColumn("_origin", F.struct("raw")).drop("raw")


def outcome(made: DataFrame) -> list[tuple[object, ...]]:
    return [tuple(row) for row in made.drop("_origin").orderBy("_row_id", *made.columns[3:]).collect()]


def test_random_conditions_filter_the_rows_that_where_drops(spark: SparkSession, tmp_path: Path) -> None:
    """One query for all of them; DuckDB judges each whole WHERE, over rows with NULL in every column."""
    chance = random.Random(35)
    values = list(itertools.product(VALUES, repeat=3))
    schema = "_row_id string, a int, b int, c int"
    frame = spark.createDataFrame([(str(number), *row) for number, row in enumerate(values)], schema)
    frame = frame.withColumn("_origin", F.struct(F.lit("x").alias("raw"))).persist()
    given = ", ".join(str((str(number), *row)).replace("None", "NULL") for number, row in enumerate(values))
    wheres = [
        " AND ".join(
            f"({' OR '.join(chance.sample(ATOMS, 2))})" if chance.random() < 0.3 else chance.choice(ATOMS)
            for _ in range(3)
        )
        for _ in range(8)
    ]
    parts = [
        select_rows(statement(tmp_path, f"SELECT a FROM orders WHERE {where}"), frame)
        .where("_filtered IS NULL")
        .select(F.lit(number).alias("n"), "_row_id")
        for number, where in enumerate(wheres)
    ]
    kept = {(row["n"], row["_row_id"]) for row in reduce(lambda left, right: left.union(right), parts).collect()}
    connection = duckdb.connect()
    expected = {
        (number, row_id)
        for number, where in enumerate(wheres)
        for (row_id,) in connection.sql(f"SELECT id FROM (VALUES {given}) AS t(id, a, b, c) WHERE {where}").fetchall()
    }
    assert kept == expected
    assert 0 < len(kept) < len(wheres) * len(values)


def test_sql_and_python_make_the_same_rows(rows: DataFrame, tmp_path: Path) -> None:
    """Nothing is computed of a filtered row; deletes, and messages without value, are not filtered."""
    text = """
        SELECT amount, upper(o.country) AS country, length(country) AS n, CAST(amount / (amount - amount + 1) AS INT) AS same,
          CAST(replace(country, 'de', '7') AS INT) AS number, explode_outer(items) AS item
        FROM orders o
        WHERE amount > 0 -- rule: positive
          AND country NOT LIKE '1%'
    """
    filtered = (
        F.when(F.col("_deleted") | F.col("_origin.raw").isNull(), F.lit(None))
        .when(~F.coalesce(F.col("amount") > 0, F.lit(False)), "positive")
        .when(~F.coalesce(~F.col("country").like("1%"), F.lit(False)), "where_2")
    )
    kept = rows.withColumn("_filtered", filtered)

    def of_kept(value: Column) -> Column:
        return F.when(F.col("_filtered").isNull(), value)

    by_hand = kept.select(
        *("_row_id", "_origin", "_deleted", "_filtered", "amount"),
        of_kept(F.upper("country")).alias("country"),
        of_kept(F.length("country")).alias("n"),
        of_kept(F.col("amount")).alias("same"),
        of_kept(F.replace("country", F.lit("de"), F.lit("7")).cast("int")).alias("number"),
        F.explode_outer("items").alias("item"),
    )
    made = select_rows(statement(tmp_path, text), rows)
    assert (made.columns, outcome(made)) == (by_hand.columns, outcome(by_hand))
    assert {row[0]: row[2] for row in outcome(made)} == {
        "r0": None,
        "r1": "positive",
        "r2": "positive",
        "r3": None,
        "r4": None,
    }


def test_a_star_is_the_columns_of_the_source(rows: DataFrame, tmp_path: Path) -> None:
    carried = ["_row_id", "_origin", "_deleted", "_filtered"]
    for text, expected in (
        ("SELECT * FROM orders", ["amount", "country", "items"]),
        ("SELECT o.* EXCEPT (items, COUNTRY), items[0] AS first FROM orders o", ["amount", "first"]),
    ):
        assert select_rows(statement(tmp_path, text), rows).columns == [*carried, *expected]
    own = select_rows(statement(tmp_path, "SELECT amount, amount = 4 AS _deleted FROM orders"), rows)
    assert [row["_deleted"] for row in own.orderBy("_row_id").collect()] == [True, None, False, None, None]


@pytest.mark.parametrize(
    ("text", "place", "reason"),
    [
        ("SELECT amount,\n  amout + 1 AS x FROM orders", "line 2, column 3", "UNRESOLVED_COLUMN.*`amout`"),
        ("SELECT amount FROM orders\nWHERE country = 'x' AND amount", "line 2, column 25", "is not a boolean"),
        ("SELECT amount,\n  named_struct('a') AS x FROM orders", "line 2, column 3", "WRONG_NUM_ARGS"),
        ("SELECT amount,\n  amount + items AS x FROM orders", "line 2, column 3", "DATATYPE_MISMATCH"),
        ("SELECT amount,\n  no_such_function(items) AS x FROM orders", "line 2, column 3", "UNRESOLVED_ROUTINE"),
    ],
)  # fmt: skip
def test_what_spark_refuses_in_rows_has_its_place_in_the_file(
    rows: DataFrame, tmp_path: Path, text: str, place: str, reason: str
) -> None:
    with pytest.raises(SpecError, match=rf"orders\.sql {place}: Spark refuses it: .*{reason}.*; correct it"):
        select_rows(statement(tmp_path, text), rows)


ORDERS = "id int, day int, shop string, item int, amount int, _rescued string"
ITEMS = "code int, day int, price int"
JOINED = Flow(
    name="gold",
    sources=(ChangeFeed("silver.orders"), ChangeFeed("silver.items")),
    transform="orders.sql",
    target=Table("gold.orders", keys=("day",)),
)
JOIN = "FROM orders o LEFT JOIN items i ON o.item = i.code AND o.day = i.day"


@pytest.mark.parametrize(
    ("text", "agrees"),
    [
        (f"SELECT o.day, count(*) AS orders, sum(i.price) AS value\n{JOIN}\nGROUP BY o.day;", True),
        (f"WITH one AS (SELECT 1 AS a)\nSELECT o.day, max(price) AS p, max(a) AS a {JOIN} CROSS JOIN one GROUP BY o.day", True),
        (f"SELECT o.shop AS day, sum(i.price) AS value {JOIN} GROUP BY o.shop", False),
        (f"SELECT o.day, max(t.top) AS top {JOIN} CROSS JOIN (SELECT max(amount) AS top FROM orders) t GROUP BY o.day", False),
    ],
)  # fmt: skip
def test_the_columns_that_the_parser_reads_agree_with_the_plan_of_spark(
    spark: SparkSession, tmp_path: Path, text: str, agrees: bool
) -> None:
    made = statement(tmp_path, text)
    flow = JOINED
    if agrees:
        flow = statement_rules.completed(JOINED, tmp_path / "orders.sql")
        assert flow.feeds[1].on == {"item": "code", "day": "day"}
    else:
        on = {"item": "code", "day": "day"}
        flow = dataclasses.replace(JOINED, sources=(JOINED.feeds[0], ChangeFeed("silver.items", on=on)))
    frames = [spark.createDataFrame([], schema) for schema in (ORDERS, ITEMS)]
    job = orders.job_of(spark, tmp_path, flow)

    def derive(rows: list[DataFrame]) -> DataFrame:
        return select(made, {"orders": rows[0], "items": rows[1]})

    output, finding = check(job.resolved, None, frames, lambda rows: derive(list(rows)))
    assert (not finding.problem, finding.doubts) == (agrees, ())
    assert agrees or "(spark_jobs/orders.sql)" in finding.problem
    assert not [each.name for each in spark.catalog.listTables() if each.name.startswith("_tidegate")]
    assert "_rescued" not in output.columns


def test_sql_and_python_make_the_same_groups(spark: SparkSession, tmp_path: Path) -> None:
    frames = {
        "orders": spark.createDataFrame(
            [(1, 1, "a", 7, 5, None), (2, 1, "b", 8, 6, None), (3, 2, "a", 7, 1, None)], ORDERS
        ),
        "items": spark.createDataFrame([(7, 1, 10), (7, 2, 20), (9, 1, 99)], ITEMS),
    }
    text = (
        f"SELECT o.day, count(*) AS orders, sum(i.price * o.amount) AS value\n{JOIN}\nWHERE o.amount > 0 GROUP BY o.day"
    )
    made = select(statement(tmp_path, text), frames)
    o, i = frames["orders"], frames["items"]
    joined = o.join(i, (o["item"] == i["code"]) & (o["day"] == i["day"]), "left").where(o["amount"] > 0)
    value = F.sum(F.col("price") * F.col("amount")).alias("value")
    by_hand = joined.groupBy(o["day"]).agg(F.count("*").alias("orders"), value)
    assert sorted(map(tuple, made.collect())) == sorted(map(tuple, by_hand.collect())) == [(1, 2, 50), (2, 1, 20)]


@pytest.mark.parametrize(
    ("text", "place", "reason"),
    [
        (f"SELECT o.day,\n  i.prise {JOIN}", "line 2, column 3", "UNRESOLVED_COLUMN.*`i`.`prise`"),
        (f"WITH big AS (SELECT 1 AS a)\nSELECT o.day,\n  i.prise {JOIN}", "line 3, column 3", "UNRESOLVED_COLUMN"),
        (f"SELECT o.day,\n  o.amount\n{JOIN} GROUP BY o.day", "line 1, column 1", "MISSING_AGGREGATION"),
        (f"SELECT o.shop,\n  o.day AS 'day' {JOIN}", "line 2, column 12", "PARSE_SYNTAX_ERROR"),
    ],
)  # fmt: skip
def test_what_spark_refuses_in_groups_has_its_place_in_the_file(
    spark: SparkSession, tmp_path: Path, text: str, place: str, reason: str
) -> None:
    frames = {"orders": spark.createDataFrame([], ORDERS), "items": spark.createDataFrame([], ITEMS)}
    with pytest.raises(SpecError, match=rf"orders\.sql {place}: Spark refuses it: .*{reason}.*; correct it"):
        select(statement(tmp_path, text), frames)
