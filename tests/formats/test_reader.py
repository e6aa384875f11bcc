"""A file is read in one pass: its records, and the first problem of the file."""

from __future__ import annotations

import bz2
import dataclasses
import errno
import gzip
import hashlib
import os
import random
import tracemalloc
from pathlib import Path

import pyarrow
import pyarrow.parquet as pq
import pytest

from tests.s3_server import S3Process
from tests.store.buckets import new_store
from tidegate import json_codec
from tidegate.formats.reader import MAX_RECORD_LENGTH, CheckedFile, FileReader
from tidegate.spark.intake.landing import BatchValues, arrow_batches
from tidegate.spec import Dialect, FileFormat
from tidegate.store import Address
from tidegate.store.location import Stores

pytestmark = pytest.mark.slow

CONTENT = b"id,a\n1,x\n2,y\n"


def read(
    path: Path, dialect: Dialect | None = None, kind: FileFormat = "csv", names: tuple[str, ...] = ()
) -> tuple[list[tuple[int, str]], str | None, CheckedFile]:
    reader = FileReader(Address.local(path), 5, kind, dialect or Dialect(), names)
    records = list(reader)
    return records, reader.header, reader.checked


def problem(path: Path, content: bytes, dialect: Dialect | None = None) -> tuple[str | None, int | None]:
    path.write_bytes(content)
    checked = read(path, dialect)[2]
    assert checked.records == 0 or checked.problem is None
    assert checked.sha256 == hashlib.sha256(content).hexdigest(), (
        "the hash covers the whole file, also of a refused one"
    )
    return checked.problem, checked.line


def test_reading_a_file_gives_its_records_header_size_and_hash(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b"\xef\xbb\xbfone,two\r\n1,2\r\n")

    records, header, checked = read(path)

    assert (records, header) == ([(2, "1,2")], "one,two")
    assert (checked.problem, checked.size, checked.records, str(checked.id)) == (None, 17, 1, f"{path}@5")
    assert json_codec.decode(json_codec.encode(checked), CheckedFile) == checked


@pytest.mark.parametrize(
    ("name", "pack"),
    [
        ("a.csv", bytes),
        ("a.csv.gz", gzip.compress),
        ("a.csv.gz", lambda content: gzip.compress(content[:7]) + gzip.compress(content[7:])),
        ("a.csv.gz", lambda content: gzip.compress(content) + bytes(512)),
        ("a.csv.bz2", bz2.compress),
        ("a.csv.bz2", lambda content: bz2.compress(content[:7]) + bz2.compress(content[7:])),
    ],
    ids=["plain", "gzip", "gzip of two members", "gzip padded with zeros", "bzip2", "bzip2 of two streams"],
)
def test_compressed_files_are_read_completely(tmp_path: Path, name: str, pack: object) -> None:
    path = tmp_path / name
    path.write_bytes(pack(CONTENT))  # type: ignore[operator]  # a function of bytes
    records, header, checked = read(path)
    assert (records, header, checked.problem) == ([(2, "1,x"), (3, "2,y")], "id,a", None)
    assert checked.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()


def test_a_bad_file_is_reported_with_its_problem_and_line(tmp_path: Path) -> None:
    noise = "".join(random.Random(1).choices("abcdefghij0123456789", k=200_000)).encode()
    packed, squeezed = gzip.compress(CONTENT + noise), bz2.compress(CONTENT + noise)
    gz, bz = tmp_path / "a.csv.gz", tmp_path / "a.csv.bz2"
    plain = tmp_path / "a.csv"
    assert problem(gz, packed[: len(packed) // 2]) == ("corrupt_compression", None)
    assert problem(gz, CONTENT) == ("corrupt_compression", None)
    assert problem(gz, packed + b"garbage") == ("corrupt_compression", None)
    assert problem(bz, squeezed[: len(squeezed) // 2]) == ("corrupt_compression", None)
    assert problem(bz, squeezed + b"garbage") == ("corrupt_compression", None)
    assert problem(plain, "one\ncaf\u00e9".encode()[:-1]) == ("not_utf8", None)
    assert problem(plain, "one\ncaf\u00e9".encode("latin-1")) == ("not_utf8", None)
    assert problem(plain, CONTENT, Dialect(encoding="utf-16"))[0] == "not_utf16"
    assert problem(plain, b'id,a\n1,"x\n2,y\n3,z\n') == ("open_quote", 2)
    assert problem(plain, b"id\n" + b"x" * (MAX_RECORD_LENGTH + 1)) == ("line_too_long", None)
    assert problem(plain, b'id\n"' + (b"x" * 999 + b"\n") * (MAX_RECORD_LENGTH // 1000 + 1) + b'"\n') == (
        "line_too_long",
        2,
    )
    assert problem(plain, b"") == ("empty_file", None)
    assert read(tmp_path / "missing.csv")[2].problem == "vanished"
    os.mkfifo(tmp_path / "pipe.csv")
    assert read(tmp_path / "pipe.csv")[2].problem == "not_a_file"


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"id,a\n", None),
        (b"a\n", None),
        (b"1,x\n", "unknown_header"),
        (b"1,x", "unknown_header"),
        (b"PK\x03\x04", "unknown_header"),
        (b"\0" * 4096, "unknown_header"),
        (b"\n", "unknown_header"),
        (b"id;a\n", "other_separator(semicolon)"),
        (b"id,id\n", "repeated_header"),
        (b"1,x\n2,y\n", None),
    ],
)
def test_a_csv_file_without_records_must_have_a_header_because_its_line_may_be_a_record(
    tmp_path: Path, content: bytes, expected: str | None
) -> None:
    (tmp_path / "a.csv").write_bytes(content)
    assert read(tmp_path / "a.csv", names=("id", "a"))[2].problem == expected
    assert read(tmp_path / "a.csv", Dialect(header=False), names=("id", "a"))[2].problem is None


@pytest.mark.parametrize(
    "pack", [lambda path: os.truncate(path, 100_000_000), lambda path: path.write_bytes(gzip.compress(bytes(100_000_000), 1))],
    ids=["a line of 100 MB", "a gzip bomb of zeros"],
)  # fmt: skip
def test_an_endless_line_is_refused_without_being_read_into_memory(tmp_path: Path, pack: object) -> None:
    path = tmp_path / ("a.csv" if "truncate" in pack.__code__.co_names else "a.csv.gz")  # type: ignore[attr-defined]
    path.touch()
    pack(path)  # type: ignore[operator]  # a function of the path
    tracemalloc.start()
    try:
        assert read(path)[2].problem == "line_too_long"
        assert tracemalloc.get_traced_memory()[1] < 5 * MAX_RECORD_LENGTH
    finally:
        tracemalloc.stop()


def test_a_line_of_exactly_the_maximum_length_passes(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b"x" * MAX_RECORD_LENGTH + b"\n" + b"y" * MAX_RECORD_LENGTH)
    assert read(path)[2].problem is None


def test_a_file_that_changes_during_the_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(CONTENT)
    reader = FileReader(Address.local(path), 5, "csv", Dialect())
    for _ in reader:
        path.write_bytes(CONTENT + b"3,z\n")
    assert reader.checked.problem == "changed_while_read"


def test_encoding_header_and_comments_follow_the_dialect(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    for encoding in ("utf-16", "utf-16-le", "latin-1", "cp1252", "utf-8"):
        path.write_bytes("id;a\n1;caf\u00e9\n".encode(encoding))
        assert read(path, Dialect(separator=";", encoding=encoding))[0] == [(2, "1;caf\u00e9")]
    path.write_bytes(b"#by hand\n\n1,x\n#2,y\n\n3,z\n")
    dialect = Dialect(header=False, comment="#", blank_lines="skip")
    records, header, _ = read(path, dialect, names=("id", "a"))
    assert (records, header) == ([(3, "1,x"), (6, "3,z")], "id,a")


def test_each_line_of_a_json_file_is_a_record_also_with_open_quotes(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(b'{"a":"x"}\r\n\n{"a":"\xc3\xa9"')
    assert read(path, kind="json")[0] == [(1, '{"a":"x"}'), (2, ""), (3, '{"a":"é"')]


def test_arrow_batches_are_bounded_and_the_last_row_has_the_result_of_the_check(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b"id,a\n" + b"".join(b"%d,%s\n" % (number, b"x" * 1_000_000) for number in range(10)))

    batches = list(arrow_batches(FileReader(Address.local(path), 5, "csv", Dialect()), BatchValues(0, 5)))

    assert max(batch.nbytes for batch in batches) < 8 * 1024 * 1024
    rows = [row for batch in batches for row in batch.to_pylist()]
    assert [row["_line_number"] for row in rows[:-1]] == list(range(2, 12))
    assert {row["_checked"] for row in rows[:-1]} == {None}
    assert json_codec.decode(rows[-1]["_checked"], CheckedFile).records == 10


def test_a_file_in_a_bucket_is_read_like_a_local_one(
    tmp_path: Path, s3_server: S3Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in s3_server.variables.items():
        monkeypatch.setenv(name, value)
    parquet = tmp_path / "a.parquet"
    pq.write_table(pyarrow.table({"id": range(10_000)}), parquet)
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(CONTENT))
    (tmp_path / "large.csv").write_bytes(b"id,a\n" + b"1,x\n" * 1_500_000)
    store = new_store(s3_server)
    kinds: dict[str, FileFormat] = {"a.parquet": "parquet", "a.csv.gz": "csv", "large.csv": "csv"}
    for name, kind in kinds.items():
        store.put(name, (tmp_path / name).read_bytes())
        records, header, checked = read(tmp_path / name, kind=kind)
        stored = Stores().address(store.uri(name))
        reader = FileReader(stored, 5, kind, Dialect())
        assert (list(reader), reader.header) == (records, header)
        assert reader.checked == dataclasses.replace(checked, path=f"s3://{store.bucket}/{store.prefix}/{name}")


def test_what_a_server_refuses_whatever_the_file_judges_no_file(s3_server: S3Process) -> None:
    file = Address(new_store(s3_server, 0, AWS_SECRET_ACCESS_KEY="wrong"), "a.csv")
    with pytest.raises(OSError, match=rf"\[Errno {errno.EPERM}\] .*s3://.*/a.csv"):
        list(FileReader(file, 5, "csv", Dialect()))


def test_an_object_that_is_replaced_by_one_of_the_same_size_is_not_accepted(s3_server: S3Process) -> None:
    file = Address(new_store(s3_server), "a.csv")
    file.put(b"id,a\n1,x\n")
    reader = FileReader(file, 5, "csv", Dialect())
    for _ in reader:
        file.put(b"id,a\n1,y\n")
    assert reader.checked.problem == "changed_while_read"
