"""Delimited files are read by the standard; input that breaks it is refused and never turned into other records."""

from __future__ import annotations

import csv
import random
from collections import Counter
from pathlib import Path

import duckdb
import pytest

from tests.formats.corpus import NAMES, Generated, good_file, hostile_file, strict_rows
from tidegate.formats.delimited import OpenQuoteError, records, splitter
from tidegate.formats.reader import CheckedFile, FileReader
from tidegate.spec import Dialect
from tidegate.store import Address

pytestmark = pytest.mark.slow

MAX_LENGTH = 1000
FILES = pytest.mark.parametrize("count", [300, pytest.param(10_000, marks=pytest.mark.nightly)])
"""Number of generated files."""


def numbered_records(text: str, dialect: Dialect | None = None) -> list[tuple[int, str]]:
    return list(records(text.splitlines(keepends=True), dialect or Dialect(), MAX_LENGTH))


def cells(text: str, dialect: Dialect | None = None) -> list[str] | None:
    split = splitter(dialect or Dialect())(text)
    return None if split is None else split[0]


def read(folder: Path, file: Generated) -> tuple[list[list[str] | None], CheckedFile]:
    """The fields of each record of a file (None for one that breaks the grammar), and the result of the file's check."""
    path = folder / "file.csv"
    path.write_bytes(file.content)
    reader = FileReader(Address.local(path), 5, "csv", file.dialect)
    texts = [text for _, text in reader]
    return [cells(text, file.dialect) for text in texts], reader.checked


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a,b", ["a", "b"]),
        ('"he said ""hi""",2', ['he said "hi"', "2"]),
        ('"""whole"""', ['"whole"']),
        ('"a ""x"", b"', ['a "x", b']),
        ('"C:\\dir\\"', ["C:\\dir\\"]),
        ('"first\nsecond",3', ["first\nsecond", "3"]),
        ('"first\r\nsecond",3', ["first\r\nsecond", "3"]),
        ("a,,", ["a", "", ""]),
        ('"a"b,2', None),
        ('a"b,2', None),
        ('x, "a"', None),
        ('"b" ,x', None),
    ],
)
def test_a_record_is_split_by_the_standard_or_refused(text: str, expected: list[str] | None) -> None:
    assert cells(text) == expected


def test_empty_quotes_are_distinguished_from_an_empty_cell() -> None:
    assert splitter(Dialect())('a,"",,""""') == (["a", "", "", '"'], frozenset({1}))


def test_a_record_ends_after_its_closing_quote_and_has_the_number_of_its_first_line() -> None:
    text = '1,"first\r\nsec""ond",3\r\n4,5\n"6\n\n7",8\r9'
    assert numbered_records(text) == [(1, '1,"first\r\nsec""ond",3'), (3, "4,5"), (4, '"6\n\n7",8'), (7, "9")]


def test_a_malformed_record_ends_with_its_line() -> None:
    assert numbered_records('1,"a "b\n2,c\n"d\ne" f,3\n4') == [(1, '1,"a "b'), (2, "2,c"), (3, '"d\ne" f,3'), (5, "4")]


def test_an_unclosed_quote_is_reported_with_its_line() -> None:
    with pytest.raises(OpenQuoteError) as raised:
        numbered_records('1\n2\n"3\n4\n')
    assert raised.value.line == 3


def test_common_dialects_are_read() -> None:
    escaped = Dialect(separator=";", escape="\\")
    assert cells(r'a;"b\"c;d";e\;f', escaped) == ["a", 'b"c;d', "e;f"]
    assert numbered_records('"a\\"\nb";c\nd', escaped) == [(1, '"a\\"\nb";c'), (3, "d")]
    assert cells('a\t"b', Dialect(separator="\t", quote="")) == ["a", '"b']
    assert cells("'it''s'|x", Dialect(separator="|", quote="'")) == ["it's", "x"]
    assert numbered_records("#a\n1\n\n#b\n2", Dialect(comment="#", blank_lines="skip")) == [(2, "1"), (5, "2")]
    assert numbered_records("1\n\n2") == [(1, "1"), (2, ""), (3, "2")], (
        "an empty line is a record, which is refused later"
    )


@FILES
def test_files_that_conform_to_the_standard_are_read_as_written(tmp_path: Path, count: int) -> None:
    rng = random.Random(20)
    for number in range(count):
        file, rows = good_file(rng)
        read_rows, checked = read(tmp_path, file)
        assert (checked.problem, checked.records) == (None, len(rows)), (number, file)
        assert read_rows == rows, (number, file)


@FILES
def test_each_record_of_a_hostile_file_is_as_a_strict_parser_reads_it_or_refused(tmp_path: Path, count: int) -> None:
    rng = random.Random(21)
    outcomes: Counter[str] = Counter()
    for number in range(count):
        file = hostile_file(rng)
        read_rows, checked = read(tmp_path, file)
        try:
            # Python's parser accepts a quote inside an unquoted field as a character; the standard does not.
            expected: list[list[str]] | None = strict_rows(file.text, file.dialect)[1:]
        except csv.Error:
            expected = None
        if checked.problem is not None:
            assert (checked.problem, expected) == ("open_quote", None), (number, file)
            outcomes["file refused"] += 1
        elif expected is not None and None not in read_rows:
            assert read_rows == [row or [""] for row in expected], (number, file)
            outcomes["read"] += 1
        else:
            accepted = Counter(map(tuple, _rows_one_by_one(file.text)))
            assert Counter(tuple(row) for row in read_rows if row is not None) <= accepted, (number, file)
            outcomes["records refused"] += 1
    assert min(outcomes["read"], outcomes["file refused"], outcomes["records refused"]) > count // 20, outcomes


def _rows_one_by_one(text: str) -> list[list[str]]:
    """The records that Python's strict parser accepts; after an error it continues with the next line."""
    rows = []
    parser = csv.reader(text.splitlines(keepends=True)[1:], strict=True)
    while True:
        try:
            rows.append(next(parser) or [""])
        except csv.Error:
            continue
        except StopIteration:
            return rows


def test_duckdb_reads_the_same_records_from_files_that_conform_to_the_standard(tmp_path: Path) -> None:
    rng = random.Random(22)
    compared = 0
    for _ in range(3000):
        file, rows = good_file(rng)
        # DuckDB needs UTF-8 and a single kind of line break, also inside quotes.
        if not rows or "\r" in file.text or file.dialect.encoding != "utf-8":
            continue
        path = tmp_path / "file.csv"
        path.write_bytes(file.content)
        duckdb_rows = (
            duckdb.connect()
            .execute(
                f"SELECT * FROM read_csv('{path}', delim='{file.dialect.separator}', quote='\"', escape='\"', header=true, "
                "all_varchar=true, new_line='\\n', nullstr='\\u0001', auto_detect=false, strict_mode=true, columns="
                f"{dict.fromkeys(NAMES, 'VARCHAR')})"
            )
            .fetchall()
        )
        assert [[cell or "" for cell in row] for row in duckdb_rows] == read(tmp_path, file)[0]
        compared += 1
    assert compared > 20
