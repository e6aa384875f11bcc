"""Parquet and Avro files of all types are read as JSON text; damaged files are detected. No JVM."""

from __future__ import annotations

import datetime
import io
import json
from decimal import Decimal
from pathlib import Path
from typing import Any, cast

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tidegate.formats import json_text
from tidegate.formats.reader import FileReader
from tidegate.spec import Dialect, FileFormat
from tidegate.store import Address

INSTANT = datetime.datetime(2026, 1, 2, 3, 4, 5, 600000, tzinfo=datetime.UTC)
AVRO = fastavro.parse_schema({
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "note", "type": ["null", "string"]},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {"name": "sizes", "type": {"type": "map", "values": "int"}},
        {"name": "place", "type": {"type": "record", "name": "Place", "fields": [{"name": "lat", "type": "double"}]}},
        {"name": "either", "type": ["int", "string"]},
    ],
})  # fmt: skip
ORDER: dict[str, Any] = {
    "id": 1, "note": None, "at": INSTANT, "day": INSTANT.date(), "price": Decimal("12.30"), "kind": "B",
    "tags": ["x"], "sizes": {"s": 1}, "place": {"lat": 1.5}, "either": "both",
}  # fmt: skip


def avro(*orders: dict[str, Any], codec: str = "deflate") -> bytes:
    content = io.BytesIO()
    fastavro.writer(content, AVRO, orders, codec=codec)
    return content.getvalue()


def reader_of(path: Path, kind: str) -> FileReader:
    return FileReader(Address.local(path), 5, cast("FileFormat", kind), Dialect())


def fields_of(path: Path, kind: str) -> dict[str, str]:
    reader = reader_of(path, kind)
    for _ in reader:
        pass
    assert reader.checked.problem is None
    assert reader.header is not None
    return dict(json.loads(reader.header))


def problem_of(path: Path, kind: str) -> str | None:
    reader = reader_of(path, kind)
    for _ in reader:
        pass
    return reader.checked.problem


def read(path: Path, kind: str) -> list[dict[str, Any]]:
    numbered = list(reader_of(path, kind))
    assert [number for number, _ in numbered] == list(range(1, len(numbered) + 1))
    return [json.loads(text) for _, text in numbered]


def test_an_avro_record_keeps_its_values_and_its_types(tmp_path: Path) -> None:
    path = tmp_path / "a.avro"
    path.write_bytes(avro(ORDER))

    assert fields_of(path, "avro") == {
        "id": "bigint", "note": "string", "at": "timestamp", "day": "date", "price": "decimal(9,2)", "kind": "string",
        "tags": "array<string>", "sizes": "map<string,int>", "place": "struct<lat:double>", "either": "string",
    }  # fmt: skip
    assert read(path, "avro") == [
        {**ORDER, "at": "2026-01-02T03:04:05.600000+00:00", "day": "2026-01-02", "price": "12.30"}
    ]


def test_a_parquet_record_keeps_its_values_and_its_types(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    table = pa.table({
        "small": pa.array([1], pa.int8()),
        "big": pa.array([2**63], pa.uint64()),
        "half": pa.array([float("nan")]),
        "price": pa.array([Decimal("12.30")], pa.decimal128(9, 2)),
        "at": pa.array([INSTANT], pa.timestamp("us", "UTC")),
        "local": pa.array([INSTANT.replace(tzinfo=None)], pa.timestamp("ms")),
        "word": pa.array(["x"]).dictionary_encode(),
        "raw": pa.array([b"\0\1"]),
        "list": pa.array([[1, 2]], pa.list_(pa.int32())),
        "map": pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int16())),
        "place": pa.array([{"lat": float("inf")}]),
    })  # fmt: skip
    pq.write_table(table, path)

    assert fields_of(path, "parquet") == {
        "small": "tinyint", "big": "decimal(20,0)", "half": "double", "price": "decimal(9,2)", "at": "timestamp",
        "local": "timestamp_ntz", "word": "string", "raw": "binary", "list": "array<int>", "map": "map<string,smallint>",
        "place": "struct<lat:double>",
    }  # fmt: skip
    assert read(path, "parquet") == [{
        "small": 1, "big": 2**63, "half": "NaN", "price": "12.30", "at": "2026-01-02T03:04:05.600000+00:00",
        "local": "2026-01-02T03:04:05.600000", "word": "x", "raw": "AAE=", "list": [1, 2], "map": {"k": 1},
        "place": {"lat": "Infinity"},
    }]  # fmt: skip


def test_a_parquet_map_keeps_all_entries_for_all_types_of_keys(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    by_name, by_day = pa.map_(pa.string(), pa.int32()), pa.map_(pa.date32(), pa.int32())
    table = pa.table({
        "twice": pa.array([[("a", 1), ("b", 3), ("a", 2)]], by_name),
        "deep": pa.array([[{"m": [("a", 1), ("a", 2)]}]], pa.list_(pa.struct([("m", by_name)]))),
        "day": pa.array([[(INSTANT.date(), 1)]], by_day),
        "number": pa.array([[(7, None)]], pa.map_(pa.int64(), by_day)),
        "empty": pa.array([[]], by_name),
        "none": pa.array([None], by_name),
    })  # fmt: skip
    pq.write_table(table, path)

    assert set(fields_of(path, "parquet").values()) == {
        "map<string,int>", "map<string,map<string,int>>", "array<struct<m:map<string,int>>>",
    }  # fmt: skip
    assert read(path, "parquet") == [{
        "twice": [["a", 1], ["b", 3], ["a", 2]], "deep": [{"m": [["a", 1], ["a", 2]]}], "day": {"2026-01-02": 1},
        "number": {"7": None}, "empty": {}, "none": None,
    }]  # fmt: skip


def test_a_file_with_two_columns_of_one_name_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["id", "id"]), path)
    assert problem_of(path, "parquet") == "repeated_header"


def test_record_numbers_continue_across_batches(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"id": range(5001)}), path, row_group_size=700)
    assert [record["id"] for record in read(path, "parquet")] == list(range(5001))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["parquet", "avro"])
def test_a_damaged_file_is_reported_with_its_problem(tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"a.{kind}"
    if kind == "avro":
        whole = avro(*[{**ORDER, "id": number} for number in range(5000)])
    else:
        content = io.BytesIO()
        pq.write_table(pa.table({"id": range(5000)}), content)
        whole = content.getvalue()
    overwritten = bytearray(whole)
    overwritten[len(whole) // 3 : len(whole) // 3 + 40] = b"\xff" * 40
    problems = []
    for damaged in (whole, whole[: len(whole) // 2], b"another format", bytes(overwritten), b""):
        path.write_bytes(damaged)
        problems.append(problem_of(path, kind))

    assert problems == [None, "corrupt_file", "corrupt_file", "corrupt_file", "empty_file"]
    assert problem_of(tmp_path / "missing", kind) == "vanished"


def test_a_changed_bit_in_a_page_is_found_by_its_checksum(tmp_path: Path) -> None:
    path, content = tmp_path / "a.parquet", io.BytesIO()
    table = pa.table({"id": range(5000)})
    pq.write_table(table, content, compression="none", use_dictionary=False, write_page_checksum=True)
    whole = content.getvalue()
    number = whole.index((4321).to_bytes(8, "little"))
    path.write_bytes(whole)
    assert problem_of(path, "parquet") is None
    path.write_bytes(whole[:number] + bytes([whole[number] ^ 1]) + whole[number + 1 :])
    assert problem_of(path, "parquet") == "corrupt_file"


def test_a_damaged_length_in_an_avro_file_asks_for_no_memory(tmp_path: Path) -> None:
    path, whole = tmp_path / "a.avro", avro(*[{**ORDER, "id": number} for number in range(500)], codec="null")
    first_block = whole.index(whole[-16:]) + 16
    # The number of records and the length of the block, each two bytes long, of which the second becomes 2^62.
    path.write_bytes(whole[: first_block + 2] + b"\x80" * 8 + b"\xff\x00" + whole[first_block + 5 :])
    assert problem_of(path, "avro") == "corrupt_file"


FAR = 2**61
"""A time that no calendar has, in any unit."""


def test_a_time_that_python_cannot_hold_leaves_all_other_values_of_a_parquet_file_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    columns = {
        "id": pa.array([1, 2], pa.int64()),
        "us": pa.array([FAR, 0], pa.timestamp("us", tz="UTC")),
        "ms": pa.array([0, FAR], pa.timestamp("ms")),
        "day": pa.array([2**30, 0], pa.date32()),
        "within": pa.array([{"a": [FAR, None]}, None], pa.struct([("a", pa.list_(pa.timestamp("us")))])),
        "map": pa.array([[("k", FAR)], []], pa.map_(pa.string(), pa.timestamp("us"))),
    }
    pq.write_table(pa.table(columns), path)
    first, second = read(path, "parquet")
    assert first == {
        "id": 1,
        "us": f"timestamp[us, tz=UTC] {FAR}",
        "ms": "1970-01-01T00:00:00",
        "day": f"date32[day] {2**30}",
        "within": {"a": [f"timestamp[us] {FAR}", None]},
        "map": {"k": f"timestamp[us] {FAR}"},
    }
    assert second == {
        "id": 2,
        "us": "1970-01-01T00:00:00+00:00",
        "ms": f"timestamp[ms] {FAR}",
        "day": "1970-01-01",
        "within": None,
        "map": {},
    }


@pytest.mark.parametrize(
    ("logical", "base", "value", "text"),
    [
        ("timestamp-micros", "long", FAR, f"timestamp-micros {FAR}"),
        ("timestamp-millis", "long", FAR, f"timestamp-millis {FAR}"),
        ("local-timestamp-micros", "long", FAR, f"local-timestamp-micros {FAR}"),
        ("date", "int", 2**30, f"date {2**30}"),
        ("time-micros", "long", FAR, f"time-micros {FAR}"),
        ("uuid", "string", "none", "none"),
    ],
)
def test_a_value_that_is_not_of_its_logical_type_leaves_the_other_records_of_an_avro_file_as_they_are(
    tmp_path: Path, logical: str, base: str, value: Any, text: str
) -> None:
    def schema(kind: Any) -> dict[str, Any]:
        return {"type": "record", "name": "R", "fields": [{"name": "id", "type": "int"}, {"name": "v", "type": kind}]}

    # fastavro refuses to write such a value: it is written as the plain type, and the schema in the file is exchanged.
    content, path = io.BytesIO(), tmp_path / "a.avro"
    plain = schema({"type": base, "logicalType": logical.replace("-", "_")})
    valid = "v" if base == "string" else 0
    fastavro.writer(content, plain, [{"id": 1, "v": valid}, {"id": 2, "v": value}, {"id": 3, "v": valid}])
    path.write_bytes(content.getvalue().replace(logical.replace("-", "_").encode(), logical.encode()))

    assert [(record["id"], record["v"] == text) for record in read(path, "avro")] == [(1, False), (2, True), (3, False)]


def test_a_record_that_is_too_long_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidegate.formats.reader.MAX_RECORD_LENGTH", 100)
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"text": ["x" * 1000]}), path)
    assert problem_of(path, "parquet") == "line_too_long"


def test_small_decimals_and_early_times_are_written_in_the_grammar_of_the_casts() -> None:
    paris = datetime.timezone(datetime.timedelta(minutes=9, seconds=21))
    record = {
        "price": Decimal("0.00000001"),
        "none": Decimal("0E-10"),
        "at": datetime.datetime(1900, 1, 1, tzinfo=paris),
    }
    assert json.loads(json_text.as_json(record)) == {
        "price": "0.00000001",
        "none": "0.0000000000",
        "at": "1899-12-31T23:50:39+00:00",
    }
