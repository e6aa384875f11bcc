"""Values with maps and variants compare as Python compares them, in every nesting."""

from __future__ import annotations

import json
from itertools import product
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import types

from tests.spark.job import table
from tests.spark.lake.test_writes import txn
from tidegate.spark.lake import comparable, tables, writes
from tidegate.store import Address

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.jvm

MAPS: list[Any] = [None, {}, {"a": 1}, {"a": None}, {"a": 1, "b": 2}, {"b": 2, "a": 1}, {"a": 2, "b": 1}]
VALUES: dict[str, list[Any]] = {
    "map<string, int>": MAPS,
    "array<map<string, int>>": [None, [], [None], *[[each, {"z": 0}] for each in MAPS]],
    "struct<n: int, m: map<string, int>>": [None, *[{"n": 1, "m": each} for each in MAPS], {"n": 2, "m": {}}],
    "map<string, map<string, int>>": [None, {}, *[{"x": each, "y": {"b": 1}} for each in MAPS]],
    "map<int, array<struct<m: map<string, int>>>>": [{1: [{"m": each}]} for each in MAPS],
    "struct<`a b`: array<int>, c: string>": [None, {"a b": [1], "c": None}, {"a b": [1], "c": "x"}],
}


@pytest.mark.parametrize("kind", VALUES)
def test_two_values_are_the_same_if_python_says_so(kind: str, spark: SparkSession) -> None:
    values = VALUES[kind]
    rows = [(n, m, left, right) for (n, left), (m, right) in product(enumerate(values), repeat=2)]
    frame = spark.createDataFrame(rows, f"n int, m int, l {kind}, r {kind}").coalesce(1)
    left, right = (comparable.sql(name, frame.schema[name].dataType) for name in ("l", "r"))

    same = {(row["n"], row["m"]) for row in frame.where(f"{left} <=> {right}").select("n", "m").collect()}

    assert same == {(n, m) for n, m, one, other in rows if one == other}
    assert frame.selectExpr(f"{left} IS NULL AND l IS NOT NULL AS lost").where("lost").count() == 0


def test_variants_are_the_same_if_their_json_is(spark: SparkSession) -> None:
    texts = [None, "1", '"1"', '{"a": 1, "b": [2]}', '{"b": [2], "a": 1}', '{"a": null}', "{}", "null"]
    rows = [(left, right) for left, right in product(texts, repeat=2)]
    frame = spark.createDataFrame(rows, "l string, r string").coalesce(1)
    left, right = (comparable.sql(f"parse_json({name})", types.VariantType()) for name in ("l", "r"))

    same = {tuple(row) for row in frame.where(f"{left} <=> {right}").collect()}

    def value(text: str | None) -> Any:
        return text and json.dumps(json.loads(text), sort_keys=True)

    assert same == {(one, other) for one, other in rows if value(one) == value(other)}


def test_rows_with_a_map_are_written_and_put_back_only_where_they_differ(spark: SparkSession, folder: Address) -> None:
    path, columns = folder / "table", "id int, m map<string, int>"
    first = [(1, {"a": 1, "b": 2}), (2, {"a": 1}), (3, None)]
    second = [(1, {"b": 2, "a": 1}), (2, {"a": 2}), (3, {})]
    writes.append(spark.createDataFrame(first, columns).coalesce(1), path, txn(0))
    rows = spark.createDataFrame(second, columns).coalesce(1)

    groups = writes.replace_groups(rows.selectExpr("*", "'upsert' AS _op"), path, ("id",), txn(1))
    swapped = writes.swap(rows, path, ("id",), txn(2), ())

    assert [each.metrics["numTargetRowsUpdated"] for each in (groups, swapped)] == [2, 0]
    changes = tables.net_changes(spark, path, [groups.version], ("id",))
    assert sorted(row["id"] for row in changes.collect()) == [2, 3]
    compared = tables.compare(changes, tables.read(spark, path), ("id",))
    assert {row["_state"] for row in compared.collect()} == {"update"}
    writes.put_back(changes, path, ("id",), txn(3))
    assert sorted((row["id"], row["m"] if row["m"] is None else dict(row["m"])) for row in table(path)) == first
