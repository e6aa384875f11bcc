"""A stored value is the same for Spark, delta-rs and DuckDB, in files of a session and in those of another one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

import duckdb
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tests.old_timestamps import INSTANTS
from tidegate.ops import query
from tidegate.probes import delta_table
from tidegate.spark.intake import parse
from tidegate.store import Address
from tidegate.trace import conditions

pytestmark = pytest.mark.jvm

TEXTS = tuple(instant.replace(tzinfo=None).isoformat(sep=" ") for instant in INSTANTS)
KINDS = {"sent": "TIMESTAMP", "local": "TIMESTAMP_NTZ", "day": "DATE"}
COMPARISONS = ("=", ">")


@contextmanager
def other_session(spark: SparkSession) -> Iterator[None]:
    """Write as a session that is not Tidegate's."""
    name = "spark.sql.parquet.outputTimestampType"
    before = spark.conf.get(name)
    spark.conf.set(name, "INT96")
    try:
        yield
    finally:
        spark.conf.set(name, str(before))


def literal(column: str, text: str) -> str:
    return f"{KINDS[column]} '{text[:10] if KINDS[column] == 'DATE' else text}'"


def edges(spark: SparkSession) -> DataFrame:
    """A row for each instant."""
    rows = [
        f"SELECT {number} AS id, {', '.join(f'{literal(name, text)} AS {name}' for name in KINDS)}, "
        f"map('key', array({literal('sent', text)})) AS nested"
        for number, text in enumerate(TEXTS)
    ]
    return spark.sql(" UNION ALL ".join(rows))


def expected(column: str, comparison: str, text: str) -> list[int]:
    compare = getattr(str, {"=": "__eq__", ">": "__gt__"}[comparison])
    length = 10 if KINDS[column] == "DATE" else None
    # Only a fraction of six digits, or none, keeps the order of texts.
    padded = [(each if "." in each else f"{each}.000000")[:length] for each in (*TEXTS, text)]
    return [number for number, each in enumerate(padded[:-1]) if compare(each, padded[-1])]


def ids_by_delta_rs(path: Address, column: str, comparison: str, text: str) -> list[int]:
    value: object = datetime.fromisoformat(text)
    if KINDS[column] == "DATE":
        value = datetime.fromisoformat(text).date()
    where = conditions.where(delta_table.open_table(path), "silver.edges", {column: value}, comparison)
    return [row["id"] for row in query.query(path, ["id"], "SELECT id FROM delta_table ORDER BY id", where=where)]


def as_texts(path: Address) -> list[tuple[str, ...]]:
    """The values by delta-rs."""
    sql = "SELECT sent::TIMESTAMP::VARCHAR, local::VARCHAR, nested['key'][1]::TIMESTAMP::VARCHAR, id FROM delta_table ORDER BY id, 1"
    return [tuple(row.values())[:3] for row in query.query(path, ["id", "sent", "local", "nested"], sql)]


@pytest.mark.parametrize("files", [1, len(TEXTS)])
def test_the_edges_of_days_and_instants_are_the_same_for_three_readers(
    spark: SparkSession, folder: Address, files: int
) -> None:
    path = folder / "edges"
    edges(spark).repartitionByRange(files, "id").write.format("delta").save(str(path))

    parquet = sorted(map(str, Path(path).glob("*.parquet")))
    assert len(parquet) == files
    stored = pq.ParquetFile(parquet[0]).schema
    assert {stored.column(number).physical_type for number in range(len(stored))} == {"INT32", "INT64", "BYTE_ARRAY"}
    assert as_texts(path) == [(text, text, text) for text in TEXTS]
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute(f"CREATE VIEW edges AS FROM read_parquet({parquet!r})")
        rows = connection.execute("SELECT sent::TIMESTAMP::VARCHAR FROM edges ORDER BY id").fetchall()
        assert [text for (text,) in rows] == list(TEXTS)
        by_spark = spark.read.format("delta").load(str(path))
        for column in KINDS:
            for text in TEXTS:
                for comparison in COMPARISONS:
                    condition = f"{column} {comparison} {literal(column, text)}"
                    in_zone = condition.replace("TIMESTAMP ", "TIMESTAMPTZ ").replace("TIMESTAMP_NTZ", "TIMESTAMP")
                    by_duckdb = connection.execute(f"SELECT id FROM edges WHERE {in_zone} ORDER BY id").fetchall()
                    matches = [id for (id,) in by_duckdb], ids_by_delta_rs(path, column, comparison, text)
                    assert matches == (expected(column, comparison, text),) * 2, condition
            for text in (TEXTS[0], TEXTS[2], TEXTS[-1]):
                condition = f"{column} = {literal(column, text)}"
                ids = sorted(row["id"] for row in by_spark.where(condition).select("id").collect())
                assert ids == expected(column, "=", text), condition


@pytest.mark.nightly
def test_files_of_another_session_are_read_merged_and_rewritten(spark: SparkSession, folder: Address) -> None:
    path = folder / "edges"
    with other_session(spark):
        edges(spark).repartitionByRange(3, "id").write.format("delta").save(str(path))
    edges(spark).coalesce(1).write.format("delta").mode("append").save(str(path))
    assert as_texts(path) == [(text, text, text) for text in TEXTS for _ in range(2)]
    for comparison in COMPARISONS:
        for text in TEXTS:
            twice = sorted(expected("sent", comparison, text) * 2)
            assert ids_by_delta_rs(path, "sent", comparison, text) == twice, (comparison, text)

    spark.sql(
        f"MERGE INTO delta.`{path}` t USING (SELECT sent FROM delta.`{path}` WHERE id IN (2, 9) GROUP BY sent) s "
        "ON t.sent = s.sent WHEN MATCHED THEN UPDATE SET id = t.id + 100"
    )
    changed = query.query(path, ["id"], "SELECT id FROM delta_table WHERE id >= 100 ORDER BY id")
    assert [row["id"] for row in changed] == [102, 102, 109, 109]
    assert sorted(as_texts(path)) == sorted((text, text, text) for text in TEXTS for _ in range(2))

    rows = spark.read.format("delta").load(str(path))
    rows.write.format("delta").mode("overwrite").option("dataChange", "false").save(str(path))
    for file in delta_table.open_table(path).file_uris():
        schema = pq.ParquetFile(file.removeprefix("file://")).schema
        assert "INT96" not in {schema.column(number).physical_type for number in range(len(schema))}
    assert sorted(as_texts(path)) == sorted((text, text, text) for text in TEXTS for _ in range(2))


KEYS = {
    "BIGINT": ("-9223372036854775808", "0"),
    "DECIMAL(38,20)": ("0", "0.00000000000000000001", "-1.5", "123456789012345678"),
    "DECIMAL(12,0)": ("0", "100000000000"),
    "DOUBLE": (
        *("0.001", "0.0009999", "9999999.5", "1e7", "-1.234e-300", "1e22", "NaN", "-Infinity", "0.1", "-0.0"),
        # Java 17 has other digits for these than Python.
        *("4.9e-324", "2.2250738585072014e-308", "2e23", "0.500000001"),
    ),
    "FLOAT": ("0.1", "0.5", "1.1e10", "1.4e-45", "-Infinity", "NaN", "0"),
    "BOOLEAN": ("true", "false"),
    "DATE": ("0001-01-01", "1582-10-10", "9999-12-31"),
    "TIMESTAMP": TEXTS,
    "TIMESTAMP_NTZ": TEXTS,
    "STRING": ("", "a|b", "\\N", "a\\|b", "|", "ä\n|"),
}
"""Types of keys, and their values as texts that Spark casts."""


@pytest.mark.nightly
def test_the_id_of_a_change_leads_to_its_key_and_back(spark: SparkSession, folder: Address) -> None:
    for kind, texts in KEYS.items():
        path = folder / kind
        changes = spark.createDataFrame([(text,) for text in texts], "text string").select(
            "text",
            F.col("text").cast(kind).alias("key"),
            F.lit("k").alias("other"),
            F.lit(7).alias("_commit_version"),
            F.lit("insert").alias("_change_type"),
        )
        ids = {"one": parse.change_id(("key",)), "two": parse.change_id(("key", "other"))}
        changes.select("text", "key", "other", *[id.alias(name) for name, id in ids.items()]).coalesce(1).write.format(
            "delta"
        ).save(str(path))
        table = delta_table.open_table(path)
        for row in query.query(path, ["text", "key", "other", "one", "two"], "FROM delta_table"):
            for id, keys in ((row["one"], ("key",)), (row["two"], ("key", "other"))):
                where = conditions.of_change(table, "silver.keys", id, keys)
                matches = query.query(path, ["text"], "FROM delta_table", where=where)
                assert [each["text"] for each in matches] == [row["text"]], (kind, id)
            for column, keys in (("one", ("key",)), ("two", ("key", "other"))):
                of_key = conditions.of_key(table, row, keys).replace("_row_id", column)
                matches = query.query(path, ["text"], "FROM delta_table", where=of_key)
                assert [each["text"] for each in matches] == [row["text"]], (kind, row["text"])
