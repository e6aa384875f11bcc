"""A pipeline that was drafted from a sample parses that sample, and its transform makes the columns that were guessed."""

from __future__ import annotations

import csv
import json
import os
import random
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from tidegate.lake.file_id import FileId
from tidegate.scaffolding import sample
from tidegate.scaffolding.draft import Draft
from tidegate.spark.intake import landing, parse
from tidegate.store import Address

pytestmark = pytest.mark.jvm

EARLIER = 1_767_600_000
GERMAN = (
    "Order ID;order_no;Betrag;Tag;aktiv\n"
    "first;1;1.234,50;05.01.2026;Y\n"
    "second;2;2,50;06.01.2026;N\n"
    "third;3;NA;06.01.2026;N\n"
)


def drafted_rows(spark: SparkSession, path: Path, content: str) -> list[dict[str, Any]]:
    """The rows of silver, as the drafted pipeline makes them of its sample."""
    path.write_text(content)
    rows = rows_of(spark, path, Draft.of(sample.of_file(Address.local(path)), of_topic=False))
    assert [row["_origin"]["broken"] for row in rows] == [[]] * len(rows), "no record goes to quarantine"
    return [{name: value for name, value in row.items() if not name.startswith("_")} for row in rows]


def rows_of(spark: SparkSession, path: Path, drafted: Draft) -> list[dict[str, Any]]:
    """The rows of silver with the platform's columns."""
    os.utime(path, (EARLIER, EARLIER))
    declared: dict[str, Any] = {}
    code: dict[str, Any] = {}
    exec(drafted.pipeline("orders", "orders"), declared)
    exec(drafted.job("orders"), code)
    source = declared["pipeline"].flow("bronze").source
    persisted: list[DataFrame] = []
    files = landing.read_files(spark, [FileId(str(path), EARLIER * 1000)], source, landing.BatchValues(0, 0), persisted)
    made = code["clean"](parse.parse(files.rows(spark, files.files), source).rows).orderBy("_row_id").collect()
    for frame in persisted:
        frame.unpersist()
    return [row.asDict(recursive=True) for row in made]


def test_the_spellings_of_a_delimited_file_become_values(spark: SparkSession, tmp_path: Path) -> None:
    first, _, third = drafted_rows(spark, tmp_path / "x.csv", GERMAN)
    assert first.pop("landed_at").astimezone(UTC) == datetime.fromtimestamp(EARLIER, UTC)
    assert first == {
        "order_id": "first",
        "order_no": 1,
        "betrag": Decimal("1234.50"),
        "tag": date(2026, 1, 5),
        "aktiv": True,
        "rescued": None,
    }
    assert (third["order_no"], third["betrag"]) == (3, None)


def test_names_that_a_schema_cannot_have_are_columns(spark: SparkSession, tmp_path: Path) -> None:
    rows = drafted_rows(spark, tmp_path / "x.csv", ",rescued,a$b,1st,select\n0,x,1,y,2026-01-05\n1,y,2,z,2026-01-06\n")
    shown = [{name: row[name] for name in ("field", "rescued_2", "a_b", "field_1st", "select")} for row in rows]
    assert shown[0] == {
        "field": 0,
        "rescued_2": "x",
        "a_b": 1,
        "field_1st": "y",
        "select": date(2026, 1, 5),
    }


def test_nested_json_and_names_that_differ_in_case_are_columns(spark: SparkSession, tmp_path: Path) -> None:
    nested = '{"_id": "k", "A": "x", "a": 1, "tags": ["t"], "who": {"first name": "b", "Age": 2}}\n'
    (row,) = drafted_rows(spark, tmp_path / "x.json", nested)
    assert (row["id"], row["a"], row["a_2"], row["tags"]) == ("k", "x", 1, ["t"])
    assert row["who"] == {"first_name": "b", "Age": 2}


USUAL: tuple[Callable[[random.Random], Any], ...] = (
    lambda chance: chance.randrange(1_000),
    lambda chance: chance.randrange(10**9, 10**12),
    lambda chance: round(chance.uniform(0, 100), 2),
    lambda chance: f"{chance.uniform(0, 100):.2f}",
    lambda chance: chance.random() < 0.5,
    lambda chance: f"2026-01-{chance.randint(1, 28):02}",
    lambda chance: f"2026-01-05T{chance.randint(0, 23):02}:30:00Z",
    lambda chance: chance.choice(["open", "paid", "sent"]),
)
ODD = [
    "a lot", "", "n/a", "007", "+1", "1e3", "1e400", "12.345678", "99999999999999999999", "yes", "true", "2026-02-30", "2026-01-31T24:00",
    "2026-01-31 12:30", "2026-01-31T12:30+19:00", "2026-01-31T12:60Z", "12:30", 7.5, 2**63, 1e300, -1, True, None, [], {}, [1], {"a": 1},
]  # fmt: skip


def random_value(chance: random.Random, usual: Any, depth: int) -> Any:
    if depth == 0:
        return usual(chance)
    if depth == 1:
        return {"x": usual(chance), "y": random_value(chance, usual, 0)}
    return [{"x": usual(chance)} for _ in range(chance.randrange(3))]


def random_records(chance: random.Random, nested: bool) -> list[dict[str, Any]]:
    """Records of one shape, of which few fields have one or two odd values, also within a nested value."""
    makers = [(chance.choice(USUAL), chance.randrange(3) if nested else 0) for _ in range(12)]
    made = [
        {"id": f"A-{number}", **{f"c{index}": random_value(chance, *maker) for index, maker in enumerate(makers)}}
        for number in range(100, 100 + chance.choice([6, 30]))
    ]
    for index, (_, depth) in enumerate(makers):
        for _ in range(chance.choice([0, 1, 1, 2])):
            name, odd = f"c{index}", chance.choice(ODD)
            record = chance.choice(made)
            inside = chance.random() < 0.5
            record[name] = {0: odd, 1: {"x": odd}, 2: [{"x": odd}]}[depth] if inside else odd
    return made


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_the_values_that_spark_rescues_are_the_misfits_that_the_draft_names(
    spark: SparkSession, tmp_path: Path, kind: str, seed: int
) -> None:
    records = random_records(random.Random(f"{kind} {seed}"), nested=kind != "csv")
    path = tmp_path / f"x.{kind}"
    with path.open("w", newline="") as file:
        if kind == "csv":
            writer = csv.DictWriter(file, [*records[0]], extrasaction="raise")
            writer.writeheader()
            writer.writerows(
                {name: json.dumps(v) if isinstance(v, bool | list | dict) else v for name, v in each.items()}
                for each in records
            )
        else:
            file.writelines(f"{json.dumps(each)}\n" for each in records)
    drafted = Draft.of(sample.of_file(Address.local(path)), of_topic=False)

    rows = sorted(rows_of(spark, path, drafted), key=lambda row: str(row["id"]))

    refused = {
        (record, rule.partition("(")[2].strip(")"))
        for record, row in enumerate(rows)
        for rule in row["_origin"]["broken"]
    }
    assert refused == {
        (record, each.column) for each in drafted.fields if each.column in drafted.required for record in each.missing
    }
    others = [each for each in drafted.fields if each.column not in drafted.required]
    rescued = {(record, name) for record, row in enumerate(rows) for name in json.loads(row["rescued"] or "{}")}
    assert rescued == {(odd.record, each.column) for each in others for odd in each.guess.misfits}
    empty = {
        (record, each.column) for each in others for record, value in enumerate(each.values) if value in (None, "")
    }
    lost = {(record, each.column) for each in others for record, row in enumerate(rows) if row[each.column] is None}
    assert lost <= rescued | empty
