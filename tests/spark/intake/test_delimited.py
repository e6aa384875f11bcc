"""Delimited files are read by the standard; what breaks it is refused, and no row comes that nobody sent."""

from __future__ import annotations

import csv
import random
from collections import Counter
from pathlib import Path

import duckdb
import pytest

from tests.spark.intake.corpus import NAMES, Generated, good_file, hostile_file, strict_rows
from tidegate.spark.intake.delimited import OpenQuoteError, records, splitter
from tidegate.spark.intake.reader import CheckedFile, FileReader
from tidegate.spec import Dialect

LONGEST = 1000
FILES = pytest.mark.parametrize("count", [1000, pytest.param(10_000, marks=pytest.mark.nightly)])
"""How many generated files are read."""


def found(text: str, dialect: Dialect | None = None) -> list[tuple[int, str]]:
    return list(records(text.splitlines(keepends=True), dialect or Dialect(), LONGEST))


def cells(text: str, dialect: Dialect | None = None) -> list[str] | None:
    split = splitter(dialect or Dialect())(text)
    return None if split is None else split[0]


def read(folder: Path, file: Generated) -> tuple[list[list[str] | None], CheckedFile]:
    """The fields of each record of a file, None for one that breaks the grammar, and what was found out about the file."""
    path = folder / "file.csv"
    path.write_bytes(file.content)
    reader = FileReader(str(path), 5, "csv", file.dialect)
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
def test_a_record_has_the_fields_of_the_standard_or_none(text: str, expected: list[str] | None) -> None:
    assert cells(text) == expected


def test_an_empty_field_and_empty_quotes_are_told_apart() -> None:
    assert splitter(Dialect())('a,"",,""""') == (["a", "", "", '"'], frozenset({1}))


def test_a_record_ends_where_its_quotes_are_closed_and_is_numbered_by_its_first_line() -> None:
    text = '1,"first\r\nsec""ond",3\r\n4,5\n"6\n\n7",8\r9'
    assert found(text) == [(1, '1,"first\r\nsec""ond",3'), (3, "4,5"), (4, '"6\n\n7",8'), (7, "9")]


def test_a_record_that_breaks_the_grammar_ends_with_its_line() -> None:
    assert found('1,"a "b\n2,c\n"d\ne" f,3\n4') == [(1, '1,"a "b'), (2, "2,c"), (3, '"d\ne" f,3'), (5, "4")]


def test_a_quote_that_is_open_at_the_end_is_told_with_its_line() -> None:
    with pytest.raises(OpenQuoteError) as raised:
        found('1\n2\n"3\n4\n')
    assert raised.value.line == 3


def test_the_dialects_that_people_have_are_read() -> None:
    escaped = Dialect(separator=";", escape="\\")
    assert cells(r'a;"b\"c;d";e\;f', escaped) == ["a", 'b"c;d', "e;f"]
    assert found('"a\\"\nb";c\nd', escaped) == [(1, '"a\\"\nb";c'), (3, "d")]
    assert cells('a\t"b', Dialect(separator="\t", quote="")) == ["a", '"b']
    assert cells("'it''s'|x", Dialect(separator="|", quote="'")) == ["it's", "x"]
    assert found("#a\n1\n\n#b\n2", Dialect(comment="#", blank_lines="skip")) == [(2, "1"), (5, "2")]
    assert found("1\n\n2") == [(1, "1"), (2, ""), (3, "2")], "an empty line is a record, to be refused"


@FILES
def test_files_that_keep_the_standard_are_read_as_they_were_written(tmp_path: Path, count: int) -> None:
    rng = random.Random(20)
    for number in range(count):
        file, rows = good_file(rng)
        got, checked = read(tmp_path, file)
        assert (checked.problem, checked.records) == (None, len(rows)), (number, file)
        assert got == rows, (number, file)


@FILES
def test_each_record_of_a_hostile_file_is_what_a_strict_parser_reads_or_refused(tmp_path: Path, count: int) -> None:
    rng = random.Random(21)
    fates: Counter[str] = Counter()
    for number in range(count):
        file = hostile_file(rng)
        got, checked = read(tmp_path, file)
        try:
            # Python's parser takes a quote inside a field without quotes for itself; the standard does not.
            judged: list[list[str]] | None = strict_rows(file.text, file.dialect)[1:]
        except csv.Error:
            judged = None
        if checked.problem is not None:
            assert (checked.problem, judged) == ("open_quote", None), (number, file)
            fates["file refused"] += 1
        elif judged is not None and None not in got:
            assert got == [row or [""] for row in judged], (number, file)
            fates["read"] += 1
        else:
            known = Counter(map(tuple, _rows_one_by_one(file.text)))
            assert Counter(tuple(row) for row in got if row is not None) <= known, (number, file)
            fates["records refused"] += 1
    assert min(fates["read"], fates["file refused"], fates["records refused"]) > count // 20, fates


def _rows_one_by_one(text: str) -> list[list[str]]:
    """The records that Python's strict parser accepts, each on its own: it goes on behind the line in which one fails."""
    rows = []
    parser = csv.reader(text.splitlines(keepends=True)[1:], strict=True)
    while True:
        try:
            rows.append(next(parser) or [""])
        except csv.Error:
            continue
        except StopIteration:
            return rows


def test_another_engine_reads_the_same_of_files_that_keep_the_standard(tmp_path: Path) -> None:
    rng = random.Random(22)
    compared = 0
    for _ in range(3000):
        file, rows = good_file(rng)
        # DuckDB takes one kind of line break at a time, UTF-8, and no line break of another kind within quotes.
        if not rows or "\r" in file.text or file.dialect.encoding != "utf-8":
            continue
        path = tmp_path / "file.csv"
        path.write_bytes(file.content)
        judged = duckdb.sql(
            f"SELECT * FROM read_csv('{path}', delim='{file.dialect.separator}', quote='\"', escape='\"', header=true, "
            "all_varchar=true, new_line='\\n', nullstr='\\u0001', auto_detect=false, strict_mode=true, columns="
            f"{dict.fromkeys(NAMES, 'VARCHAR')})"
        ).fetchall()
        assert [[cell or "" for cell in row] for row in judged] == read(tmp_path, file)[0]
        compared += 1
    assert compared > 20
