"""A pipeline that was drafted from a sample parses that sample, and its transform makes the columns that were guessed."""

from __future__ import annotations

import os
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
    os.utime(path, (EARLIER, EARLIER))
    drafted = Draft.of(sample.of_file(Address.local(path)), of_topic=False)
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
    rows = [row.asDict(recursive=True) for row in made]
    assert [row["_origin"]["broken"] for row in rows] == [[]] * len(rows), "no record goes to quarantine"
    return [{name: value for name, value in row.items() if not name.startswith("_")} for row in rows]


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
