"""Values of every type at their edges: from a file to gold, three readers see the value that the grammar gives a text.

The expected values are those of `cast_cases` and of this file. The readers are Spark, delta-rs, and DuckDB on the Parquet files.
"""

from __future__ import annotations

import csv
import datetime
import io
import math
import operator
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pytest
from pyspark.sql import SparkSession

from tests.deployment import Deployment
from tests.spark.intake.cast_cases import CASES, NAN
from tests.spark.orders import Declare
from tidegate.lake.place import FlowPlace
from tidegate.ops import query
from tidegate.probes import delta_table
from tidegate.spec import Formats
from tidegate.store import Address
from tidegate.trace import conditions

pytestmark = [pytest.mark.jvm, pytest.mark.nightly]

EDGES: dict[str, dict[str, Any]] = {
    "SMALLINT": {"32767": 32767, "-32768": -32768},
    "DECIMAL(38,0)": {"-" + "9" * 38: Decimal("-" + "9" * 38)},
    "DECIMAL(38,38)": {f"{sign}0." + "9" * 38: Decimal(f"{sign}0." + "9" * 38) for sign in ("", "-")},
    "DOUBLE": {"4.9e-324": 5e-324, "-1.7976931348623157e308": -1.7976931348623157e308, "0": 0.0},
    "FLOAT": {"1.4e-45": 2.0**-149, "-0": -0.0, "Infinity": math.inf},
    "DATE": {"1582-10-04": "1582-10-04", "1582-10-05": "1582-10-05", "1582-10-15": "1582-10-15", "1970-01-01": "1970-01-01"},
    **{
        kind: {
            text: text.replace("T", " ")
            for text in (
                *("0001-01-01T00:00:00.000001", "1582-10-04T23:59:59.999999", "1582-10-10T00:00:00", "1677-09-21T00:12:43.145224"),
                *("1899-12-31T23:59:59.999", "1969-12-31T23:59:59.999999", "2026-03-29T01:30:00.000001"),
                *("2262-04-11T23:47:16.854776", "9999-12-31T23:59:59.999999"),
            )
        }
        for kind in ("TIMESTAMP", "TIMESTAMP_NTZ")
    },
    "STRING": dict.fromkeys(
        ("a" * 33, "a" * 32 + "b", "a" * 32, "\U0010ffff" * 33, "\x7f" * 33, "\0", 'a\r\n"b', "null", "\\N")
    ),
    "CHAR(3)": {"abc": "abc", "a": "a", " b": " b", "a  ": "a  ", "\U0010ffff": "\U0010ffff"},
    "VARCHAR(3)": {"a  ": "a  "},
    "BINARY": {"/" * 42 + "8=": b"\xff" * 32, "/" * 44: b"\xff" * 33, "AA==": b"\0"},
    "STRUCT<t: TIMESTAMP, l: ARRAY<TIMESTAMP_NTZ>, m: MAP<STRING,TIMESTAMP>>": {
        '{"t":"9999-12-31","l":["0001-01-01"],"m":{"":"1582-10-10"}}': {
            "t": "9999-12-31 00:00:00", "l": ["0001-01-01 00:00:00"], "m": {"": "1582-10-10 00:00:00"},
        },
    },
}  # fmt: skip
"""Texts and their values, beside those of `CASES`."""
DECLARATION = """
from tidegate.spec import ChangeFeed, FileSource, Flow, Pipeline, Table

pipeline = Pipeline(
    name="types",
    flows=(
        Flow(name="bronze", source=FileSource(path="types", format="csv", schema={schema!r}), target=Table("bronze.types")),
        Flow(
            name="silver", source=ChangeFeed("bronze.types"), transform="types:as_sent",
            target=Table("silver.types", keys=("id",), sequence_by=("id",)),
        ),
        Flow(
            name="gold", source=ChangeFeed("silver.types"), transform="types:by_id", target=Table("gold.types", keys=("id",)),
        ),
    ),
)
"""
JOB = """
from pyspark.sql import functions as F

COLUMNS = {columns!r}

def as_sent(rows):
    return rows.select("_row_id", "_origin", "id", *COLUMNS)

def by_id(rows):
    return rows.groupBy("id").agg(*[F.first(name).alias(name) for name in COLUMNS])
"""
PUSHED_DOWN = ("FLOAT", "DOUBLE", "DATE", "TIMESTAMP", "TIMESTAMP_NTZ", "BINARY")
"""Types whose filters Spark converts for files and statistics."""
LAYERS = ("silver.types", "gold.types")
COMPARISONS = {"=": operator.eq, "<": operator.lt, ">=": operator.ge}


def kinds() -> dict[str, dict[str, Any]]:
    """By type, texts and their values; an empty text is a value of a STRING only."""
    collected: dict[str, dict[str, Any]] = {}
    for kind, formats, fitting, _ in CASES:
        if not kind.startswith("INTERVAL") and (formats == Formats() or kind == "STRING"):
            collected.setdefault(kind, {}).update(fitting)
    for kind, fitting in EDGES.items():
        own = {text: text for text in fitting} if kind == "STRING" else fitting
        collected.setdefault(kind, {}).update(own)
    return {
        kind: {text: value if text or kind == "STRING" else None for text, value in fitting.items()}
        for kind, fitting in collected.items()
    }


def plain(value: Any) -> Any:
    """A value of any reader, with days and instants as Spark formats them, and NaN as a text."""
    if hasattr(value, "asDict"):
        value = value.asDict()
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, datetime.datetime):
        whole, point, fraction = value.replace(tzinfo=None).isoformat(sep=" ").partition(".")
        return whole + (point + fraction).rstrip("0").rstrip(".")
    if isinstance(value, datetime.date):
        return value.isoformat()
    if isinstance(value, float):
        return NAN if math.isnan(value) else value
    return bytes(value) if isinstance(value, (bytearray, memoryview)) else value


def differences(expected: dict[int, Any], actual: dict[int, Any], names: dict[int, str]) -> dict[str, Any]:
    """What differs, in value or in the sign of zero."""
    return {
        f"{names[number]}": (plain(value), actual.get(number))
        for number, value in expected.items()
        if number not in actual
        or plain(value) != actual[number]
        or (plain(value) == 0 and str(float(value)) != str(float(actual[number])))
    }


def read_by_duckdb(path: Address, sql: str) -> list[tuple[Any, ...]]:
    with in_duckdb(Path(path)) as connection:
        return connection.execute(sql).fetchall()


def files_of(path: Path) -> list[str]:
    return [uri.removeprefix("file://") for uri in delta_table.open_table(Address.local(path)).file_uris()]


@contextmanager
def in_duckdb(path: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    """A database with the table's files as ``stored``."""
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute(f"CREATE VIEW stored AS FROM read_parquet({files_of(path)!r}, union_by_name = true)")
        yield connection


def test_every_value_is_the_same_in_every_layer_for_every_reader(
    deployment: Deployment, spark: SparkSession, declare: Declare, tmp_path: Path
) -> None:
    columns = {f"c{number}": (kind, fitting) for number, (kind, fitting) in enumerate(kinds().items())}
    cells = [(name, text, value) for name, (_, fitting) in columns.items() for text, value in fitting.items()]
    names = {number: f"{columns[name][0]} {text[:50]!r}" for number, (name, text, _) in enumerate(cells)}
    schema = ", ".join(["id INT NOT NULL", *(f"{name} {kind}" for name, (kind, _) in columns.items())])
    (tmp_path / "pipelines" / "types.py").write_text(DECLARATION.format(schema=schema))
    (tmp_path / "spark_jobs" / "types.py").write_text(JOB.format(columns=list(columns)))
    # Two batches, so that tables have several files with statistics.
    for part in range(2):
        text = io.StringIO(newline="")
        writer = csv.writer(text, quoting=csv.QUOTE_ALL)
        writer.writerow(["id", *columns])
        for number, (name, cell, _) in enumerate(cells):
            if number % 2 == part:
                writer.writerow([str(number), *(cell if each == name else "" for each in columns)])
        deployment.land(f"{part}.csv", text.getvalue(), "types")
        report = deployment.run("types")
        assert [(flow.state, flow.error) for flow in report.flows] == [("done", None)] * 3
    refused = (
        deployment.quarantined("silver", "types").to_pylist()
        if FlowPlace(deployment.layout, "types", "silver").quarantine.exists()
        else []
    )
    assert [(entry["rules"], entry["record"][:200]) for entry in refused] == []

    wrong: list[Any] = []
    for layer in LAYERS:
        path = deployment.layout.table(layer)
        frame = spark.read.format("delta").load(str(path))
        # PySpark makes local times of instants, which fails for the first day of the year 1.
        instants = {
            name: frame[name].cast("timestamp_ntz") for name, (kind, _) in columns.items() if kind == "TIMESTAMP"
        }
        by_spark = {row["id"]: row for row in frame.withColumns(instants).collect()}
        for name, (kind, _) in columns.items():
            expected = {number: value for number, (column, _, value) in enumerate(cells) if column == name}
            by_id = f"id IN ({', '.join(map(str, expected))})"
            sql = f"SELECT id, {name} FROM delta_table"
            readers = {
                "Spark": {number: plain(by_spark[number][name]) for number in expected},
                "delta-rs": {row["id"]: plain(row[name]) for row in query.query(path, ["id", name], sql, where=by_id)},
                "DuckDB": {
                    row[0]: plain(row[1])
                    for row in read_by_duckdb(path, f"SELECT id, {name} FROM stored WHERE {by_id}")
                },
            }
            for reader, values in readers.items():
                if each := differences(expected, values, names):
                    wrong.append((layer, kind, reader, each))
            if layer == "silver.types" and kind[:6] not in ("STRUCT", "ARRAY<", "MAP<ST"):
                wrong += filters(spark, path, name, kind, {key: by_spark[key][name] for key in expected})
    assert wrong == []


def filters(spark: SparkSession, path: Address, name: str, kind: str, stored: dict[int, Any]) -> list[Any]:
    """Conditions for which a reader selects other rows than the values say."""
    wrong = []
    table = delta_table.open_table(path)
    # Rows of other columns have an empty text in one of the type STRING.
    own = f"id IN ({', '.join(map(str, stored))})"
    frame = spark.read.format("delta").load(str(path)).select("id", name).where(own)
    pairs = [
        (number, comparison) for number, value in stored.items() if value is not None for comparison in COMPARISONS
    ]
    with in_duckdb(Path(path)) as connection:
        for number, comparison in pairs:
            value = stored[number]
            expected = sorted(
                key for key, each in stored.items() if each is not None and compare(comparison, each, value)
            )
            condition = f"{name} {comparison} (SELECT {name} FROM stored WHERE id = {number})"
            selected: dict[str, list[Any]] = {
                "DuckDB": connection.execute(f"SELECT id FROM stored WHERE {condition} AND {own}").fetchall()
            }
            if comparison == "=" and kind in PUSHED_DOWN:
                selected["Spark"] = frame.where(f"{name} = {sql(kind, value)}").select("id").collect()
            # delta-rs skips files with NaN, which no statistics count, and nothing but an equal key is asked of it.
            if kind != "BINARY" and (comparison == "=" or kind not in ("FLOAT", "DOUBLE")):
                where = f"{own} AND {conditions.where(table, 'types', {name: value}, comparison)}"
                rows = query.query(path, ["id"], "SELECT id FROM delta_table", where=where)
                selected["delta-rs"] = [(row["id"],) for row in rows]
            wrong += [
                (kind, reader, comparison, value, ids, expected)
                for reader, rows_of_reader in selected.items()
                if (ids := sorted(row[0] for row in rows_of_reader)) != expected
            ]
    return wrong


def compare(comparison: str, left: Any, right: Any) -> bool:
    if isinstance(left, float):
        # As in Spark: NaN is equal to itself and above all.
        left, right = ((math.isnan(each), 0.0 if math.isnan(each) else each) for each in (left, right))
    if isinstance(left, str):
        # Readers compare the bytes of UTF-8.
        left, right = left.encode(), right.encode()
    return bool(COMPARISONS[comparison](left, right))


def sql(kind: str, value: Any) -> str:
    """A value as a literal of Spark's SQL."""
    if isinstance(value, (bytes, bytearray)):
        return f"X'{bytes(value).hex()}'"
    if isinstance(value, str):
        return "decode(X'" + value.encode().hex() + "', 'UTF-8')"
    text = str(value) if not isinstance(value, datetime.datetime) else value.isoformat(sep=" ")
    return f"CAST('{text}' AS {kind})"
