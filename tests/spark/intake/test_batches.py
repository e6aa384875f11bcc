"""Records that are cut many at a time have the texts that they have one by one."""

from __future__ import annotations

import json
import random

import pyarrow as pa
import pytest

from tests.spark.intake.corpus import NAMES, good_file, hostile_file
from tidegate.spark.intake.batches import CsvTexts, of_each
from tidegate.spark.intake.delimited import records
from tidegate.spark.intake.texts import Field, csv_reader
from tidegate.spec import Dialect

FIELDS = [Field(name=name, is_text=name in "ab") for name in ("b", "id", "missing", "c", "a")]
NULLS = ("", "NULL", "1.10")


def arrays(rows: list[tuple[str | None, str | None, str | None]]) -> list[pa.Array]:
    """Record, header and dialect."""
    return [pa.array(column, pa.string()) for column in zip(*rows, strict=True)]


def both(rows: list[tuple[str | None, str | None, str | None]]) -> tuple[list[dict[str, object]], int]:
    """What the batch gives, the same as each record alone; and how many Arrow cut."""
    raw, header, dialect = arrays(rows)
    made = CsvTexts(FIELDS, NULLS)
    cut = 0

    def counted(plain: pa.Array, names: list[str], separator: str) -> pa.StructArray:
        nonlocal cut
        cut += len(plain)
        return CsvTexts._cut(made, plain, names, separator)

    made._cut = counted  # type: ignore[method-assign]  # counts
    together = made(raw, header, dialect)
    alone = of_each(raw, header, dialect, csv_reader(FIELDS, NULLS), len(FIELDS))
    assert together.type == alone.type
    assert together.to_pylist() == alone.to_pylist()
    return alone.to_pylist(), cut


def test_any_batch_of_any_files_has_the_texts_of_its_records() -> None:
    rng = random.Random(4)
    total = by_arrow = 0
    for _ in range(60):
        rows: list[tuple[str | None, str | None, str | None]] = []
        for _ in range(12):
            file = hostile_file(rng) if rng.random() < 0.3 else good_file(rng)[0]
            stored = json.dumps(file.dialect.to_json())
            try:
                header, *found = [text for _, text in records(file.text.splitlines(keepends=True), file.dialect, 1000)]
            except ValueError:
                continue
            rows += [(text, header, stored) for text in (*found, None)]
        read, cut = both(rows)
        total, by_arrow = total + len(read), by_arrow + cut
    assert 100 < by_arrow < total / 2, "some of them by Arrow, and more one by one"


def test_a_batch_without_rows_has_none() -> None:
    empty = pa.array([], pa.string())
    assert len(CsvTexts(FIELDS, NULLS)(empty, empty, empty)) == 0


@pytest.mark.parametrize(
    ("record", "is_cut"),
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
def test_only_a_record_that_has_a_cell_for_each_name_and_no_quote_is_cut(record: str, is_cut: bool) -> None:
    assert both([(record, ",".join(NAMES), None)])[1] == int(is_cut)
    assert both([(record, "id,a,b,other", None)])[1] == 0, "what is not declared goes into a map"


def test_a_file_with_an_escape_or_a_header_that_cannot_be_used_is_read_record_by_record() -> None:
    escaping = json.dumps(Dialect(escape="\\").to_json())
    for header, dialect in (("id,b", escaping), ("b,b", None), ("colour,size", None), (None, None)):
        assert both([("1,x", header, dialect)])[1] == 0
