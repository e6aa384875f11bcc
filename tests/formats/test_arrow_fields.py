"""Records split by Arrow have the same field texts as records read one by one."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pyarrow as pa
import pytest

from tests.formats.corpus import NAMES, good_file, hostile_file
from tidegate import json_codec
from tidegate.formats.arrow_fields import CsvFields, read_each
from tidegate.formats.delimited import records
from tidegate.formats.raw_fields import Field, csv_reader
from tidegate.spec import Dialect

pytestmark = pytest.mark.slow

FIELDS = [Field(name=name, is_text=name in "ab") for name in ("b", "id", "missing", "c", "a")]
NULLS = ("", "NULL", "1.10")


def arrays(rows: list[tuple[str | None, str | None, str | None]]) -> list[pa.Array]:
    """The columns record, header and dialect."""
    return [pa.array(column, pa.string()) for column in zip(*rows, strict=True)]


def read_both_ways(rows: list[tuple[str | None, str | None, str | None]]) -> tuple[list[dict[str, object]], int]:
    """Assert that both ways give the same fields; return them, and how many records Arrow split."""
    raw, header, dialect = arrays(rows)
    csv_fields = CsvFields(FIELDS, NULLS)
    split_count = 0

    def count_and_split(raw: pa.Array, names: Sequence[str], separator: str) -> pa.StructArray:
        nonlocal split_count
        split_count += len(raw)
        return CsvFields._split(csv_fields, raw, names, separator)

    csv_fields._split = count_and_split  # type: ignore[method-assign]  # counts the records
    together = csv_fields(raw, header, dialect)
    one_by_one = read_each(raw, header, dialect, csv_reader(FIELDS, NULLS), len(FIELDS))
    assert together.type == one_by_one.type
    assert together.to_pylist() == one_by_one.to_pylist()
    return one_by_one.to_pylist(), split_count


def test_records_of_generated_files_have_the_same_fields_both_ways() -> None:
    rng = random.Random(4)
    total = by_arrow = 0
    for _ in range(60):
        rows: list[tuple[str | None, str | None, str | None]] = []
        for _ in range(12):
            file = hostile_file(rng) if rng.random() < 0.3 else good_file(rng)[0]
            stored = json_codec.encode(file.dialect)
            try:
                header, *texts = [text for _, text in records(file.text.splitlines(keepends=True), file.dialect, 1000)]
            except ValueError:
                continue
            rows += [(text, header, stored) for text in (*texts, None)]
        read, split_count = read_both_ways(rows)
        total, by_arrow = total + len(read), by_arrow + split_count
    assert 100 < by_arrow < total / 2, "Arrow splits some records, but less than half"


def test_an_empty_batch_gives_no_rows() -> None:
    empty = pa.array([], pa.string())
    assert len(CsvFields(FIELDS, NULLS)(empty, empty, empty)) == 0


@pytest.mark.parametrize(
    ("record", "is_split"),
    [
        ("1,x,y,z", True),
        (",,,", True),
        ("NULL,x,1.10,z", True),
        ('1,"x",y,z', False),
        ("1,x,y", False),
        ("1,x,y,z,", False),
        ("", False),
    ],
)
def test_arrow_splits_only_records_with_one_cell_per_name_and_no_quote(record: str, is_split: bool) -> None:
    assert read_both_ways([(record, ",".join(NAMES), None)])[1] == int(is_split)
    assert read_both_ways([(record, "id,a,b,other", None)])[1] == 0, "undeclared fields go into a map"


def test_files_with_an_escape_or_an_unusable_header_are_read_one_by_one() -> None:
    escaping = json_codec.encode(Dialect(escape="\\"))
    for header, dialect in (("id,b", escaping), ("b,b", None), ("colour,size", None), (None, None)):
        assert read_both_ways([("1,x", header, dialect)])[1] == 0
