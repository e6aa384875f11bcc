"""Odd files in a landing folder: each is read, refused alone with its rule, or left out; the good ones beside it are in bronze."""

from __future__ import annotations

import bz2
import dataclasses
import gzip
import io
import json
import os
import socket
import struct
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.spark import job as orders
from tidegate.spark.flow import run_flow
from tidegate.spec import FileFormat, FileSource

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.jvm, pytest.mark.nightly]

LINE = b'{"id": 1}\n'


def parquet(**options: Any) -> bytes:
    content = io.BytesIO()
    pq.write_table(pa.table({"id": range(5000)}), content, row_group_size=500, **options)
    return content.getvalue()


def avro(*ids: int) -> bytes:
    import fastavro

    content = io.BytesIO()
    schema = {"type": "record", "name": "R", "fields": [{"name": "id", "type": "int"}, {"name": "s", "type": "string"}]}
    fastavro.writer(content, schema, [{"id": each, "s": "x" * 30} for each in ids], sync_interval=1000)
    return content.getvalue()


def flipped(content: bytes, at: int, length: int = 1) -> bytes:
    changed = bytes(each ^ 0xFF for each in content[at : at + length])
    return content[:at] + changed + content[at + length :]


def expect(
    spark: SparkSession, folder: Path, kind: FileFormat, landed: dict[str, tuple[bytes, str | int]], extra: Any = None
) -> None:
    """Land the files and run a flow.

    Args:
        landed: The content of each file, and the rule that refuses it or the number of its records.
        extra: Lands what is no file.
    """
    flow = dataclasses.replace(orders.BRONZE, source=FileSource(path="orders", format=kind, schema="id INT"))
    job = orders.job_of(spark, folder, flow)
    zone = job.place.layout.landing("orders")
    zone.make_folder()
    for name, (content, _) in landed.items():
        (zone / name).put(content)
    more = {} if extra is None else extra(Path(zone))
    expected = {name: rule for name, (_, rule) in landed.items()} | more

    run_flow(job)

    read = Counter(Path(row["_path"]).name for row in orders.table(job.live))
    refused = {
        Path(json.loads(entry["source"])["path"]).name: ",".join(entry["rules"])
        for entry in orders.table(job.place.quarantine)
    }
    outcomes = {name: refused.get(name, read[name]) for name in expected}
    assert outcomes == expected
    assert read.keys() | refused.keys() <= expected.keys()
    (line,) = job.run.report.batches
    assert (line.files_listed, line.files_quarantined) == (line.files_opened + len(refused), len(refused))
    again = orders.job_of(spark, folder, flow)
    run_flow(again)
    assert again.run.report.batches == [], "nothing is read twice, and nothing is left to do"


def test_odd_json_files(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packed = gzip.compress(LINE * 9000)

    def others(zone: Path) -> dict[str, str | int]:
        (zone / "loop.json").symlink_to(zone / "loop.json")
        (zone / "dangling.json").symlink_to(zone / "nothing")
        (zone / "device.json").symlink_to("/dev/zero")
        (zone / "folder.json").mkdir()
        (zone / "folder.json" / "inner.json").write_bytes(LINE)
        (zone / "linked.json").symlink_to(zone / "folder.json")
        (zone / "empty.json").mkdir()
        os.mkfifo(zone / "pipe.json")
        with socket.socket(socket.AF_UNIX) as bound:
            # The path of a socket has at most 108 bytes.
            monkeypatch.chdir(zone)
            bound.bind("socket.json")
        Path(os.fsdecode(os.fsencode(zone) + b"/\xff.json")).write_bytes(LINE)
        return {
            "loop.json": 0,
            "dangling.json": 0,
            "device.json": "not_a_file",
            "inner.json": 2,
            "empty.json": 0,
            "pipe.json": "not_a_file",
            "socket.json": "not_a_file",
        }

    expect(
        spark,
        tmp_path,
        "json",
        {
            "good.json": (LINE, 1),
            "zero.json": (b"", "empty_file"),
            "zero.json.gz": (b"", "empty_file"),
            "blank.json": (b"\n\n", 2),
            "no_end.json": (LINE + b'{"id":', 2),
            "mark.json": (b"\xef\xbb\xbf" + LINE, 1),
            "latin.json": (b'{"s": "\xe9"}\n', "not_utf8"),
            "utf16.json": (LINE.decode().encode("utf-16"), "not_utf8"),
            "surrogate.json": (b'{"s": "\xed\xa0\x80"}\n', "not_utf8"),
            "zeros.json": (bytes(5000), 1),
            "deep.json": (b"[" * 100_000 + b"]" * 100_000 + b"\n", 1),
            "digits.json": (b'{"id": ' + b"9" * 5000 + b"}\n", 1),
            "long.json": (b'{"s": "' + b"x" * (17 << 20) + b'"}\n', "line_too_long"),
            "torn.json.gz": (packed[:-9], "corrupt_compression"),
            "sum.json.gz": (flipped(packed, len(packed) - 8), "corrupt_compression"),
            "flipped.json.gz": (flipped(packed, 20, 5), "corrupt_compression"),
            "plain.json.gz": (LINE, "corrupt_compression"),
            "followed.json.gz": (packed + b"x", "corrupt_compression"),
            "two.json.gz": (gzip.compress(LINE) + gzip.compress(LINE), 2),
            "bomb.json.gz": (gzip.compress(bytes(100 << 20), 1), "line_too_long"),
            "packed.json": (packed, "not_utf8"),
            "torn.json.bz2": (bz2.compress(LINE * 9000)[:-9], "corrupt_compression"),
            "plain.json.bz2": (LINE, "corrupt_compression"),
            "a b%41#?é.json": (LINE, 1),
            "a:b.json": (LINE, 1),
            "[a]{b}*.json": (LINE, 1),
            "line\nbreak.json": (LINE, 1),
            f"{'n' * 250}.json": (LINE, 1),
        },
        others,
    )


def test_odd_parquet_files(spark: SparkSession, tmp_path: Path) -> None:
    whole = parquet(write_page_checksum=True, compression="none", use_dictionary=False)
    footer = struct.unpack("<I", whole[-8:-4])[0]
    text = io.BytesIO()
    bad_text = pa.Array.from_buffers(
        pa.string(), 1, [None, pa.py_buffer(struct.pack("<ii", 0, 2)), pa.py_buffer(b"\xff\xfe")]
    )
    pq.write_table(pa.table({"s": bad_text}), text)
    far = io.BytesIO()
    pq.write_table(pa.table({"id": [1, 2], "at": pa.array([2**62, 0], pa.timestamp("us", tz="UTC"))}), far)
    other_type = io.BytesIO()
    pq.write_table(pa.table({"id": [[1], []]}), other_type)
    twice = io.BytesIO()
    pq.write_table(pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["id", "id"]), twice)
    expect(
        spark,
        tmp_path,
        "parquet",
        {
            "good.parquet": (parquet(), 5000),
            "zero.parquet": (b"", "empty_file"),
            "torn.parquet": (whole[:-20], "corrupt_file"),
            "half.parquet": (whole[: len(whole) // 2], "corrupt_file"),
            "magic.parquet": (whole[:-4] + b"PAR2", "corrupt_file"),
            "encrypted.parquet": (whole[:-4] + b"PARE", "corrupt_file"),
            "text.parquet": (b"id\n1\n", "corrupt_file"),
            "magic_only.parquet": (b"PAR1", "corrupt_file"),
            "no_footer.parquet": (b"PAR1" + bytes(4) + b"PAR1", "corrupt_file"),
            "footer.parquet": (flipped(whole, len(whole) - 8 - footer + 5, 40), "corrupt_file"),
            "length.parquet": (whole[:-8] + struct.pack("<I", 2**31 - 1) + b"PAR1", "corrupt_file"),
            "page.parquet": (flipped(whole, 1000), "corrupt_file"),
            "not_utf8.parquet": (text.getvalue(), "corrupt_file"),
            "twice.parquet": (twice.getvalue(), "repeated_header"),
            "far.parquet": (far.getvalue(), 2),
            "other_type.parquet": (other_type.getvalue(), 2),
            "no_rows.parquet": (_without_rows(), 0),
        },
    )


def _without_rows() -> bytes:
    content = io.BytesIO()
    pq.write_table(pa.table({"id": pa.array([], pa.int32())}), content)
    return content.getvalue()


def test_odd_avro_and_csv_files(spark: SparkSession, tmp_path: Path) -> None:
    whole = avro(*range(200))
    # The length of the first block, as the format writes numbers: 2^62.
    start = whole.index(whole[-16:]) + 16
    length = whole[: start + 2] + b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01" + whole[start + 4 :]
    expect(
        spark,
        tmp_path / "avro",
        "avro",
        {
            "good.avro": (whole, 200),
            "zero.avro": (b"", "empty_file"),
            "torn.avro": (whole[:-7], "corrupt_file"),
            "head.avro": (whole[:40], "corrupt_file"),
            "text.avro": (b"id\n1\n", "corrupt_file"),
            "marker.avro": (flipped(whole, len(whole) - 5), "corrupt_file"),
            "followed.avro": (whole + b"x", "corrupt_file"),
            "length.avro": (length, "corrupt_file"),
        },
    )
    expect(
        spark,
        tmp_path / "csv",
        "csv",
        {
            "good.csv": (b"id,s\n1,a\n", 1),
            "header.csv": (b"id,s\n", 0),
            "record.csv": (b"1,a\n", "unknown_header"),
            "zip.csv": (b"PK\x03\x04", "unknown_header"),
            "other.csv": (b"id;s\n", "other_separator(semicolon)"),
            "open.csv": (b'id,s\n1,"a\n2,b\n', "open_quote"),
            "carriage.csv": (b"id,s\r1,a\r2,b\r", 2),
            "mixed.csv": (b"id,s\r\n1,a\n2,b\r", 2),
            "no_end.csv": (b"id,s\n1,a", 1),
            "zero.csv": (b"", "empty_file"),
        },
    )
