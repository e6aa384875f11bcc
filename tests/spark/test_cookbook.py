"""The recipes of docs/guides/cookbook.md, run as they are written there, on small frames."""

from __future__ import annotations

import inspect
import re
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tests.spark.job import changes, job_of
from tidegate.spark.batch import histories
from tidegate.spark.batch.rows import judge_rows
from tidegate.spark.batch.split import Decision
from tidegate.spec import ChangeFeed, Flow, Table
from tidegate.spec.kinds import KINDS

pytestmark = pytest.mark.jvm

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "cookbook.md"


def recipe(title: str) -> dict[str, Any]:
    """What the code block of a section defines."""
    section = GUIDE.read_text(encoding="utf-8").split(f"\n## {title}\n")[1].split("\n## ")[0]
    (block,) = re.findall(r"^```python\n(.*?)^```", section, re.MULTILINE | re.DOTALL)
    defined: dict[str, Any] = {"F": F, "Table": Table, "ChangeFeed": ChangeFeed}
    exec(block, defined)
    assert isinstance(defined["table"], Table)
    return defined


def rows(frame: DataFrame, *columns: str) -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in frame.select(*columns).collect()), key=repr)


def test_every_recipe_has_a_test() -> None:
    titles = re.findall(r"^## (.+)$", GUIDE.read_text(encoding="utf-8"), re.MULTILINE)
    tested = re.findall(r'recipe\("(.+?)"\)', Path(__file__).read_text(encoding="utf-8"))
    assert set(titles) == set(tested)


def test_orders_have_their_customer_or_none_and_the_parameters_are_the_sources(spark: SparkSession) -> None:
    defined = recipe("Join a dimension")
    transform = defined["order_values"]
    flow = Flow(name="gold", sources=defined["sources"], transform="orders:order_values", target=defined["table"])
    assert flow.kind is KINDS["joins"]
    assert list(inspect.signature(transform).parameters) == [feed.name for feed in flow.sources]
    orders = spark.createDataFrame([(1, "a", 5), (2, "z", 7)], "order_id int, customer_id string, amount int")
    customers = spark.createDataFrame([("a", "Ada", "GB", 1)], "customer_id string, name string, country string, n int")
    made = transform(orders, customers)
    assert rows(made, *made.columns) == [(1, "a", 5, "Ada", "GB"), (2, "z", 7, None, None)]


def test_a_pause_of_more_than_30_minutes_begins_a_session(spark: SparkSession) -> None:
    times = [("ada", "10:00"), ("ada", "10:30"), ("ada", "11:01"), ("bob", "10:10")]
    clicks = spark.createDataFrame(times, "user_id string, time string")
    clicks = clicks.withColumn("occurred_at", F.to_timestamp(F.concat(F.lit("2026-01-05 "), "time")))
    made = recipe("Sessions")["sessions"](clicks)
    for column in ("started_at", "ended_at"):
        made = made.withColumn(column, F.date_format(column, "HH:mm"))
    assert rows(made, *made.columns) == [
        ("ada", "10:00", "10:30", 2),
        ("ada", "11:01", "11:01", 1),
        ("bob", "10:10", "10:10", 1),
    ]


def test_a_price_that_stays_makes_no_version_and_none_ends_the_last(spark: SparkSession, tmp_path: Path) -> None:
    defined = recipe("Every version of a row (SCD2)")
    prices = [(1, 5, "ada"), (2, 5, "bob"), (3, 7, "bob"), (4, None, "bob")]
    records = spark.createDataFrame(prices, "changed_at int, price int, changed_by string")
    records = records.withColumns({name: F.lit("s") for name in ("_row_id", "_origin", "sku")})
    flow = Flow(name="silver", source=ChangeFeed("bronze.orders"), transform="orders:prices", target=defined["table"])
    job = job_of(spark, tmp_path, flow)
    versions = histories.with_versions(job, defined["prices"](records)).where("NOT _deleted")
    assert rows(versions, "sku", "valid_from", "valid_to", "price", "changed_by") == [
        ("s", 1, 3, 5, "ada"),
        ("s", 3, 4, 7, "bob"),
    ]


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


def test_a_table_has_the_days_from_its_first_one_on(spark: SparkSession, tmp_path: Path) -> None:
    table = recipe("Limit a table by event time")["table"]
    flow = Flow(name="latest", source=ChangeFeed("silver.orders"), target=table)
    sales = [(1, day, 1, date.fromisoformat(day)) for day in ("2023-12-31", "2024-01-01")]
    batch = changes(spark, "id int, sale_id string, updated_at int, sold_on date", *sales)
    judged = judge_rows(job_of(spark, tmp_path, flow), batch, 0, Decision(quarantined=False, written=False))
    assert judged is not None
    assert judged.prepared.filtered == {"outside(sold_on)": 1}
    assert rows(judged.written, "sale_id") == [("2024-01-01",)]


def test_the_time_of_the_file_is_the_order(spark: SparkSession) -> None:
    defined = recipe("The latest file wins")
    prices = defined["prices"](spark.sql("SELECT TIMESTAMP '2026-01-05 10:00:00' AS _modified_at"))
    assert [at.isoformat() for (at,) in rows(prices, "landed_at")] == ["2026-01-05T10:00:00"]
    assert defined["table"].sequence_by == ("landed_at",)
