"""The recipes of docs/guides/cookbook.md, run as they are written there, on small frames."""

from __future__ import annotations

import re
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidegate.spec import Table

pytestmark = pytest.mark.jvm

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "cookbook.md"


def recipe(title: str) -> dict[str, Any]:
    """What the code block of a section defines."""
    section = GUIDE.read_text(encoding="utf-8").split(f"\n## {title}\n")[1].split("\n## ")[0]
    (block,) = re.findall(r"^```python\n(.*?)^```", section, re.MULTILINE | re.DOTALL)
    defined: dict[str, Any] = {"F": F, "Table": Table}
    exec(block, defined)
    assert isinstance(defined["table"], Table)
    return defined


def rows(frame: DataFrame, *columns: str) -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in frame.select(*columns).collect()), key=repr)


def test_every_recipe_has_a_test() -> None:
    titles = re.findall(r"^## (.+)$", GUIDE.read_text(encoding="utf-8"), re.MULTILINE)
    tested = re.findall(r'recipe\("(.+?)"\)', Path(__file__).read_text(encoding="utf-8"))
    assert set(titles) == set(tested)


def test_a_record_is_exploded_and_one_without_items_is_kept(spark: SparkSession) -> None:
    orders = spark.sql(
        "SELECT * FROM VALUES ('r1', 'o', 'A', 1, array('x', 'y')), ('r2', 'o', 'B', 1, array()), ('r3', 'o', 'C', 1, NULL) "
        "AS t(_row_id, _origin, order_id, updated_at, items)"
    )
    items = recipe("Explode a record, and replace its rows by parent")["items"](orders)
    assert rows(items, "order_id", "item", "sku", "_filtered") == [
        ("A", 0, "x", None),
        ("A", 1, "y", None),
        ("B", None, None, "no_items"),
        ("C", None, None, "no_items"),
    ]


def test_views_are_counted_in_buckets_of_30_minutes(spark: SparkSession) -> None:
    times = ("10:00:00", "10:29:59", "10:30:00")
    clicks = spark.createDataFrame([("/", f"2026-01-05 {time}") for time in times], "page string, occurred_at string")
    defined = recipe("30-minute buckets")
    counted = defined["views"](defined["with_bucket"](clicks.withColumn("occurred_at", F.to_timestamp("occurred_at"))))
    shown = counted.withColumn("bucket", F.date_format("bucket", "HH:mm"))
    assert rows(shown, "bucket", "views") == [("10:00", 2), ("10:30", 1)]


def test_equal_records_have_the_same_key_and_others_do_not(spark: SparkSession) -> None:
    readings = spark.createDataFrame(
        [("a", 1, 1.5), ("a", 1, 1.5), ("a", 1, None), ("a", 2, 1.5)], "sensor string, measured_at int, value double"
    )
    keys = [key for (key,) in rows(recipe("Deduplicate")["readings"](readings), "reading_id")]
    assert len(keys) == 4
    assert len(set(keys)) == 3


def test_a_pivot_has_the_named_columns_whatever_the_rows_have(spark: SparkSession) -> None:
    events = spark.createDataFrame([(1, "view"), (1, "view"), (1, "other"), (2, "click")], "day int, kind string")
    assert rows(recipe("Pivot")["events"](events), "day", "views", "clicks", "purchases") == [
        (1, 2, 0, 0),
        (2, 0, 1, 0),
    ]


def test_a_masked_column_keeps_its_first_letter_and_a_hash(spark: SparkSession) -> None:
    customers = spark.createDataFrame([("ada@example.org",), ("ADA@example.org",), (None,)], "email string")
    masked = rows(recipe("Mask a column")["masked"](customers), "email", "email_hash")
    assert sorted(str(email) for email, _ in masked) == ["A***@example.org", "None", "a***@example.org"]
    assert len({digest for email, digest in masked if email}) == 1


def test_folders_of_partitions_become_a_day(spark: SparkSession) -> None:
    sales = spark.sql("SELECT map('year', '2024', 'month', '03') AS _partitions UNION ALL SELECT map('year', 'x')")
    assert rows(recipe("Folders of partitions")["sales"](sales), "month") == [(None,), (date(2024, 3, 1),)]


def test_the_time_of_the_file_is_the_order(spark: SparkSession) -> None:
    defined = recipe("The latest file wins")
    prices = defined["prices"](spark.sql("SELECT TIMESTAMP '2026-01-05 10:00:00' AS _modified_at"))
    assert [at.isoformat() for (at,) in rows(prices, "landed_at")] == ["2026-01-05T10:00:00"]
    assert defined["table"].sequence_by == ("landed_at",)
