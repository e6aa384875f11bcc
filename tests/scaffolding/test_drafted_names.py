"""Whatever its fields are named, a drafted pipeline reads its sample: each value under one column, as another reader has it."""

from __future__ import annotations

import csv
import json
import random
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import fastavro
import pyarrow
import pyarrow.parquet
import pytest

from tidegate.formats.arrow_fields import CsvFields
from tidegate.formats.raw_fields import Field, csv_reader, json_reader
from tidegate.formats.reader import FileReader
from tidegate.scaffolding import sample
from tidegate.scaffolding.draft import Draft
from tidegate.schema.ddl import can_be_column
from tidegate.spec import FileSource
from tidegate.store import Address

RESERVED = [
    "select",
    "order",
    "group",
    "table",
    "timestamp",
    "not",
    "null",
    "map",
    "key",
    "Class",
    "rescued",
    "landed_at",
]
OWN = ["_row_id", "_change", "_origin", "_id", "_rescued", "__", "_path"]
ODD = [
    "Order ID",
    "größe",
    "Größe",
    "a.b",
    "a-b",
    "a b",
    "ÄÖÜ",
    "naïve",
    "名前",
    "имя",
    "1st",
    "a$b",
    'a"b',
    "a`b",
    "a\\b",
    "a,b",
    "a;b",
]
ODD += [
    "a\nb",
    "a\tb",
    "a'b",
    "{a}",
    "(a)=",
    "a:b",
    "a b c",
    "e\u0301t",
    "\U0001f600 x",
    "x" * 90,
    "$name",
    "%s",
    "a|b",
    "<a>",
]
PLAIN = [
    "id",
    "ID",
    "Id",
    "amount",
    "Amount",
    "order_id",
    "OrderId",
    "orderID",
    "ORDER_ID",
    "a_b",
    "aB",
    "AB",
    "field",
    "field_2",
]
LETTERS = "abzAZ019_ .-äßÉ/\\'\"`$&%+*?!,;:|()[]{}<>=\t\n名я\u00a0"


def names(randomness: random.Random) -> Iterator[str]:
    """Names without an end, each once, without blanks around them, and none that could be a value."""
    used = {""}
    while True:
        chosen = randomness.choice([*RESERVED, *OWN, *ODD, *PLAIN])
        if randomness.random() < 0.5:
            chosen = "".join(randomness.choice(LETTERS) for _ in range(randomness.randint(1, 12))).strip()
            chosen = chosen if any(map(str.isalpha, chosen)) else ""
        if chosen not in used and not chosen.startswith("#"):
            used.add(chosen)
            yield chosen


def records(randomness: random.Random, kind: str) -> list[dict[str, Any]]:
    """Three records of the same fields; except in CSV the last field has objects, one in the other."""
    flat = names(randomness)
    if kind == "avro":
        # Its names are identifiers by its standard.
        flat = (name for name in flat if name.isascii() and name.isidentifier())
    own = [next(flat) for _ in range(randomness.randint(2, 9))]
    made: list[dict[str, Any]] = []
    inner = names(randomness) if kind != "avro" else iter(["_id", "select", "Inner", "INNER"])
    around, a, b, deep = (next(inner) for _ in range(4))
    for number in range(1, 4):
        record: dict[str, Any] = {
            name: 7 * number if index % 2 else f"t{number} of {index}" for index, name in enumerate(own)
        }
        if kind != "csv":
            nested = {a: number, b: f"n{number}"}
            record[own[-1]] = [{around: nested, deep: number}]
        made.append(record)
    return made


def write(path: Path, kind: str, made: list[dict[str, Any]]) -> None:
    if kind == "csv":
        with path.open("w", newline="") as file:
            writer = csv.writer(file, delimiter=";")
            writer.writerow(made[0])
            writer.writerows(record.values() for record in made)
    elif kind == "json":
        path.write_text("".join(f"{json.dumps(record, ensure_ascii=False)}\n" for record in made))
    elif kind == "parquet":
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(made), path)
    else:
        with path.open("wb") as file:
            fastavro.writer(file, _avro("record", made[0]), made)


def _avro(name: str, record: Mapping[str, Any]) -> dict[str, Any]:
    fields = []
    for index, (field, value) in enumerate(record.items()):
        if isinstance(value, list):
            of: Any = {"type": "array", "items": _avro(f"{name}_{index}", value[0])}
        elif isinstance(value, dict):
            of = _avro(f"{name}_{index}", value)
        else:
            of = "long" if isinstance(value, int) else "string"
        fields.append({"name": field, "type": of})
    return {"type": "record", "name": name, "fields": fields}


def read_again(path: Path, kind: str) -> list[dict[str, Any]]:
    """The records by another reader than the platform's; values of CSV are texts."""
    if kind == "csv":
        with path.open(newline="") as file:
            return [dict(row) for row in csv.DictReader(file, delimiter=";")]
    if kind == "json":
        return [json.loads(line) for line in path.read_text().split("\n") if line]
    if kind == "parquet":
        return list(pyarrow.parquet.read_table(path).to_pylist())
    with path.open("rb") as file:
        return [dict(record) for record in fastavro.reader(file) if isinstance(record, dict)]


def expected(value: Any, path: tuple[str, ...], renames: Mapping[tuple[str, ...], str]) -> Any:
    """A value of the other reader with the declared names."""
    if isinstance(value, list):
        return [expected(each, path, renames) for each in value]
    if not isinstance(value, dict):
        return value
    renamed = {renames.get((*path, name), name): expected(each, (*path, name), renames) for name, each in value.items()}
    assert len(renamed) == len(value), "the declaration has one name for two fields"
    return renamed


def parsed(path: Path, source: FileSource) -> list[dict[str, str | None]]:
    """The texts of the columns, of records none of which breaks a rule or has an undeclared field."""
    columns = source.columns
    reader = FileReader(
        Address.local(path), 0, source.format, source.dialect, [each.name for each in columns], source.names
    )
    fields = [Field(name=each.name, is_text=each.is_text) for each in columns]
    make = csv_reader(fields, source.null_values, source.names)
    read = make if source.format == "csv" else json_reader(fields, source.null_values, None, source.names)
    rows, texts = [], []
    for _, text in reader:
        record = read(text, reader.header, json.dumps({"separator": source.dialect.separator}))
        assert (record.malformed, record.unknown) == (None, {}), text
        rows.append(dict(zip([each.name for each in columns], record.declared, strict=True)))
        texts.append(text)
    assert reader.checked.problem is None
    if source.format == "csv":
        dialect = json.dumps({"separator": source.dialect.separator})
        split = CsvFields(fields, source.null_values, source.names)(
            *(
                pyarrow.array(each, pyarrow.string())
                for each in (texts, [reader.header] * len(texts), [dialect] * len(texts))
            )
        )
        assert [list(row.values())[: len(columns)] for row in split.to_pylist()] == [[*row.values()] for row in rows]
    return rows


@pytest.mark.parametrize("kind", ["csv", "json", "parquet", "avro"])
@pytest.mark.parametrize("seed", range(40))
def test_a_draft_reads_its_sample_whatever_its_fields_are_named(tmp_path: Path, kind: str, seed: int) -> None:
    path = tmp_path / f"sample.{kind}"
    write(path, kind, records(random.Random(f"{kind} {seed}"), kind))
    others = read_again(path, kind)

    drafted = Draft.of(sample.of_file(Address.local(path)), of_topic=False)
    declared: dict[str, Any] = {}
    exec(drafted.pipeline("orders", "orders"), declared)
    compile(drafted.job("orders"), "orders.py", "exec")
    source = declared["pipeline"].flow("bronze").source

    assert all(can_be_column(each.type) for each in source.columns)
    assert len({each.name.lower() for each in source.columns}) == len(others[0])
    renames = {(name,) if isinstance(name, str) else name: declared for name, declared in source.fields}
    wanted = [expected(record, (), renames) for record in others]
    rows = parsed(path, source)
    assert [
        {name: json.loads(text or "") if not isinstance(wanted[0][name], str) else text for name, text in row.items()}
        for row in rows
    ] == wanted
