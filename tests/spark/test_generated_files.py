"""Five hundred generated files through whole pipelines: every record of a strict parser is in silver or in quarantine.

The expected rows come from Python's `csv` module, and from DuckDB for the files that it can read; neither shares code with
the product. Single files: `intake/test_delimited.py` and `intake/test_reader.py`.
"""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import json
import random
import re
import threading
from collections import Counter
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pytest

from tests.deployment import Deployment
from tests.formats.corpus import TEXTS, hostile_file
from tests.spark.orders import Declare
from tests.waiting import wait_until
from tidegate.lake.place import Place

pytestmark = [pytest.mark.jvm, pytest.mark.nightly]

DECLARATION = """
from tidegate.spec import ChangeFeed, Dialect, FileSource, Flow, Pipeline, Table

DIALECTS = {
    "comma": Dialect(),
    "semicolon": Dialect(separator=";", encoding="latin-1"),
    "tab": Dialect(separator="\\t", encoding="utf-16"),
    "pipe": Dialect(separator="|", quote="'", blank_lines="skip"),
}

pipeline = Pipeline(
    name="files",
    flows=tuple(
        flow
        for name, dialect in DIALECTS.items()
        for flow in (
            Flow(
                name=f"bronze_{name}",
                source=FileSource(
                    path=name,
                    format="csv",
                    schema="id INT NOT NULL, a STRING, b STRING, amount DECIMAL(12,2)",
                    dialect=dialect,
                    max_files_per_trigger=40,
                ),
                target=Table(f"bronze.{name}"),
            ),
            Flow(
                name=f"silver_{name}",
                source=ChangeFeed(f"bronze.{name}"),
                transform="files:as_sent",
                target=Table(f"silver.{name}"),
            ),
        )
    ),
)
"""
JOB = """
def as_sent(rows):
    return rows.select("_row_id", "_origin", "id", "a", "b", "amount")
"""
COLUMNS = ["id", "a", "b", "amount"]
AMOUNTS = {
    "": None,
    "1.50": Decimal("1.50"),
    "-3": Decimal(-3),
    "1e2": Decimal(100),
    "9999999999.99": Decimal("9999999999.99"),
}
ROW_ID = re.compile(r".*/([^/]+)@[0-9]+#([0-9]+)")
Position = tuple[str, int]
"""File and line of a record."""


@dataclass(frozen=True)
class SourceDialect:
    """The CSV dialect of the files of one source."""

    name: str
    separator: str
    quote: str
    encoding: str
    skips_blank: bool = False

    def parsed(self, text: str) -> list[tuple[int, list[str]]]:
        """The records of Python's strict parser, each with its first line; raises `csv.Error` on a syntax error."""
        parser = csv.reader(io.StringIO(text, newline=""), delimiter=self.separator, quotechar=self.quote, strict=True)
        records, line = [], 1
        for cells in parser:
            records.append((line, cells))
            line = parser.line_num + 1
        return records

    def accepted(self, text: str) -> Counter[tuple[str, ...]]:
        """The records that the strict parser accepts; it continues after a line with an error."""
        parser = csv.reader(text.splitlines(keepends=True), delimiter=self.separator, quotechar=self.quote, strict=True)
        records: Counter[tuple[str, ...]] = Counter()
        while True:
            try:
                records[tuple(next(parser))] += 1
            except csv.Error:
                continue
            except StopIteration:
                return records


SOURCES = (
    SourceDialect("comma", ",", '"', "utf-8"),
    SourceDialect("semicolon", ";", '"', "latin-1"),
    SourceDialect("tab", "\t", '"', "utf-16"),
    SourceDialect("pipe", "|", "'", "utf-8", skips_blank=True),
)


@dataclass
class Expected:
    """The expected rows, refused rows and refused files of one source."""

    rows: dict[Position, tuple[Any, ...]] = field(default_factory=dict)
    refused: dict[Position, str] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    """Refused files, with the rule."""
    hostile: dict[str, str] = field(default_factory=dict)
    """Text by file; which records are accepted is compared with the strict parser."""
    plain: list[str] = field(default_factory=list)
    """Files that DuckDB can read as well."""


def cell(rng: random.Random, source: SourceDialect) -> str:
    pieces = [*TEXTS, source.separator, source.quote, "\n", "\r\n", "\r"]
    text = "".join(rng.choice(pieces) for _ in range(rng.choice([0, 1, 1, 2, 3])))
    return text.encode(source.encoding, "replace").decode(source.encoding)


def line_of(rng: random.Random, source: SourceDialect, cells: list[str]) -> str:
    """A record with quotes where they are needed, and at random where they are allowed."""
    special, quote = f"{source.separator}{source.quote}\r\n", source.quote
    return source.separator.join(
        quote + cell.replace(quote, quote * 2) + quote
        if any(character in special for character in cell) or rng.random() < 0.2
        else cell
        for cell in cells
    )


def text_of(rng: random.Random, source: SourceDialect, end: str, *, with_errors: bool) -> str:
    """A file with columns in random order; with errors, some of its records break a rule."""
    names = rng.sample([*COLUMNS, "extra"], 5) if rng.random() < 0.3 else rng.sample(COLUMNS, 4)
    lines = [line_of(rng, source, names)]
    for number in range(rng.randrange(3, 9)):
        record = {
            "id": str(rng.randrange(10**6)),
            "a": cell(rng, source),
            "b": cell(rng, source),
            "amount": rng.choice(list(AMOUNTS)),
            "extra": "more",
        }
        broken = rng.randrange(6) if with_errors else 0
        if broken == 1:
            record["id"] = rng.choice(["x7", " 7", "7.5", ""])
        elif broken == 2:
            record["amount"] = rng.choice(["1.005", "1,5 ", "10000000000", "free"])
        values = [record[name] for name in names]
        if broken == 3:
            values = values[:-1] if number % 2 else [*values, "one more"]
        lines.append(line_of(rng, source, values))
        if broken == 4:
            lines.append("")
    return end.join(lines) + (end if rng.random() < 0.7 else "")


def expect_records(expected: Expected, source: SourceDialect, name: str, text: str) -> None:
    """Add the expected result of each record of a file without syntax errors."""
    (_, names), *records = source.parsed(text)
    for line, cells in records:
        position = (name, line)
        if not cells:
            if not source.skips_blank:
                expected.refused[position] = "blank_line"
        elif len(cells) != len(names):
            expected.refused[position] = "malformed_line"
        else:
            record = dict(zip(names, cells, strict=True))
            if not record["id"]:
                expected.refused[position] = "required(id)"
            elif not record["id"].isdecimal():
                expected.refused[position] = "wrong_type(id)"
            elif record["amount"] not in AMOUNTS:
                expected.refused[position] = "wrong_type(amount)"
            else:
                extra = {"extra": record["extra"]} if "extra" in record else None
                expected.rows[position] = (
                    int(record["id"]), record["a"], record["b"], AMOUNTS[record["amount"]], extra,
                )  # fmt: skip


def generated(rng: random.Random, source: SourceDialect, number: int, expected: Expected) -> tuple[str, bytes]:
    """One file; its expected result is added to ``expected``."""
    end = rng.choice(["\n", "\r\n", "\r"])
    name = f"{number}.csv"
    text = text_of(rng, source, end, with_errors=number % 10 == 4)
    if number % 10 in (6, 8, 9):
        # DuckDB supports only one kind of line break per file.
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    content = text.encode(source.encoding)
    match number % 20:
        case 0 | 10:
            content = (text.removesuffix(end) + end + f"7{source.separator}{source.quote}open{end}8{end}").encode(
                source.encoding
            )
            expected.files[name] = "open_quote"
        case 1 | 11:
            name += ".gz"
            content = gzip.compress(content[:20]) + gzip.compress(content[20:]) + bytes(512 if number % 3 else 0)
        case 5:
            name += ".bz2"
            content = bz2.compress(content)
        case 2:
            name += ".gz"
            content = gzip.compress(content + rng.randbytes(4000))[:2000]
            expected.files[name] = "corrupt_compression"
        case 7:
            content = b""
            expected.files[name] = "empty_file"
        case 12 if source.encoding != "latin-1":
            content += b"\xff\xfe\xff" if source.encoding == "utf-8" else b"\x00\xd8x"
            expected.files[name] = "not_" + source.encoding.replace("-", "")
        case 3 | 13:
            swapped = str.maketrans(
                {",": source.separator, source.separator: ",", '"': source.quote, source.quote: '"'}
            )
            text = hostile_file(rng).text.translate(swapped)
            content = text.encode(source.encoding)
            expected.hostile[name] = text
            return name, content
    if name not in expected.files:
        expect_records(expected, source, name, text)
        if name.endswith(".csv") and "\r" not in text and number % 10 != 4:
            expected.plain.append(name)
    return name, content


def position_of(row_id: str) -> Position:
    match = ROW_ID.fullmatch(row_id)
    assert match is not None, row_id
    return match[1], int(match[2])


def rows_by_position(rows: list[dict[str, Any]]) -> dict[Position, dict[str, Any]]:
    """The rows by file and line; fails on duplicates."""
    by_position = {position_of(row["_row_id"]): row for row in rows}
    assert len(by_position) == len(rows), "a record is there twice"
    return by_position


def check_source(deployment: Deployment, source: SourceDialect, expected: Expected) -> None:
    bronze = rows_by_position(deployment.table(f"bronze.{source.name}").to_pylist())
    silver = rows_by_position(deployment.table(f"silver.{source.name}").to_pylist())
    refused = rows_by_position(deployment.quarantined(f"silver_{source.name}", "files").to_pylist())
    assert silver.keys() | refused.keys() == bronze.keys()
    assert not silver.keys() & refused.keys()

    files = deployment.quarantined(f"bronze_{source.name}", "files").to_pylist()
    problems = {Path(json.loads(entry["source"])["path"]).name: entry["rules"] for entry in files}
    assert len(problems) == len(files)
    assert {name: rules for name, rules in problems.items() if name not in expected.hostile} == {
        name: [rule] for name, rule in expected.files.items()
    }

    def values(row: dict[str, Any]) -> tuple[Any, ...]:
        rescued = json.loads(row["_rescued"]) if row["_rescued"] else None
        return row["id"], row["a"] or "", row["b"] or "", row["amount"], rescued

    actual = {position: values(row) for position, row in silver.items() if position[0] not in expected.hostile}
    assert actual == expected.rows
    rules = {position: row["rules"] for position, row in refused.items() if position[0] not in expected.hostile}
    assert rules == {position: [rule] for position, rule in expected.refused.items()}

    for name, text in expected.hostile.items():
        if name in problems:
            assert problems[name] == ["open_quote"]
            with pytest.raises(csv.Error):
                source.parsed(text)
        written = Counter((row["id"], row["a"] or "") for position, row in silver.items() if position[0] == name)
        accepted = Counter(
            {(int(cells[0]), cells[1]): count for cells, count in source.accepted(text).items()
             if len(cells) == 2 and cells[0].isdecimal()}
        )  # fmt: skip
        assert written <= accepted, name


def check_ledger(deployment: Deployment, source: SourceDialect, landed: int) -> None:
    bronze, silver = (
        [line for line in deployment.ledger("files") if line["flow"] == f"{layer}_{source.name}"]
        for layer in ("bronze", "silver")
    )
    assert len(bronze) == 4
    assert max(line["files_listed"] for line in bronze) <= 40
    assert sum(line["files_listed"] for line in bronze) == landed
    for line in bronze:
        assert line["files_listed"] == line["files_opened"] + line["files_quarantined"]
    for line in silver:
        assert line["read"] == line["written"] + line["quarantined"]
    written = sum(line["written"] for line in bronze)
    assert written == deployment.table(f"bronze.{source.name}").num_rows == sum(line["read"] for line in silver)


def check_by_duckdb(deployment: Deployment, expected: Expected) -> None:
    """Compare silver of the source `comma` with the rows that DuckDB reads from the same files."""
    assert len(expected.plain) > 20
    by_duckdb: Counter[tuple[Any, ...]] = Counter()
    for name in expected.plain:
        path = deployment.environment.landing / "comma" / name
        (names, *_) = csv.reader([path.read_text(encoding="utf-8").split("\n")[0]])
        query = f"""
            SELECT '{name}', id::INT, coalesce(a, ''), coalesce(b, ''),
                   CASE amount WHEN '1e2' THEN 100 ELSE nullif(amount, '')::DECIMAL(12,2) END
            FROM read_csv('{path}', delim=',', quote='"', escape='"', header=true, all_varchar=true, auto_detect=false,
                          new_line='\\n', strict_mode=true, columns={dict.fromkeys(names, "VARCHAR")})
        """
        by_duckdb.update(duckdb.connect().execute(query).fetchall())
    assert by_duckdb.total() > 100
    silver = deployment.table("silver.comma").to_pylist()
    rows = [(position_of(row["_row_id"])[0], row) for row in silver]
    actual = Counter(
        (name, row["id"], row["a"] or "", row["b"] or "", row["amount"]) for name, row in rows if name in expected.plain
    )
    assert actual == by_duckdb


def test_each_record_of_five_hundred_files_is_in_silver_or_in_quarantine_once(
    deployment: Deployment, spark: Any, declare: Declare, tmp_path: Path
) -> None:
    (tmp_path / "pipelines" / "files.py").write_text(DECLARATION)
    (tmp_path / "spark_jobs" / "files.py").write_text(JOB)
    rng = random.Random(24)
    expected = {source.name: Expected() for source in SOURCES}
    files = [
        (source.name, *generated(rng, source, number, expected[source.name]))
        for number in range(125)
        for source in SOURCES
    ]
    early, late = files[:320], files[320:]
    for folder, name, content in early:
        deployment.land(name, content, folder)

    def land_while_others_are_read() -> None:
        for source in SOURCES:
            offsets = Place(deployment.layout, "files", f"bronze_{source.name}", 1, 0).checkpoint / "offsets" / "0"
            wait_until(offsets.exists, f"the first batch of {source.name}")
            for folder, name, content in late:
                if folder == source.name:
                    deployment.land(name, content, folder)

    feeder = threading.Thread(target=land_while_others_are_read, daemon=True)
    feeder.start()
    states = [[flow.state for flow in deployment.run("files").flows]]
    feeder.join()
    states += [[flow.state for flow in deployment.run("files").flows] for _ in range(2)]

    assert states == [["done"] * 8, ["done"] * 8, ["idle"] * 8]
    for source in SOURCES:
        check_source(deployment, source, expected[source.name])
        check_ledger(deployment, source, landed=125)
    check_by_duckdb(deployment, expected["comma"])
    assert sum(len(each.rows) for each in expected.values()) > 1000
    assert sum(len(each.refused) for each in expected.values()) > 50
    rules = {rule for each in expected.values() for rule in (*each.refused.values(), *each.files.values())}
    assert len(rules) == 10, rules
