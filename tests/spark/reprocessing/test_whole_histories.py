"""The history of a table of landed files: late records, a backfill, its undo and a new version, as whole runs of the flow."""

from __future__ import annotations

import dataclasses
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.resolved import resolved_flow
from tests.spark import job as orders
from tests.spark.reprocessing.test_backfill import (
    FIRST_DAYS,
    StartState,
    Transform,
    clean,
    land,
    make_job,
    six_orders_of_six_days,
)
from tests.spark.reprocessing.test_undo import backfill_as, run_as, undo_as
from tidegate.spark.flow import run_flow
from tidegate.spark.job import Job
from tidegate.spec import ChangeFeed, Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

pytestmark = [pytest.mark.jvm, pytest.mark.nightly, pytest.mark.usefixtures("several_tasks")]

HISTORY = dataclasses.replace(
    orders.LATEST,
    source=ChangeFeed("bronze.orders"),
    target=Table(
        "silver.kept", keys=("id",), sequence_by=("at",), history="scd2", untracked=("day",), event_time="day"
    ),
)


@pytest.fixture
def place(start_state: StartState) -> Path:
    """Order N has day N and amount 10 * N; order 1 has the amount 5 on day 0, order 3 the amount 31 on day 7."""
    return start_state(six_orders_of_six_days).environment.lake.parent


def history(place: Path, transform: Transform = clean, version: int = 1) -> Job:
    flow = dataclasses.replace(HISTORY, checkpoint_version=version)
    own = make_job(place, flow, transform, version=version)
    return dataclasses.replace(own, resolved=resolved_flow(flow, own.resolved.pipeline))


def expect_gold_to_follow(place: Path) -> None:
    """Run a group flow that counts the present versions by amount, from the change feed of the history."""
    flow = dataclasses.replace(
        orders.GOLD, source=ChangeFeed("silver.kept"), target=Table("gold.kept", keys=("amount",))
    )
    own = make_job(place, flow, lambda rows: rows.where("valid_to IS NULL").groupBy("amount").count())
    flows = tuple(HISTORY if each.name == "latest" else each for each in own.resolved.pipeline.flows)
    own = dataclasses.replace(
        own, resolved=resolved_flow(flow, dataclasses.replace(own.resolved.pipeline, flows=flows))
    )
    run_flow(own)
    present = Counter(row[3] for row in versions(place, *range(1, 7)) if row[2] is None)
    assert {row["amount"]: row["count"] for row in orders.table(own.live)} == present


def increment(place: Path, name: str, *records: tuple[int, int, int], transform: Transform = clean) -> None:
    land(place, f"{name}.json", *records)
    run_flow(run_as(f"{name}-bronze", make_job(place, orders.BRONZE)))
    run_flow(run_as(name, history(place, transform)))


def versions(place: Path, *ids: int) -> list[tuple[Any, ...]]:
    names = ("id", "valid_from", "valid_to", "amount")
    rows = [row for row in orders.table(history(place).live) if not row["_deleted"] and row["id"] in ids]
    return sorted((tuple(row[name] for name in names) for row in rows), key=lambda row: row[:2])


def one_less(rows: DataFrame) -> DataFrame:
    """Deletes order 2, and gives orders from day 1 to 4 the amount 7."""
    return clean(rows).selectExpr(
        "* EXCEPT (amount)", "CASE WHEN at BETWEEN 1 AND 4 THEN 7 ELSE amount END AS amount", "id = 2 AS _deleted"
    )


def test_a_backfill_of_a_history_is_undone_per_key_and_a_new_version_finds_the_same(place: Path) -> None:
    run_flow(run_as("first", history(place)))
    increment(place, "late", (1, 3, 9), (2, 6, 20), (3, 5, 30))
    before = [
        *((1, 0, 1, 5), (1, 1, 3, 10), (1, 3, None, 9)),
        *((2, 2, None, 20),),
        *((3, 3, 7, 30), (3, 7, None, 31)),
    ]
    assert versions(place, 1, 2, 3) == before, "records that repeat the amount make no version"
    expect_gold_to_follow(place)

    backfill_as("b1", history(place, one_less), FIRST_DAYS)

    assert versions(place, 1, 2, 3) == [(1, 0, 1, 5), (1, 1, None, 7), (3, 3, 7, 30), (3, 7, None, 31)]
    increment(place, "later", (1, 9, 7))
    expect_gold_to_follow(place)

    undone = undo_as("u1", history(place), "b1")

    (line,) = undone.run.report.batches
    assert line.imbalance() == 0
    assert versions(place, 1, 2) == [(1, 0, 1, 5), (1, 1, None, 7), (2, 2, None, 20)], "order 1 has a record since"
    (note,) = [note for note in undone.run.report.notes if "left as they are" in note]
    assert note.startswith("2 rows of silver.kept changed after run")
    expect_gold_to_follow(place)
    kept = versions(place, 1, 2, 3, 4, 5, 6)

    run_flow(run_as("v2", history(place, version=2)))

    assert versions(place, 1, 2, 3, 4, 5, 6) == [(1, 0, 1, 5), (1, 1, 3, 10), (1, 3, 9, 9), (1, 9, None, 7), *kept[2:]]
    expect_gold_to_follow(place)
