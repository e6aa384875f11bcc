"""A pipeline that was drafted from a sample reads that sample, and the columns of files that it may use."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.spark.orders import Declare, Orders
from tidegate.cli import sample
from tidegate.cli.draft import Draft

pytestmark = pytest.mark.jvm

EARLIER = 1_767_600_000
GERMAN = (
    "Order ID;order_no;Betrag;Tag;aktiv\n"
    "first;1;1.234,50;05.01.2026;Y\n"
    "second;2;2,50;06.01.2026;N\n"
    "third;3;NA;06.01.2026;N\n"
)


def test_the_sample_passes_and_a_later_file_wins(orders: Orders, declare: Declare, tmp_path: Path) -> None:
    first = orders.deployment.land("1.csv", GERMAN, "orders")
    os.utime(first, (EARLIER, EARLIER))
    drafted = Draft.of(sample.of_file(first), of_topic=False)
    declare()
    text = drafted.pipeline("orders", "orders")
    # Great Expectations is tested elsewhere, and imports slowly.
    (tmp_path / "pipelines" / "orders.py").write_text(text.replace('gate=Gate("orders/silver"),', ""))
    partitions = 'F.col("_partitions")["year"].alias("year"),\n        F.when('
    (tmp_path / "spark_jobs" / "orders.py").write_text(drafted.job("orders").replace("F.when(", partitions, 1))
    later = GERMAN.splitlines()[0] + "\nlater;2;7,00;06.01.2026;Y\n"
    orders.deployment.land("year=2026/2.csv", later, "orders")
    orders.run("bronze", "silver")

    rows = {row["order_no"]: row for row in orders.deployment.table("silver.orders").to_pylist()}
    assert {number: row["betrag"] for number, row in rows.items()} == {1: Decimal("1234.50"), 2: Decimal(7), 3: None}
    assert [rows[number]["order_id"] for number in (1, 2, 3)] == ["first", "later", "third"]
    assert (rows[1]["aktiv"], rows[1]["tag"].isoformat(), rows[2]["year"], rows[1]["year"]) == (
        True,
        "2026-01-05",
        "2026",
        None,
    )
    assert rows[1]["landed_at"] == datetime.fromtimestamp(EARLIER, UTC)
    assert not orders.deployment.layout.quarantine("orders", "silver").exists()
    drafted_test: dict[str, Any] = {}
    exec(drafted.test("orders"), drafted_test)
    drafted_test["test_a_record_becomes_one_row_with_its_key"]()
