"""Bronze records are parsed into typed fields by name, and the change feed of a keyed table into rows."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any

import pytest

from tidegate.schema.contract import Contract, Terms
from tidegate.sources.files.read import BRONZE
from tidegate.spark.intake import parse
from tidegate.spark.intake.bronze import HEADER
from tidegate.spec import ChangeRecords, FileSource, KafkaSource, debezium
from tidegate.testing import records as made_up

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tidegate.schema.ddl import Column
    from tidegate.spec import FileFormat

pytestmark = pytest.mark.jvm

SCHEMA = "id INT NOT NULL, at DATE, amount DOUBLE, note STRING"
EARLIER, LATER = datetime(2026, 1, 1, 8, tzinfo=UTC), datetime(2026, 1, 2, 8, tzinfo=UTC)


def source(kind: FileFormat = "csv", **more: Any) -> FileSource:
    return FileSource(path="orders", format=kind, schema=SCHEMA, **more)


def bronze(spark: SparkSession, *records: tuple[str, str | None]) -> DataFrame:
    """Bronze rows, as a landing flow writes them, from records and the header of their file."""
    rows = [
        (f"/in/{n}@5#2", line, header, f"file:///in/{n}", EARLIER, 2, LATER) for n, (line, header) in enumerate(records)
    ]
    schema = (
        "_row_id string, line string, _header string, _path string, _modified_at timestamp, _line_number bigint, "
        "_ingested_at timestamp"
    )
    return spark.createDataFrame(rows, schema)


def messages(spark: SparkSession, *values: bytes | None) -> DataFrame:
    rows = [(f"clicks/1/{n}", b"k\xff", value, "clicks", 1, n, EARLIER, LATER) for n, value in enumerate(values)]
    schema = (
        "_row_id string, key binary, value binary, _topic string, _partition int, _offset bigint, _timestamp timestamp, "
        "_ingested_at timestamp"
    )
    return spark.createDataFrame(rows, schema)


def read(parsed: parse.Parsed) -> list[dict[str, Any]]:
    rows = [row.asDict(recursive=True) for row in parsed.rows.orderBy("_row_id").collect()]
    return [{**row, "broken": row["_origin"]["broken"]} for row in rows]


def writers_in(feed: DataFrame, landing: FileSource) -> dict[int, tuple[Column, ...]]:
    """The fields in the headers of the files."""
    headers = feed.select(*BRONZE.header_of(feed, landing)).distinct().collect()
    return BRONZE.writers_in([row[HEADER] for row in headers], landing)


def fields(row: dict[str, Any]) -> tuple[Any, ...]:
    return row["id"], row["at"], row["amount"], row["note"]


def test_a_transform_may_use_path_modification_time_and_folders_of_partitions(spark: SparkSession) -> None:
    from pyspark.sql import functions as F

    path_of_file = "/in/year=2024/kind=a/kind=b%20c/rate=50%/zone=UTC+2/day=__HIVE_DEFAULT_PARTITION__/x=1.csv"
    path = F.lit(f"file://{path_of_file}")
    (row,) = read(parse.parse(bronze(spark, ("1", "id")).withColumn("_path", path), source()))
    assert row["_path"] == path_of_file
    assert row["_partitions"] == {"year": "2024", "kind": "b c", "rate": "50%", "zone": "UTC+2", "day": None}
    assert row["_modified_at"].astimezone(UTC) == EARLIER
    (row,) = read(parse.parse(bronze(spark, ("1", "id")), source()))
    assert row["_partitions"] == {}


def test_csv_fields_are_assigned_by_the_header_of_their_file(spark: SparkSession) -> None:
    feed = bronze(
        spark,
        ("1,2026-01-01,1.5,hello", "id,at,amount,note"),
        ("hello,2,2026-01-02", " note ,id, at"),
        ('3,"a, b",B12', "id,note,gate"),
        ("4,", "id,gate"),
    )

    parsed = parse.parse(feed, source())

    rows = read(parsed)
    assert [fields(row) for row in rows] == [
        (1, date(2026, 1, 1), 1.5, "hello"),
        (2, date(2026, 1, 2), None, "hello"),
        (3, None, None, "a, b"),
        (4, None, None, None),
    ]
    assert [row["_rescued"] for row in rows] == [None, None, {"gate": "B12"}, None], "undeclared fields"
    assert [row["broken"] for row in rows] == [[]] * 4
    headers = writers_in(feed, source())
    writers = [[field.name for field in headers[row["_origin"]["writer"]]] for row in rows]
    assert writers == [["id", "at", "amount", "note"], ["note", "id", "at"], ["id", "note", "gate"], ["id", "gate"]]
    assert parsed.writers_cover_all


def test_csv_values_are_those_that_python_reads(spark: SparkSession) -> None:
    lines = ['7,,0.25,"say ""yes, sir"""', "8,,2.5,", '9,,1e3,"x,y"', '10,,1,"a\\b"', '11,,1,"\\"', '12,,1,""']

    rows = read(parse.parse(bronze(spark, *((line, "id,at,amount,note") for line in lines)), source()))

    expected = list(csv.reader(io.StringIO("\n".join(lines))))
    assert [row["note"] for row in rows] == [record[3] or None for record in expected[:-1]] + [""], (
        "empty quotes are an empty text"
    )
    assert [row["amount"] for row in rows] == [float(record[2]) for record in expected]


def test_a_null_value_is_null_and_breaks_the_rule_of_a_required_field(spark: SparkSession) -> None:
    feed = bronze(spark, ("NA,NA,NA,", "id,at,amount,note"), ("1,,,NA", "id,at,amount,note"))

    rows = read(parse.parse(feed, source(null_values=("", "NA"))))

    assert [fields(row) for row in rows] == [(None,) * 4, (1, None, None, None)]
    assert [row["broken"] for row in rows] == [["required(id)"], []]


def test_each_misfit_is_reported_with_its_field_and_other_values_stay(spark: SparkSession) -> None:
    feed = bronze(spark, ("x,2026-13-01,many,kept", "id,at,amount,note"))

    (row,) = read(parse.parse(feed, source()))

    assert fields(row) == (None, None, None, "kept")
    assert row["broken"] == ["wrong_type(id)", "wrong_type(at)", "wrong_type(amount)"], (
        "the field has a value, so required(id) is not broken"
    )


@pytest.mark.parametrize(
    ("header", "rule"),
    [("colour,size", "unknown_header"), ("id,at,id", "repeated_header"), ("", "unknown_header")],
)
def test_every_record_of_a_file_with_an_unusable_header_breaks_that_rule(
    spark: SparkSession, header: str, rule: str
) -> None:
    feed = bronze(spark, ("1,2,3", header), ("5,2026-01-01,1,x", "id,at,amount,note"))

    parsed = parse.parse(feed, source())

    refused, good = read(parsed)
    assert (refused["broken"], fields(refused), refused["_rescued"]) == ([rule], (None,) * 4, None)
    assert (good["broken"], good["id"]) == ([], 5)
    assert refused["_origin"]["raw"] == "1,2,3"
    assert [len(names) for names in writers_in(feed, source()).values()] == [4], (
        "an unusable header is not a schema change"
    )


def test_json_fields_are_assigned_by_name_and_an_unreadable_line_keeps_its_rule(spark: SparkSession) -> None:
    lines = ('{"id": 1, "at": "2026-01-01", "gate": {"no": 5}, "none": null}', '{"id": 2', "[]", '{"id": "3"}')
    feed = bronze(spark, *((line, None) for line in lines))

    parsed = parse.parse(feed, source("json"))

    rows = read(parsed)
    assert [row["id"] for row in rows] == [1, None, None, 3]
    assert [row["broken"] for row in rows] == [[], ["malformed_json"], ["malformed_json"], []]
    assert rows[0]["_rescued"] == {"gate": '{"no":5}'}, "an undeclared field without a value is ignored"
    assert [row["_origin"]["raw"] for row in rows] == list(lines)
    assert (BRONZE.header_of(feed, source("json")), parsed.writers_cover_all) == ([], False)


def test_the_header_of_a_parquet_file_has_the_types_of_its_writer(spark: SparkSession) -> None:
    header = json.dumps([["id", "int"], ["amount", "string"]])

    feed = bronze(spark, ('{"id": 1, "amount": "2.5"}', header))
    parsed = parse.parse(feed, source("parquet"))

    (row,) = read(parsed)
    assert fields(row) == (1, None, 2.5, None)
    columns = writers_in(feed, source("parquet"))[row["_origin"]["writer"]]
    assert [(column.name, column.type) for column in columns] == [("id", "int"), ("amount", "string")]
    assert parsed.writers_cover_all


def test_the_origin_of_a_record_has_its_position_its_order_and_its_ingestion_time(spark: SparkSession) -> None:
    (row,) = read(parse.parse(bronze(spark, ("1,x", "id,note")), source()))

    origin = row["_origin"]
    assert tuple(origin["at"].values())[1:] == ("file:///in/0", 2)
    coordinates = origin["source"]
    assert (coordinates["path"], coordinates["line"]) == ("file:///in/0", 2)
    assert coordinates["modified_at"].astimezone(UTC) == EARLIER
    assert origin["ingested_at"].astimezone(UTC) == LATER
    assert (origin["filled"], origin["unfit"]) == ([0b1001], [0])


def test_records_are_ordered_by_file_time_before_path_and_line(spark: SparkSession) -> None:
    old = bronze(spark, ("1,a", "id,note")).selectExpr(
        "* EXCEPT (_path, _line_number)", "'z' AS _path", "9L AS _line_number"
    )
    new = bronze(spark, ("1,b", "id,note")).selectExpr(
        "* EXCEPT (_path, _line_number, _modified_at)",
        "'a' AS _path",
        "1L AS _line_number",
        "_modified_at + INTERVAL 1 SECOND AS _modified_at",
    )

    parsed = parse.parse(old.unionByName(new), source()).rows

    assert [row["note"] for row in parsed.orderBy("_origin.at").collect()] == ["a", "b"]


def test_a_message_with_a_null_value_gives_null_fields_and_breaks_no_rule(spark: SparkSession) -> None:
    feed = messages(spark, b'{"id": 1, "note": "x"}', None, b"\xff not json")

    parsed = parse.parse(feed, KafkaSource(topic="clicks", schema=SCHEMA))

    rows = read(parsed)
    assert [(row["id"], row["broken"]) for row in rows] == [(1, []), (None, []), (None, ["malformed_json"])]
    assert {(row["_key"], row["_timestamp"].astimezone(UTC)) for row in rows} == {("k\ufffd", EARLIER)}
    assert [row["_origin"]["source"] for row in rows] == [
        {"topic": "clicks", "partition": 1, "offset": offset} for offset in range(3)
    ]
    assert tuple(rows[2]["_origin"]["at"].values())[1:] == (1, 2, "clicks")


def test_a_contract_rescues_misfits_and_discards_fields(spark: SparkSession) -> None:
    feed = bronze(spark, ("1,a lot,B12,noise", "id,amount,gate,hum"))
    contract = Contract(columns={"amount": "rescue", "hum": "discard_value"})

    (row,) = read(parse.parse(feed, source(contract=contract)))
    (other,) = read(parse.parse(feed, source(), Terms(contract=Contract(mode="discard_value"))))

    assert (row["broken"], row["amount"], row["_rescued"]) == ([], None, {"gate": "B12", "amount": "a lot"})
    assert row["_origin"]["unknown"] == {"gate": "B12", "hum": "noise"}, (
        "schema changes are detected from all undeclared fields"
    )
    assert (other["_rescued"], other["broken"]) == (None, ["wrong_type(amount)"])


CHANGES = "id int, region string, amount int, _change_type string, _commit_version bigint, _commit_timestamp timestamp"


def test_changes_of_a_keyed_table_become_rows_with_unique_ids_and_deletes_marked(spark: SparkSession) -> None:
    feed = spark.createDataFrame(
        [
            (1, "eu", 5, "insert", 3, EARLIER),
            (1, "eu", 6, "update_postimage", 4, LATER),
            (2, "us", 7, "delete", 4, LATER),
        ],
        CHANGES,
    )

    rows = [row.asDict(recursive=True) for row in parse.keyed_feed(feed, ("id", "region")).orderBy("_row_id").collect()]

    assert [(row["_row_id"], row["_deleted"]) for row in rows] == [
        ("1|eu|3|insert", False),
        ("1|eu|4|update_postimage", False),
        ("2|us|4|delete", True),
    ]
    assert [row["amount"] for row in rows] == [5, 6, 7]
    origin = rows[1]["_origin"]
    assert origin["source"] == {"version": 4, "id": 1, "region": "eu"}
    assert json.loads(origin["raw"]) == {"id": 1, "region": "eu", "amount": 6}
    assert (origin["broken"], origin["ingested_at"].astimezone(UTC)) == ([], LATER)


def test_different_keys_of_several_columns_have_different_ids(spark: SparkSession) -> None:
    keys = [
        ("a", "b"),
        ("a|b", "c"),
        ("a", "b|c"),
        (None, "a"),
        ("a", None),
        ("a\\", "|b"),
        ("a\\|", "b"),
        ("a", r"\N"),
    ]
    feed = spark.createDataFrame(
        [(*key, "insert", 3) for key in keys], "x string, y string, _change_type string, _commit_version bigint"
    )

    key_by_id = {
        row["id"]: (row["x"], row["y"])
        for row in feed.select("x", "y", parse.change_id(("x", "y")).alias("id")).collect()
    }

    assert {key_by_id["a|b|3|insert"], key_by_id[r"a\|b|c|3|insert"], key_by_id[r"\N|a|3|insert"]} == {
        keys[0],
        keys[1],
        keys[3],
    }
    assert len(key_by_id) == len(keys)


def test_within_one_commit_a_delete_comes_before_an_insert_of_the_same_key(spark: SparkSession) -> None:
    feed = spark.createDataFrame(
        [(1, "eu", 9, "insert", 3, EARLIER), (1, "eu", 5, "delete", 3, EARLIER), (1, "eu", 2, "insert", 2, EARLIER)],
        CHANGES,
    )

    rows = parse.keyed_feed(feed, ("id",)).orderBy("_origin.at").collect()

    assert [row["amount"] for row in rows] == [2, 5, 9], "the pair is an update, and the newer version is last"


def test_a_row_marked_as_deleted_in_its_table_is_a_delete(spark: SparkSession) -> None:
    feed = spark.createDataFrame(
        [(1, True, "update_postimage"), (2, False, "insert"), (3, None, "insert"), (4, False, "delete")],
        "id int, _deleted boolean, _change_type string",
    ).selectExpr("*", "1L AS _commit_version", "current_timestamp() AS _commit_timestamp", "'x' AS _row_id")

    rows = parse.keyed_feed(feed, ("id",)).orderBy("id").collect()

    assert [row["_deleted"] for row in rows] == [True, False, False, True]
    assert "x" not in {row["_row_id"] for row in rows}, "the id is that of the change, not of the row"


def test_a_row_of_a_table_without_keys_is_identified_by_the_id_that_it_has_there_also_when_it_is_read_again(
    spark: SparkSession,
) -> None:
    feed = spark.createDataFrame(
        [("r1", 5, "insert", 3, EARLIER), ("r2", 6, "insert", 3, EARLIER)],
        "_row_id string, amount int, _change_type string, _commit_version bigint, _commit_timestamp timestamp",
    )
    ids = spark.createDataFrame([("r2|3|insert",)], "_row_id string")
    again = parse.of_changes(feed, ("_row_id",), ids, "left_semi")

    assert {row["_row_id"] for row in parse.keyed_feed(feed, ("_row_id",)).collect()} == {"r1|3|insert", "r2|3|insert"}
    (row,) = parse.keyed_feed(again.withColumn("_row_id", again["_change_id"]), ("_row_id",)).collect()
    assert (row["_row_id"], row["amount"]) == ("r2|3|insert", 6)


DEBEZIUM = KafkaSource(
    topic="clicks", schema="id INT NOT NULL, op STRING, lsn BIGINT", changes=debezium(lsn="source.lsn")
)


def test_a_message_without_value_is_filtered_if_a_record_before_it_deletes_and_refused_if_nothing_else_does(
    spark: SparkSession,
) -> None:
    delete = b'{"op": "d", "before": {"id": 1}, "after": null, "source": {"lsn": 5}}'
    deleted, empty = read(parse.parse(messages(spark, delete, None), DEBEZIUM))
    assert (deleted["id"], deleted["lsn"], deleted["_deleted"], deleted["broken"]) == (1, 5, True, [])
    assert (empty["_origin"]["filters"], empty["_deleted"], empty["broken"]) == ("no_value", False, [])

    flat = replace(DEBEZIUM, changes=ChangeRecords(operation="op", writes=("c",), deletes=("d",)))
    deleted, empty = read(parse.parse(messages(spark, b'{"op": "d", "id": 1}', None), flat))
    assert (deleted["id"], deleted["_origin"]["deletes"], deleted["broken"]) == (1, True, [])
    assert (empty["_origin"]["filters"], empty["broken"]) == (None, ["no_value"])


def test_the_cells_of_delimited_change_records_say_what_they_do(spark: SparkSession) -> None:
    changes = ChangeRecords(operation="note", writes=("I", "U"), deletes=("D",))
    lines = [("1,2026-01-01,1.5,I", "id,at,amount,note"), ("2,,,D", "id,at,amount,note"), ("3,,,", "id,at,amount,note")]
    written, deleted, unknown = read(parse.parse(bronze(spark, *lines), source(changes=changes)))
    assert [row["_deleted"] for row in (written, deleted, unknown)] == [False, True, False]
    assert [row["broken"] for row in (written, deleted, unknown)] == [[], [], ["operation(unknown)"]]


KEYED = KafkaSource(
    topic="users",
    schema="id INT NOT NULL, name STRING NOT NULL, trace STRING, sent TIMESTAMP, position BIGINT NOT NULL, whole STRING",
    metadata={"id": "key.id", "trace": "header.trace-id", "sent": "timestamp", "position": "offset", "whole": "key"},
    changes=ChangeRecords(no_value="delete"),
)


def keyed(
    spark: SparkSession, *sent: tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]] | None]
) -> DataFrame:
    """Rows of bronze with these keys, values and headers."""
    rows = [
        (f"users/0/{n}", key, value, headers, "users", 0, n, EARLIER, LATER)
        for n, (key, value, headers) in enumerate(sent)
    ]
    schema = (
        "_row_id string, key binary, value binary, headers array<struct<key:string,value:binary>>, _topic string, _partition int, "
        "_offset bigint, _timestamp timestamp, _ingested_at timestamp"
    )
    return spark.createDataFrame(rows, schema)


def test_columns_may_be_in_the_key_and_the_headers_of_a_message_and_one_without_value_deletes_the_row_of_its_key(
    spark: SparkSession,
) -> None:
    feed = keyed(
        spark,
        (b'{"id": 7}', b'{"name": "ada"}', [("trace-id", b"first"), ("trace-id", b"last"), ("other", b"x")]),
        (b'{"id": 7}', None, [("other", b"x")]),
        (b'{"id": 8}', b'{"name": "bob", "id": 8}', None),
        (b'{"id": 8}', b'{"name": "bob", "id": 9}', None),
        (b"8", b'{"name": "bob"}', None),
        (b"\xff", None, None),
        (None, None, None),
        (b'{"id": "x"}', b'{"name": "bob"}', [("trace-id", b"\xff")]),
        (b'{"id": "x"}', b'{"name": "bob"}', [("trace-id", None)]),
    )

    rows = read(parse.parse(feed, KEYED))

    written, deleted = rows[:2]
    assert (written["id"], written["name"], written["trace"], written["position"]) == (7, "ada", "last", 0)
    assert (written["sent"].astimezone(UTC), written["whole"], written["_deleted"]) == (EARLIER, '{"id": 7}', False)
    assert (deleted["id"], deleted["name"], deleted["trace"], deleted["_deleted"]) == (7, None, None, True)
    assert [row["broken"] for row in rows] == [
        [],
        [],
        [],
        ["repeated_field(id)"],
        ["required(id)"],
        ["malformed_key"],
        [],
        ["malformed_header(trace-id)"],
        ["wrong_type(id)"],
    ]
    assert [row["_deleted"] for row in rows] == [False, True, False, False, False, False, True, False, False]
    assert rows[6]["id"] is None, "a key column that is NULL breaks null_key"
    assert [row["_rescued"] for row in rows] == [None] * 9


def test_made_up_messages_have_fields_in_the_key_and_the_headers_where_the_source_says_so(spark: SparkSession) -> None:
    source = replace(KEYED, metadata={name: part for name, part in KEYED.metadata.items() if part != "key"})
    records: list[dict[str, Any]] = [
        {"id": 7, "name": "ada", "trace": "t", "position": 40, "sent": EARLIER},
        {"id": 7, "_deletes": True},
    ]

    written, deleted = read(parse.parse(made_up.feed(spark, source, records), source))

    assert (written["id"], written["name"], written["trace"], written["position"]) == (7, "ada", "t", 40)
    assert (written["sent"].astimezone(UTC), written["_key"], written["broken"]) == (EARLIER, '{"id": 7}', [])
    assert (deleted["id"], deleted["position"], deleted["_deleted"], deleted["broken"]) == (7, 1, True, [])
