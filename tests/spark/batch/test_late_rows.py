"""Late rows: which rows of a batch are late, that reruns find the same ones, and that none is in two tables or in none."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import pytest

from tests.crashes import Crash, crash_after
from tests.spark.job import job_of, plan_batch, reading, table
from tidegate.errors import CheckpointCorruptError, RequestError, SpecError
from tidegate.lake.place import PipelinePlace
from tidegate.ops import heartbeats
from tidegate.ops.heartbeats import Heartbeat
from tidegate.quarantine.selection import Selection
from tidegate.reports.ledger_line import LedgerLine
from tidegate.spark.batch import micro_batch
from tidegate.spark.batch.rows import split_rows
from tidegate.spark.reprocessing.replay import Replay, replay_entries
from tidegate.spec import ChangeFeed, FileSource, Flow, Table, Watermark
from tidegate.times import dates

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tidegate.spark.job import Job

pytestmark = pytest.mark.jvm

SOURCE = FileSource(path="orders", format="json", schema="id INT, time TIMESTAMP, amount INT")
TIMED = Flow(
    name="silver",
    source=ChangeFeed("bronze.orders"),
    target=Table("silver.orders", event_time="time"),
    transform="orders:timed",
    watermark=Watermark(delay="10 minutes", skew="5 minutes"),
)
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
_FEED = (
    "_row_id string, line string, _header string, _modified_at timestamp, _path string, _line_number bigint, "
    "_ingested_at timestamp, _batch_id bigint, _change_type string, _commit_version bigint"
)


def minute(minutes: float) -> datetime:
    """A time after noon."""
    return NOON + timedelta(minutes=minutes)


def record(number: int, minutes: float | None, amount: int = 1) -> str:
    time = None if minutes is None else minute(minutes).isoformat()
    return json.dumps({"id": number, "time": time, "amount": amount})


def feed(spark: SparkSession, *batches: tuple[float, list[str]]) -> DataFrame:
    """The change feed of bronze with these batches: the minute at which each came, and its records.

    The batch of minute 1.0 is the tenth commit.
    """
    rows = [
        (f"{at}#{number}", line, None, NOON, f"/{at}", number, minute(at), int(at * 10), "insert", int(at * 10))
        for at, lines in batches
        for number, line in enumerate(lines)
    ]
    return spark.createDataFrame(rows, _FEED).coalesce(1)


@pytest.fixture
def timed(spark: SparkSession, tmp_path: Path) -> Callable[..., Job]:
    """Makes a job of the flow, with a transform that keeps rows as they are."""

    def make(transform: Any = None, **more: Any) -> Job:
        flow = dataclasses.replace(TIMED, **{name: more.pop(name) for name in ("watermark",) if name in more})
        job = job_of(spark, tmp_path, flow, transform=transform or (lambda rows: rows), **more)
        return reading(job, SOURCE)

    return make


def run(job: Job, batch_id: int, *batches: tuple[float, list[str]]) -> LedgerLine:
    """Run a micro-batch with these batches of bronze and return its ledger line."""
    plan_batch(job, batch_id)
    rows = feed(job.spark, *batches)
    micro_batch.run_steps(job, batch_id, lambda decision: split_rows(job, rows, batch_id, decision))
    return job.run.report.batches[-1]


def late(job: Job) -> list[tuple[int, float]]:
    """Of each late row the id, and how late it was in seconds."""
    return sorted((row["id"], row["_late_seconds"]) for row in table(job.place.late))


def written(job: Job) -> list[int]:
    return sorted(row["id"] for row in table(job.target))


def refused(job: Job) -> dict[str, list[str]]:
    return {row["_row_id"]: row["rules"] for row in table(job.place.quarantine)}


FIRST = (1.0, [record(1, 0), record(2, -30)])
SECOND = (2.0, [record(3, -10), record(4, -10.5), record(5, 1)])
THIRD = (3.0, [record(6, -10), record(7, -8)])


def test_rows_before_the_watermark_of_their_batch_of_bronze_go_to_the_late_table(
    timed: Callable[..., Job],
) -> None:
    job = timed()

    line = run(job, 0, FIRST, SECOND, THIRD)

    assert (line.read, line.written, line.late) == (7, 5, 2), "a row exactly at the watermark is not late"
    assert line.watermark == minute(-9)
    assert late(job) == [(4, 30.0), (6, 60.0)]
    assert written(job) == [1, 2, 3, 5, 7]
    [recorded] = table(PipelinePlace(job.place.layout, "orders").ops("ledger"))
    assert (recorded["late"], recorded["watermark"]) == (2, minute(-9))
    row = next(row for row in table(job.place.late) if row["id"] == 4)
    assert (row["_row_id"], row["_watermark"], row["_ingested_at"]) == ("2.0#1", minute(-10), minute(2))
    assert (row["_app_id"], row["_batch_id"], row["amount"]) == ("orders/silver/v1/0", 0, 1)


@pytest.mark.nightly
def test_the_same_rows_are_late_however_batches_of_bronze_are_divided_into_batches_of_the_flow(
    timed: Callable[..., Job],
) -> None:
    job = timed()

    lines = [run(job, number, batch) for number, batch in enumerate((FIRST, SECOND, THIRD))]

    assert late(job) == [(4, 30.0), (6, 60.0)]
    assert [line.watermark for line in lines] == [minute(-10), minute(-9), minute(-9)]
    assert [line.late for line in lines] == [0, 1, 1]


@pytest.mark.nightly
def test_refused_and_filtered_rows_are_not_late_and_a_row_ahead_of_the_clock_does_not_move_the_watermark(
    timed: Callable[..., Job],
) -> None:
    job = timed(lambda rows: rows.selectExpr("*", "IF(amount = 9, 'test', NULL) AS _filtered"))

    first = (1.0, [record(1, 6.01), record(2, None), record(3, 6), record(4, -5)])
    line = run(job, 0, first, (2.0, [record(5, -5), record(6, -20, 9)]))

    assert refused(job) == {"1.0#0": ["ahead_of_clock(time)"], "1.0#1": ["null_event_time(time)"]}
    assert (line.written, line.quarantined, line.late, line.filtered) == (2, 2, 1, {"test": 1})
    assert (written(job), late(job), line.watermark) == ([3, 4], [(5, 60.0)], minute(-4))


@pytest.mark.nightly
def test_of_a_source_row_with_a_late_output_row_all_output_rows_are_late_unless_one_is_refused(
    timed: Callable[..., Job],
) -> None:
    from pyspark.sql import functions as F

    def both(rows: DataFrame) -> DataFrame:
        """The row itself, and one at the time of the last batch; without time if the amount is 9."""
        legs = rows.withColumn("leg", F.explode(F.array(F.lit(0), F.lit(1))))
        last = F.when(F.col("amount") != 9, F.lit(minute(0)))
        return legs.withColumn("time", F.when(F.col("leg") == 0, F.col("time")).otherwise(last))

    job = timed(both)

    line = run(job, 0, (1.0, [record(1, 0)]), (2.0, [record(2, -20), record(3, -20, 9), record(4, -1)]))

    assert (line.read, line.written, line.late, line.quarantined) == (4, 2, 1, 1)
    assert late(job) == [(2, 0.0), (2, 600.0)]
    assert written(job) == [1, 1, 4, 4]


@pytest.mark.nightly
def test_a_rerun_after_a_crash_puts_each_row_where_the_first_attempt_did(timed: Callable[..., Job]) -> None:
    """A refused row that is newer than the others does not move the watermark: the rerun leaves it out before the transform."""
    job = timed(
        suite=[
            {
                "type": "expect_column_values_to_be_between",
                "kwargs": {"column": "amount", "max_value": 8, "mostly": 0.5},
            }
        ]
    )

    for number, step in enumerate(("write_quarantine", "write_late")):
        crashing = crash_after(getattr(micro_batch, step))
        at = 100.0 * (number + 1)
        batches = (
            (at, [record(10 + number, at), record(50 + number, at + 4, 9)]),
            (at + 1, [record(20 + number, at - 10), record(30 + number, at - 11), record(40 + number, None)]),
        )
        with patch.object(micro_batch, step, crashing), pytest.raises(Crash):
            run(job, number, *batches)
        line = run(job, number, *batches)

        assert (line.read, line.written, line.late, line.quarantined, line.watermark) == (5, 2, 1, 2, minute(at - 10))
        assert late(job)[number:] == [(30 + number, 60.0)]
        assert written(job) == [*range(10, 11 + number), *range(20, 21 + number)]
        assert len(refused(job)) == 2 * (number + 1)

    lines = table(PipelinePlace(job.place.layout, "orders").ops("ledger"))
    assert sorted((line["batch_id"], line["late"]) for line in lines) == [(0, 1), (1, 1)]


def test_once_late_rows_are_written_a_rerun_refuses_no_row_and_finds_no_other_row_late(
    timed: Callable[..., Job],
) -> None:
    """No row of the batch is refused, so that only the late table tells that its split is decided."""
    with patch.object(micro_batch, "write_target", side_effect=Crash), pytest.raises(Crash):
        run(timed(), 0, FIRST, SECOND, THIRD)
    suite = [{"type": "expect_column_values_to_be_between", "kwargs": {"column": "id", "max_value": 4}}]
    job = timed(watermark=Watermark(delay="20 minutes"), suite=suite)

    line = run(job, 0, FIRST, SECOND, THIRD)

    assert (line.written, line.late, line.quarantined) == (5, 2, 0)
    assert (late(job), written(job), refused(job)) == ([(4, 30.0), (6, 60.0)], [1, 2, 3, 5, 7], {})


@pytest.mark.nightly
def test_an_edited_transform_lets_no_row_in_that_is_late_by_it_once_late_rows_are_written(
    timed: Callable[..., Job],
) -> None:
    with patch.object(micro_batch, "write_target", side_effect=Crash), pytest.raises(Crash):
        run(timed(), 0, FIRST, SECOND)
    edited = timed(
        lambda rows: rows.selectExpr(
            "* EXCEPT (time)", "time - IF(id = 5, INTERVAL 12 MINUTES, INTERVAL 0 MINUTES) AS time"
        )
    )

    with pytest.raises(SpecError, match="rows that were not late then are with today's transform"):
        run(edited, 0, FIRST, SECOND)

    assert run(timed(), 0, FIRST, SECOND).late == 1


@pytest.mark.nightly
def test_a_late_table_one_batch_ahead_of_its_checkpoint_is_an_error(timed: Callable[..., Job]) -> None:
    job = timed()
    run(job, 0, FIRST)
    with patch.object(micro_batch, "write_target", side_effect=Crash), pytest.raises(Crash):
        run(job, 1, SECOND)

    with pytest.raises(CheckpointCorruptError, match="its late table has batch 1 of orders/silver/v1/0"):
        run(job, 0, FIRST)


@pytest.mark.nightly
def test_an_entry_that_is_replayed_is_compared_with_the_present_watermark(timed: Callable[..., Job]) -> None:
    job = timed()
    run(job, 0, FIRST, SECOND)
    entries = ({"_row_id": "1.0#0", "source": "{}"}, {"_row_id": "1.0#1", "source": "{}"})
    replay = job.doing(Replay(by="ada", number=0, started_ms=0, entries=entries))

    line = run(replay, 0, (1.0, [record(8, -9), record(9, -9.5)]))

    assert (line.kind, line.written, line.late, line.watermark) == ("append", 1, 1, minute(-9))
    assert late(job) == [(4, 30.0), (9, 30.0)]


def test_no_replay_begins_while_a_batch_is_half_written(timed: Callable[..., Job]) -> None:
    """The watermark after its rows is not recorded, and replayed rows enter the table after them."""
    job = timed()
    with patch.object(micro_batch, "record_batch", side_effect=Crash), pytest.raises(Crash):
        run(job, 0, (1.0, [record(1, 0), record(2, None)]))

    with pytest.raises(RequestError, match="batch 0 is half-written"):
        replay_entries(job, Selection())

    run(job, 0, (1.0, [record(1, 0), record(2, None)]))
    Path(job.place.checkpoint / "commits").mkdir()
    Path(job.place.checkpoint / "commits" / "0").write_text("v1\n{}")
    replay_entries(job, Selection(rule="none"))


@pytest.mark.parametrize(("at", "version"), [(dates.micros(minute(-3000)), 10), (dates.micros(minute(1.5)), None)])
def test_a_heartbeat_counts_as_a_commit_of_bronze(timed: Callable[..., Job], at: int, version: int | None) -> None:
    """Of one of an earlier release only the time is known."""
    job = timed()
    heartbeats.create(job.place)
    between = Heartbeat(event_time=dates.micros(minute(5)), at=at, app_id="an earlier one", version=version)
    heartbeats.append(job.place, between)

    line = run(job, 0, FIRST, SECOND)

    assert late(job) == [(3, 300.0), (4, 330.0)], "the first batch came before it"
    assert line.watermark == minute(-5)


@pytest.mark.nightly
def test_a_heartbeat_that_came_after_a_batch_of_bronze_does_not_make_its_rows_late(
    timed: Callable[..., Job],
) -> None:
    """As in a refresh, which reads again what an earlier checkpoint read before its heartbeats."""
    job = timed()
    heartbeats.create(job.place)
    later = Heartbeat(event_time=dates.micros(minute(60)), at=0, app_id="an earlier one", version=20)
    heartbeats.append(job.place, later)

    lines = [run(job, number, batch) for number, batch in enumerate((FIRST, SECOND))]
    own = dataclasses.replace(later, version=21, app_id=job.app_id)
    heartbeats.append(job.place, own)
    lines.append(run(job, 2, THIRD))

    assert [line.late for line in lines] == [0, 1, 2], "but after a heartbeat of its own it does not go back"


def test_a_watermark_needs_a_timestamp(timed: Callable[..., Job]) -> None:
    job = timed(lambda rows: rows.selectExpr("_row_id", "_origin", "CAST(time AS DATE) AS time"))

    with pytest.raises(SpecError, match=r"event_time='time' of table 'silver.orders' is date; a watermark is about a"):
        run(job, 0, FIRST)
