"""Undos: rows and quarantine entries are as before a run, where they are still what it made, exactly once."""

from __future__ import annotations

import dataclasses
import json
import shutil
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.deployment import Deployment
from tests.resolved import resolved_flow
from tests.spark import job as orders
from tests.spark.reprocessing.test_backfill import (
    FIRST_DAYS,
    SILVER,
    clean,
    fail,
    land,
    make_job,
    new_code,
    six_orders_of_six_days,
    without,
)
from tidegate.checkpoints.pending_jobs import UNDO
from tidegate.errors import RequestError
from tidegate.lake.layout import run_key
from tidegate.lake.place import FlowPlace, PipelinePlace
from tidegate.ops import store
from tidegate.quarantine.selection import Selection
from tidegate.runs.undo import plan as planning
from tidegate.spark.batch import micro_batch
from tidegate.spark.flow import run_flow
from tidegate.spark.job import Job
from tidegate.spark.lake import tables
from tidegate.spark.reprocessing import backfill, replay, undo, undo_entries
from tidegate.spec import ChangeFeed, Table
from tidegate.store import Address
from tidegate.times.window import Window

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


pytestmark = pytest.mark.jvm

StartState = Callable[[Callable[[Deployment], None]], Deployment]
ALL_DAYS = Window.of_dates("1970-01-01", "1970-01-09", "UTC")


@pytest.fixture
def place(start_state: StartState) -> Path:
    """Six orders of six days in silver; order N has the amount 10 * N, order 3 the amount 31."""
    return start_state(six_orders_of_six_days).environment.lake.parent


def daily(rows: DataFrame) -> DataFrame:
    return rows.groupBy("day").sum("amount").toDF("day", "amount")


def run_as(run_id: str, job: Job, **request: Any) -> Job:
    changed = dataclasses.replace(job.run.request, run_id=run_id, **request)
    return dataclasses.replace(job, run=dataclasses.replace(job.run, request=changed))


def silver(place: Path, transform: Callable[[DataFrame], DataFrame] = clean) -> Job:
    return make_job(place, SILVER, transform)


def increment(place: Path, name: str, *records: tuple[int, int, int]) -> None:
    land(place, name, *records)
    run_flow(run_as(name, make_job(place, orders.BRONZE)))
    run_flow(run_as(name, silver(place)))


def backfill_as(run_id: str, job: Job, window: Window = FIRST_DAYS) -> None:
    backfill.backfill(run_as(run_id, job, mode="backfill"), window)


def planned(job: Job, run: str, undo_id: str, **request: Any) -> Job:
    requested = run_as(undo_id, job, mode="undo", undoes=run, flows=(job.flow.name,), **request)
    decided, _ = planning.plan(job.place.layout, job.resolved.pipeline, requested.run.request)
    return dataclasses.replace(requested, run=dataclasses.replace(requested.run, request=decided))


def undo_as(undo_id: str, job: Job, run: str, **request: Any) -> Job:
    own = planned(job, run, undo_id, **request)
    undo.undo_run(own)
    return own


def amounts(job: Job) -> dict[int, int]:
    return {row["id"]: row["amount"] for row in orders.table(job.live)}


def states(job: Job) -> dict[int, str]:
    return {json.loads(row["record"])["id"]: row["state"] for row in orders.table(job.place.quarantine)}


def undo_lines(job: Job) -> list[dict[str, Any]]:
    path = PipelinePlace(job.place.layout, "orders").ops("ledger")
    return store.select(path, "SELECT * FROM delta_table WHERE kind = 'undo' ORDER BY batch_id")


@pytest.mark.nightly
def test_the_net_change_of_several_commits_ends_where_another_commit_changed_the_row(
    spark: SparkSession, tmp_path: Path
) -> None:
    path = str(tmp_path / "t")
    spark.createDataFrame([(1, 10), (2, 20), (3, 30)], "id int, v int").coalesce(1).write.format("delta").save(path)
    for statement in (
        "UPDATE {0} SET v = v + 1",
        "UPDATE {0} SET v = 100 WHERE id = 2",
        "UPDATE {0} SET v = v + 1 WHERE id < 3",
        "DELETE FROM {0} WHERE id = 1",
        "INSERT INTO {0} VALUES (4, 40)",
        "ALTER TABLE {0} ADD COLUMNS (later string)",
    ):
        spark.sql(statement.format(f"delta.`{path}`"))

    changes = tables.net_changes(spark, Address.local(tmp_path / "t"), [1, 3, 4, 5], ("id",)).collect()

    values = {row["id"]: tuple(row[side] and row[side]["v"] for side in ("before", "after")) for row in changes}
    assert values == {1: (10, None), 2: (100, 101), 3: (30, 31), 4: (None, 40)}


@pytest.mark.parametrize("zone", ["Europe/Berlin", "UTC"])
def test_instants_in_keys_are_listed_in_utc_whatever_zone_the_process_has(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, zone: str
) -> None:
    rows = spark.sql(
        "SELECT * FROM VALUES (TIMESTAMP '2026-10-25T01:30:00.000002Z', 1), (TIMESTAMP '2026-10-25T00:30:00Z', 2) AS rows(at, id)"
    )
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        listed = undo.first_keys(rows, ("at", "id"))
    finally:
        monkeypatch.undo()
        time.tzset()
    assert listed == [
        {"at": "2026-10-25T00:30:00.000000Z", "id": 2},
        {"at": "2026-10-25T01:30:00.000002Z", "id": 1},
    ]


@pytest.mark.nightly
def test_a_backfill_is_undone_where_its_rows_are_still_what_it_made_and_gold_follows(place: Path) -> None:
    gold = make_job(place, orders.GOLD, daily)
    run_flow(gold)
    before = {row["id"]: row for row in orders.table(gold.place.layout.table("silver.orders"))}
    backfill_as("b1", silver(place, new_code))
    increment(place, "later.json", (5, 6, 51))
    run_flow(make_job(place, orders.GOLD, daily))
    assert amounts(silver(place)) == {2: 40, 3: 31, 4: 40, 5: 51, 6: 60}, (
        "order 1 is deleted, 2 and 5 are derived again"
    )
    version = tables.version(gold.spark, silver(place).live)

    tried = undo_as("u0", silver(place), "b1", dry_run=True)
    (line,) = tried.run.report.batches
    assert (line.groups, line.upserted, line.deleted, line.unchanged) == (3, 2, 0, 1)
    assert tables.version(gold.spark, tried.live) == version, "a dry run changes nothing"
    assert undo_lines(tried) == []
    done = undo_as("u1", silver(place), "b1")

    after = {row["id"]: row for row in orders.table(done.live)}
    assert amounts(done) == {1: 10, 2: 20, 3: 31, 4: 40, 5: 51, 6: 60}
    assert [after[key] for key in (1, 2)] == [before[key] for key in (1, 2)], "with order and origin"
    (line,) = done.run.report.batches
    assert (line.kind, line.app_id, line.batch_id) == ("undo", "orders/silver/undo", 0)
    assert (line.groups, line.upserted, line.deleted, line.unchanged) == (3, 2, 0, 1)
    (recorded,) = undo_lines(done)
    assert (recorded["undoes"], recorded["run_key"]) == (run_key("b1"), run_key("u1"))
    assert (recorded["requested_by"], recorded["mode"], recorded["target_version"]) == ("ada", "undo", version + 1)
    listed = json.loads(Path(done.run.place.undone_keys("silver")).read_text())
    assert (listed["put_back"], listed["left"]) == ([{"id": 1}, {"id": 2}], [{"id": 5}])
    assert any("1 row of silver.orders changed after run" in note for note in done.run.report.notes)
    run_flow(make_job(place, orders.GOLD, daily))
    expected = Counter[Any]()
    for row in after.values():
        expected[row["day"]] += row["amount"]
    assert {row["day"]: row["amount"] for row in orders.table(gold.live)} == dict(expected)
    with pytest.raises(RequestError, match=f"was undone already, by run {run_key('u1')}"):
        planned(silver(place), "b1", "u2")

    again = undo_as("u3", silver(place), "u1")
    assert amounts(again) == {2: 40, 3: 31, 4: 40, 5: 51, 6: 60}, "the undo of an undo"


@pytest.mark.nightly
def test_groups_of_a_backfill_are_put_back(place: Path) -> None:
    run_flow(make_job(place, orders.GOLD, daily))
    gold = make_job(place, orders.GOLD, lambda rows: daily(rows).selectExpr("day", "amount + 1000 AS amount"))
    before = orders.table(gold.live)
    backfill_as("b1", gold)
    assert orders.table(gold.live) != before

    done = undo_as("u1", make_job(place, orders.GOLD, daily), "b1")

    assert orders.table(done.live) == before
    assert [(line.groups, line.upserted) for line in done.run.report.batches] == [(2, 2)]


@pytest.mark.nightly
def test_entries_that_a_backfill_created_are_withdrawn_and_entries_that_it_closed_are_open_again(place: Path) -> None:
    backfill_as("b1", silver(place, without(2, 4)), ALL_DAYS)
    backfill_as("b2", silver(place, without(4, 5)), ALL_DAYS)
    assert states(silver(place)) == {2: "replayed", 4: "open", 5: "open"}
    assert sorted(amounts(silver(place))) == [1, 2, 3, 6]

    done = undo_as("u1", silver(place), "b2")

    assert (states(done), sorted(amounts(done))) == ({2: "open", 4: "open", 5: "withdrawn"}, [1, 3, 5, 6])
    (line,) = done.run.report.batches
    assert (line.upserted, line.deleted, line.quarantined, line.closed) == (1, 1, 1, 1)
    assert line.rules == {"refused_2": 1}
    withdrawn = next(row for row in orders.table(done.place.quarantine) if row["state"] == "withdrawn")
    assert (withdrawn["changed_by"], withdrawn["reason"]) == ("ada", "undo 0")
    assert {row["attempts"] for row in orders.table(done.place.quarantine) if row["state"] == "open"} == {0}
    undo_as("u2", silver(place), "b1")
    assert (set(states(done).values()), len(amounts(done))) == ({"withdrawn"}, 6)
    undo_as("u3", silver(place), "u2")
    assert (states(done), sorted(amounts(done))) == ({2: "open", 4: "open", 5: "withdrawn"}, [1, 3, 5, 6])
    backfill_as("b3", silver(place, without(2, 4, 5)), ALL_DAYS)
    assert sorted(amounts(done)) == [1, 3, 6]
    of_order_5 = [row["state"] for row in orders.table(done.place.quarantine) if json.loads(row["record"])["id"] == 5]
    assert sorted(of_order_5) == ["open", "withdrawn"], (
        "a withdrawn entry does not stand for a row that is refused later"
    )


def test_the_entry_of_a_row_that_is_left_stays_as_it_is(place: Path) -> None:
    backfill_as("b1", silver(place, without(2, 4)), ALL_DAYS)
    increment(place, "later.json", (4, 9, 41))

    done = undo_as("u1", silver(place), "b1")

    assert (amounts(done)[2], amounts(done)[4]) == (20, 41)
    assert states(done) == {2: "withdrawn", 4: "open"}, "the refused row of order 4 is not in the table"
    assert [(line.upserted, line.unchanged, line.closed) for line in done.run.report.batches] == [(1, 1, 1)]


@pytest.mark.nightly
def test_a_scope_that_a_newer_record_replaced_is_left_as_a_whole(place: Path) -> None:
    from pyspark.sql import functions as F

    target = Table("silver.legs", keys=("id", "leg"), replace_by=("id",), sequence_by=("at",), event_time="day")
    flow = dataclasses.replace(orders.LATEST, source=ChangeFeed("bronze.orders"), target=target)

    def legs(rows: DataFrame) -> DataFrame:
        return clean(rows).withColumn("leg", F.explode(F.array(F.lit(1), F.lit(2))))

    def fewer(rows: DataFrame) -> DataFrame:
        filtered = (F.col("id") == 3) | ((F.col("id") == 2) & (F.col("leg") == 2))
        return legs(rows).withColumn("_filtered", F.when(filtered, F.lit("no_leg")))

    def job(transform: Callable[[DataFrame], DataFrame]) -> Job:
        own = make_job(place, flow, transform)
        flows = tuple(flow if each.name == flow.name else each for each in own.resolved.pipeline.flows)
        return dataclasses.replace(
            own, resolved=resolved_flow(flow, dataclasses.replace(own.resolved.pipeline, flows=flows))
        )

    def stored() -> list[tuple[Any, ...]]:
        rows = orders.table(job(legs).live)
        return sorted(((row["id"], row["leg"], row["amount"]) for row in rows if row["id"] in (2, 3)), key=repr)

    run_flow(run_as("i1", job(legs)))
    backfill_as("b1", job(fewer), ALL_DAYS)
    assert stored() == [(2, 1, 20), (3, None, None)]
    land(place, "later.json", (2, 9, 21))
    run_flow(run_as("i2", make_job(place, orders.BRONZE)))
    run_flow(run_as("i3", job(fewer)))

    done = undo_as("u1", job(legs), "b1")

    assert stored() == [(2, 1, 21), (3, 1, 31), (3, 2, 31)]
    (line,) = done.run.report.batches
    assert (line.unchanged, line.imbalance()) == (1, 0), "leg 2 of order 2 belongs to the older record"


LEGS = dataclasses.replace(
    orders.LATEST,
    source=ChangeFeed("bronze.orders"),
    target=Table("silver.legs", keys=("id", "leg"), sequence_by=("at",), event_time="day"),
)
"""Several rows of one record, which are not replaced together."""


def legs_of(place: Path, *refused: int) -> Job:
    """The flow that makes the legs 1 and 2 of each order, and only leg 1 from day 9 on. Some orders are refused."""
    from pyspark.sql import functions as F

    numbers = F.when(F.col("at") < 9, F.array(F.lit(1), F.lit(2))).otherwise(F.array(F.lit(1)))
    own = make_job(place, LEGS, lambda rows: without(*refused)(rows).withColumn("leg", F.explode(numbers)))
    flows = tuple(LEGS if each.name == LEGS.name else each for each in own.resolved.pipeline.flows)
    return dataclasses.replace(
        own, resolved=resolved_flow(LEGS, dataclasses.replace(own.resolved.pipeline, flows=flows))
    )


@pytest.mark.nightly
def test_the_rows_of_a_record_with_an_entry_are_put_back_or_left_together_also_after_a_crash(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_flow(run_as("i1", legs_of(place, 2, 4)))
    assert states(legs_of(place)) == {2: "open", 4: "open"}
    backfill_as("b1", legs_of(place), ALL_DAYS)
    land(place, "later.json", (2, 9, 21))
    run_flow(run_as("i2", make_job(place, orders.BRONZE)))
    run_flow(run_as("i3", legs_of(place)))

    def legs() -> dict[tuple[int, int], int]:
        rows = orders.table(legs_of(place).live)
        return {(row["id"], row["leg"]): row["amount"] for row in rows if row["id"] in (2, 4)}

    made = {(2, 1): 21, (2, 2): 20, (4, 1): 40, (4, 2): 40}
    assert (legs(), states(legs_of(place))) == (made, {2: "replayed", 4: "replayed"})
    tried = undo_as("u0", legs_of(place), "b1", dry_run=True)
    with monkeypatch.context() as patched:
        patched.setattr(micro_batch, "write_target", fail)
        with pytest.raises(Exception, match="ConnectionError"):
            undo_as("u1", legs_of(place), "b1")
    assert states(legs_of(place)) == {2: "replayed", 4: "open"}
    (left,) = json.loads(Path(UNDO.path(FlowPlace(legs_of(place).place.layout, "orders", "latest"))).read_text())[
        "left"
    ]
    (entry,) = (row for row in orders.table(legs_of(place).place.quarantine) if row["state"] == "replayed")
    assert left == entry["_row_id"], "decided before the first write"
    done = run_as("next", legs_of(place))
    run_flow(done)

    assert (legs(), states(done)) == ({(2, 1): 21, (2, 2): 20}, {2: "replayed", 4: "open"})
    counts = [(line.groups, line.deleted, line.unchanged, line.quarantined) for line in done.run.report.batches]
    assert counts == [(4, 2, 2, 1)]
    assert [
        (line.groups, line.deleted, line.unchanged, line.quarantined) for line in tried.run.report.batches
    ] == counts
    listed = json.loads(Path(done.run.place.undone_keys("latest")).read_text())
    assert listed["left"] == [{"id": 2, "leg": 1}, {"id": 2, "leg": 2}]
    assert any(note.startswith("1 row left with them") for note in done.run.report.notes)


def test_a_record_is_left_with_the_record_whose_row_it_shares_if_the_run_changed_entries_of_both(
    spark: SparkSession, tmp_path: Path
) -> None:
    columns = "id int, leg int, before struct<_row_id:string>, after struct<_row_id:string>, now struct<_row_id:string>, _state string"
    rows = [
        (1, 1, None, ("a",), ("x",), "changed"),
        (1, 2, ("b",), ("a",), ("a",), "update"),
        (2, 1, ("b",), None, None, "insert"),
        (2, 2, ("c",), ("b",), ("c",), "as_before"),
        (3, 1, ("c",), None, None, "insert"),
        (4, 1, ("no_entry",), ("a",), ("a",), "update"),
        (4, 2, ("no_entry",), None, None, "insert"),
        (5, 1, None, ("d",), ("d",), "delete"),
    ]
    state = spark.createDataFrame(rows, columns)
    job = orders.job_of(spark, tmp_path, LEGS)
    entries = spark.createDataFrame(
        [(each, "update") for each in "abc"] + [("d", "changed")], "_row_id string, _state string"
    )

    left = undo_entries.left_together(job, entries, state)

    assert left == ("a", "b", "d"), "of d, the entry changed since"
    kept = undo_entries.leave(job, state, left).where("_state = 'kept'").collect()
    assert sorted((row["id"], row["leg"]) for row in kept) == [(1, 2), (2, 1), (4, 1), (5, 1)]
    assert undo_entries.left_together(job, None, state) == ()
    job.release()


def keyed_below(limit: int) -> Callable[[DataFrame], DataFrame]:
    """Code that gives rows of higher amounts no key."""
    return lambda rows: clean(rows).selectExpr("* EXCEPT (id)", f"CASE WHEN amount < {limit} THEN id END AS id")


@pytest.mark.nightly
def test_the_undo_of_a_replay_leaves_entries_that_it_returned_and_a_later_backfill_closed(place: Path) -> None:
    land(place, "high.json", (2, 20, 2000), (3, 30, 3000))
    run_flow(make_job(place, orders.BRONZE))
    run_flow(silver(place, keyed_below(1000)))
    replay.replay_entries(run_as("r1", silver(place, keyed_below(2500)), mode="replay"), Selection.check())
    assert states(silver(place)) == {2: "replayed", 3: "open"}
    backfill_as("b1", silver(place), ALL_DAYS)
    assert (states(silver(place))[3], amounts(silver(place))[3]) == ("replayed", 3000)

    done = undo_as("u1", silver(place), "r1")

    assert states(done) == {2: "open", 3: "replayed"}
    assert (amounts(done)[2], amounts(done)[3]) == (20, 3000), "a record is in the table or in quarantine"


def test_a_replay_is_undone_and_later_and_late_rows_are_compared_with_the_order_that_came_back(place: Path) -> None:
    land(place, "high.json", (2, 20, 2000), (3, 30, 3000), (4, 40, 4000))
    run_flow(make_job(place, orders.BRONZE))
    run_flow(silver(place, keyed_below(1000)))
    everything = Selection.check()
    replay.replay_entries(run_as("r1", silver(place), mode="replay"), everything)
    increment(place, "newer.json", (4, 41, 44))
    assert amounts(silver(place)) == {1: 10, 2: 2000, 3: 3000, 4: 44, 5: 50, 6: 60}

    done = undo_as("u1", silver(place), "r1")

    assert amounts(done) == {1: 10, 2: 20, 3: 31, 4: 44, 5: 50, 6: 60}
    assert states(done) == {2: "open", 3: "open", 4: "replayed"}, "order 4 was written and then replaced by a newer row"
    increment(place, "late.json", (2, 10, 22), (3, 1, 33))
    assert (amounts(done)[2], amounts(done)[3]) == (22, 31), "late for the replayed row, newer than the row put back"
    replay.replay_entries(run_as("r2", silver(place), mode="replay"), everything)
    assert (amounts(done)[2], amounts(done)[3]) == (2000, 3000)
    assert set(states(done).values()) == {"replayed"}


@pytest.mark.parametrize(
    "step",
    [
        pytest.param("write_quarantine", marks=pytest.mark.nightly),
        pytest.param("write_target", marks=pytest.mark.nightly),
        pytest.param("record_batch", marks=pytest.mark.nightly),
    ],
)
def test_an_interrupted_undo_is_finished_once_by_the_next_run_if_it_has_written(
    place: Path, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    backfill_as("b1", silver(place, without(2)), ALL_DAYS)
    with monkeypatch.context() as patched:
        patched.setattr(micro_batch, step, fail)
        with pytest.raises(Exception, match="ConnectionError"):
            undo_as("u1", silver(place), "b1")
    has_written = step != "write_quarantine"

    run_flow(run_as("next", silver(place)))

    assert not UNDO.exists(FlowPlace(silver(place).place.layout, "orders", "silver"))
    assert (2 in amounts(silver(place))) is has_written
    assert states(silver(place)) == {2: "withdrawn" if has_written else "open"}
    recorded = [(line["run_key"], line["mode"], line["upserted"], line["closed"]) for line in undo_lines(silver(place))]
    assert recorded == ([(run_key("u1"), "undo", 1, 1)] if has_written else [])
    if has_written:
        retried = run_as("u1", silver(place), mode="undo", undoes=run_key("b1"), flows=("silver",))
        undo.undo_run(retried)
        assert (retried.run.report.batches, retried.run.report.notes) == ([], [undo.ALREADY_DONE])


@pytest.mark.nightly
def test_removed_change_files_are_told_before_the_job_starts(place: Path) -> None:
    backfill_as("b1", silver(place, new_code))
    shutil.rmtree(silver(place).live / "_change_data")

    with pytest.raises(
        RequestError, match=r"changes of backfill 0 of silver \(version 1 of .*removed, possibly by VACUUM"
    ):
        planned(silver(place), "b1", "u1")
