"""Backfills: selection of keys, selection of source rows, and execution once per request.

Tests with whole pipelines are in `tests/spark/reprocessing/test_whole_backfills.py`.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.deployment import Deployment
from tests.resolved import resolved_flow
from tests.spark import job as orders
from tests.with_fields import with_fields
from tidegate.checkpoints import rewrite
from tidegate.errors import RewriteRefusedError, SpecError, TransformRefusedError
from tidegate.kinds.rows.run import source_rows
from tidegate.lake.place import AttemptPlace, FlowPlace, PipelinePlace
from tidegate.ops import store
from tidegate.quarantine import decision
from tidegate.quarantine.selection import Selection
from tidegate.reports.impact import Impact
from tidegate.spark.batch import micro_batch
from tidegate.spark.flow import refresh_once, run_flow
from tidegate.spark.job import Job
from tidegate.spark.lake import tables, writes
from tidegate.spark.reprocessing import backfill, pending_work
from tidegate.spec import ChangeFeed, RewriteLimits, Table, Thresholds
from tidegate.times.window import Window

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tidegate.spec import Flow

pytestmark = pytest.mark.jvm

StartState = Callable[[Callable[[Deployment], None]], Deployment]
Transform = Callable[["DataFrame"], "DataFrame"]
SILVER = dataclasses.replace(orders.SILVER, target=with_fields(orders.SILVER.target, event_time="day"))
"""``day`` is the number ``at`` as a date, so that day 1 is 1970-01-02."""
FIRST_DAYS = Window.of_dates("1970-01-02", "1970-01-03", "UTC")
"""Days 1 and 2."""


def clean(rows: DataFrame) -> DataFrame:
    return rows.selectExpr("*", "date_from_unix_date(at) AS day")


def new_code(rows: DataFrame) -> DataFrame:
    """Filters order 1, moves order 5 into the window and order 2 out of it, and doubles every amount."""
    day = "CASE WHEN id = 5 THEN 1 WHEN id = 2 THEN 9 ELSE at END"
    return rows.selectExpr(
        "* EXCEPT (amount)",
        "amount * 2 AS amount",
        f"date_from_unix_date({day}) AS day",
        "CASE WHEN id = 1 THEN 'no_order_1' END AS _filtered",
    )


def make_job(place: Path, flow: Flow, transform: Transform | None = None, **params: Any) -> Job:
    from pyspark.sql import SparkSession

    job = orders.job_of(SparkSession.active(), place, flow, transform=transform, **params)
    flows = tuple(SILVER if each.name == "silver" else each for each in job.resolved.pipeline.flows)
    return dataclasses.replace(
        job, resolved=resolved_flow(flow, dataclasses.replace(job.resolved.pipeline, flows=flows))
    )


def land(place: Path, name: str, *records: tuple[int | None, int, int]) -> None:
    path = place / "landing" / "orders" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    texts = [json.dumps(dict(zip(("id", "at", "amount"), record, strict=True))) for record in records]
    path.write_text("\n".join(texts))


def six_orders_of_six_days(deployment: Deployment) -> None:
    """Order N has day N and amount 10 * N. Orders 1 and 3 have another row, older or newer than the window."""
    place = deployment.environment.lake.parent
    land(place, "one.json", *((number, number, number * 10) for number in range(1, 7)), (1, 0, 5), (3, 7, 31))
    run_flow(make_job(place, orders.BRONZE))
    run_flow(make_job(place, SILVER, clean))


@pytest.fixture
def place(start_state: StartState) -> Path:
    return start_state(six_orders_of_six_days).environment.lake.parent


def amounts(job: Job) -> dict[int, int]:
    return {row["id"]: row["amount"] for row in orders.table(job.live)}


def ids(rows: DataFrame, name: str = "id") -> list[Any]:
    return sorted({row[name] for row in rows.collect()})


def silver(place: Path, transform: Transform = new_code, **params: Any) -> Job:
    return make_job(place, SILVER, transform, mode="backfill", **params)


def pending(job: Job, **more: Any) -> backfill.Backfill:
    assert job.source_table is not None
    version = tables.version(job.spark, job.source_table)
    defaults = {"number": 0, "run_key": "r", "window": {}, "source_version": version, "requested_by": "ada"}
    return backfill.Backfill(planned_at_ms=orders.PLANNED_MS, **{**defaults, **more})


def test_a_date_is_in_the_window_from_the_first_day_to_the_last(spark: SparkSession) -> None:
    rows = spark.createDataFrame([(date(2026, 3, day),) for day in range(1, 6)], "day date")
    window = Window.of_dates("2026-03-02", "2026-03-04", "Europe/Berlin")

    within = rows.where(tables.within(rows, "day", window, "silver.orders"))

    assert ids(within, "day") == [date(2026, 3, day) for day in (2, 3, 4)]


@pytest.mark.parametrize("kind", ["timestamp", "timestamp_ntz"])
def test_a_timestamp_is_in_the_window_from_its_start_to_before_its_end(spark: SparkSession, kind: str) -> None:
    window = Window.of_dates("2026-03-02", "2026-03-02", "Europe/Berlin")
    start, step = datetime(2026, 3, 1, 23, tzinfo=UTC), timedelta(microseconds=1)
    moments = [start - step, start, start + timedelta(days=1) - step, start + timedelta(days=1)]
    rows = spark.createDataFrame([(moment,) for moment in moments], "at timestamp")
    typed = rows.selectExpr(f"CAST(at AS {kind}) AS at", "monotonically_increasing_id() AS id").coalesce(1)

    within = typed.where(tables.within(typed, "at", window, "silver.orders"))

    assert within.count() == 2
    edges = within.selectExpr("min(CAST(at AS string)) AS first", "max(CAST(at AS string)) AS last").first()
    assert edges is not None
    assert (edges["first"], edges["last"]) == ("2026-03-01 23:00:00", "2026-03-02 22:59:59.999999")


@pytest.mark.parametrize(("columns", "message"), [("day string", "is string"), ("id int", "is not among its columns")])
def test_an_event_time_column_of_another_type_is_refused_by_name(
    spark: SparkSession, columns: str, message: str
) -> None:
    with pytest.raises(SpecError, match=f"event_time='day' of table 'silver.orders' {message}"):
        tables.within(spark.createDataFrame([], columns), "day", FIRST_DAYS, "silver.orders")


def test_keys_come_from_the_rows_of_the_window_in_the_table_and_in_the_output_of_the_present_code(place: Path) -> None:
    job = silver(place)

    keys = job.kind.keys_in_window(job, FIRST_DAYS, pending(job))

    assert keys.columns == ["id"]
    assert ids(keys) == [1, 2, 5], "the new code moves 2 out of the window and 5 into it"


def test_a_row_without_a_key_selects_no_key(place: Path) -> None:
    job = silver(place, lambda rows: clean(rows).selectExpr("* EXCEPT (id)", "CAST(NULL AS int) AS id"))

    assert ids(job.kind.keys_in_window(job, FIRST_DAYS, pending(job))) == [1, 2], "the keys of the table"


def test_a_column_that_is_made_of_the_path_may_be_the_event_time(place: Path) -> None:
    day = "CASE WHEN _path LIKE '%/one.json' AND id = 4 AND _partitions['day'] IS NULL THEN DATE'1970-01-02' END AS day"
    job = silver(place, lambda rows: rows.selectExpr("*", day))

    assert ids(job.kind.keys_in_window(job, FIRST_DAYS, pending(job))) == [1, 2, 4], "those of the table, and 4"


def test_all_source_rows_of_a_key_are_read_including_those_outside_of_the_window(place: Path) -> None:
    job = silver(place, clean)
    keys = job.spark.createDataFrame([(1,), (3,)], "id int")

    rows = source_rows(job, keys, pending(job)).collect()

    assert sorted(json.loads(row["line"])["amount"] for row in rows) == [5, 10, 30, 31]
    assert {row["_change_type"] for row in rows} == {"insert"}
    job.release()


def test_source_rows_of_a_keyed_table_are_selected_by_the_derived_key(place: Path) -> None:
    """The derived key may differ from the key of the source row."""
    job = make_job(place, orders.LATEST, lambda rows: rows.selectExpr("* EXCEPT (id)", "id + 100 AS id"))
    keys = job.spark.createDataFrame([(103,), (4,)], "id int")

    rows = source_rows(job, keys, pending(job))

    assert ids(rows) == [3]
    job.release()


def test_a_backfill_reads_the_source_version_with_which_it_was_prepared(place: Path) -> None:
    job = silver(place, clean)
    before = pending(job)
    land(place, "two.json", (1, 1, 99))
    run_flow(make_job(place, orders.BRONZE))

    keys = job.spark.createDataFrame([(1,)], "id int")

    assert source_rows(job, keys, before).count() == 2
    assert source_rows(job, keys, pending(job)).count() == 3
    job.release()


@pytest.mark.nightly
def test_a_backfill_applies_the_new_code_to_the_window_only_and_once_per_request(
    place: Path,
) -> None:
    request = "q20260101T000000-1"
    job = silver(place, request_id=request)
    assert amounts(job) == {1: 10, 2: 20, 3: 31, 4: 40, 5: 50, 6: 60}

    backfill.backfill(job, FIRST_DAYS)

    assert amounts(job) == {2: 40, 3: 31, 4: 40, 5: 100, 6: 60}
    (line,) = job.run.report.batches
    assert (line.kind, line.batch_id, line.app_id) == ("backfill", 0, "orders/silver/v1/0/window")
    assert (line.upserted, line.deleted, line.unchanged, line.imbalance()) == (2, 1, 0, 0)
    assert (line.read, line.filtered) == (4, {"no_order_1": 2})
    stored = pending_work.read(job, 0, backfill.Backfill)
    assert (stored.done, stored.requested_by, stored.window) == (True, "ada", dataclasses.asdict(FIRST_DAYS))
    assert [path.name for path in Path(pending_work.folder(job)).iterdir()] == ["0.json"], "the keys are deleted"
    assert [row["_order"]["at"] for row in orders.table(job.live) if row["id"] == 2] == [2]

    retried = silver(place, clean, request_id=request)
    backfill.backfill(retried, FIRST_DAYS)
    assert (retried.run.report.batches, retried.run.report.notes) == ([], [backfill.ALREADY_DONE])
    # A cleared run keeps its run id and has a new request.
    cleared = silver(place, clean)
    assert cleared.run.request.run_key == retried.run.request.run_key
    backfill.backfill(cleared, FIRST_DAYS)
    assert [line.batch_id for line in cleared.run.report.batches] == [1]
    assert amounts(cleared) == {1: 10, 2: 20, 3: 31, 4: 40, 5: 50, 6: 60}, (
        "all keys with a row in the window, in the table or in the output of the code"
    )


LIMITED = dataclasses.replace(SILVER, rewrite_limits=RewriteLimits(rows=0))
"""A tenth of the rows is the limit, however few they are."""


def limited(place: Path, transform: Transform, **params: Any) -> Job:
    return make_job(place, LIMITED, transform, mode="backfill", window=FIRST_DAYS, **params)


def commits(place: Path) -> list[str]:
    """Every file of a table's log, of a checkpoint and of pending work."""
    folders = [path for path in (place / "lake").iterdir() if path.name not in ("leases", "reports")]
    return sorted(str(file) for folder in folders for file in folder.rglob("*") if file.is_file())


@pytest.mark.nightly
def test_a_backfill_that_deletes_too_many_rows_is_refused_until_exactly_that_number_is_accepted(place: Path) -> None:
    loss = Impact(before=3, after=2, deleted=1, changed=2, added=0, read=4, quarantined=0)
    before = commits(place)
    dry = limited(place, new_code, dry_run=True)

    backfill.dry_run(dry, FIRST_DAYS)

    assert (dry.run.report.impact, dry.run.report.batches, commits(place)) == (loss, [], before), "nothing was written"
    assert any("--accept silver:deleted=1" in note for note in dry.run.report.notes)
    sample = AttemptPlace(dry.place.layout, "orders", dry.run.request.run_key, dry.run.place.attempt).sample("silver")
    assert json.loads(Path(sample).read_text()) == {"deleted": ['{"id":1}'], "changed": ['{"id":2}', '{"id":5}']}
    # The number of one that was dropped is not given again.
    for number, accept in enumerate(((), ("silver:deleted=2",))):
        refused = limited(place, new_code, accept=accept)
        with pytest.raises(RewriteRefusedError) as raised:
            backfill.backfill(refused, FIRST_DAYS)
        assert f"backfill {number} of 1970-01-02 to 1970-01-03" in raised.value.message
        assert "it would delete 1 of 3 rows (33.3%), more than 10.0%" in raised.value.message
        assert "--mode backfill --from 1970-01-02 --to 1970-01-03 --accept silver:deleted=1" in raised.value.message
        assert amounts(refused) == {1: 10, 2: 20, 3: 31, 4: 40, 5: 50, 6: 60}
        note = rewrite.refused(FlowPlace(refused.place.layout, "orders", "silver"))
        assert note is not None and note.impact == refused.run.report.impact == loss
        pending_work.settle(refused, backfill.Backfill)
        assert pending_work.numbers(refused) == [], "nothing is left to complete"

    accepted = limited(place, new_code, accept=("silver:deleted=1",))
    backfill.backfill(accepted, FIRST_DAYS)

    assert amounts(accepted) == {2: 40, 3: 31, 4: 40, 5: 100, 6: 60}


@pytest.mark.nightly
def test_a_backfill_derives_every_row_of_the_scopes_of_the_window(place: Path) -> None:
    from pyspark.sql import functions as F

    target = Table("silver.legs", keys=("id", "leg"), replace_by=("id",), sequence_by=("at",), event_time="day")
    flow = dataclasses.replace(orders.LATEST, source=ChangeFeed("bronze.orders"), target=target)

    def with_legs(rows: DataFrame) -> DataFrame:
        return clean(rows).withColumn("leg", F.explode(F.array(F.lit(1), F.lit(2))))

    def fewer_legs(rows: DataFrame) -> DataFrame:
        """Filters all legs of order 1, and leg 2 of the orders 2 and 6. Order 6 is not in the window."""
        filtered = (F.col("id") == 1) | (F.col("id").isin(2, 6) & (F.col("leg") == 2))
        return with_legs(rows).withColumn("_filtered", F.when(filtered, F.lit("no_leg")))

    run_flow(make_job(place, flow, with_legs))
    job = make_job(place, flow, fewer_legs, mode="backfill")

    backfill.backfill(job, FIRST_DAYS)

    (line,) = job.run.report.batches
    assert (line.groups, line.upserted, line.deleted, line.unchanged) == (5, 1, 3, 1)
    assert (line.read, line.written, line.filtered, line.imbalance()) == (3, 2, {"no_leg": 1}, 0)
    legs = [(row["id"], row["leg"], row["_deleted"]) for row in orders.table(job.live)]
    kept = [(number, leg, False) for number in (3, 4, 5, 6) for leg in (1, 2)]
    assert sorted(legs, key=repr) == [(1, None, True), (2, 1, False), *kept]


def fail(*_: Any, **__: Any) -> None:
    raise ConnectionError("simulated crash")


@pytest.mark.nightly
def test_an_interrupted_backfill_is_finished_if_it_has_written_and_deleted_otherwise(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number, (step, begun) in enumerate((("write_target", False), ("record_batch", True))):
        with monkeypatch.context() as patched:
            patched.setattr(micro_batch, step, fail)
            with pytest.raises(ConnectionError):
                backfill.backfill(silver(place), FIRST_DAYS)
        assert pending_work.numbers(silver(place)) == [number]
        later = make_job(place, SILVER, clean)
        assert pending_work.read(later, number, backfill.Backfill).has_begun(later) is begun

        pending_work.settle(later, backfill.Backfill)

        assert [line.kind for line in later.run.report.batches] == (["backfill"] if begun else [])
        assert not (pending_work.folder(later) / f"{number}.keys").exists()
        assert pending_work.numbers(later) == ([number] if begun else [])
    assert amounts(later)[2] == 40
    assert later.run.report.batches[0].target_version == tables.version(later.spark, later.live)
    again = make_job(place, SILVER, clean)
    pending_work.settle(again, backfill.Backfill)
    assert again.run.report.batches == [], "it was finished before"
    path = PipelinePlace(again.place.layout, "orders").ops("ledger")
    assert len(store.select(path, "SELECT batch_id FROM delta_table WHERE kind = 'backfill'")) == 1


def half_written(place: Path, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    """A backfill crashed before this step; the stream had read everything."""
    with monkeypatch.context() as patched:
        patched.setattr(micro_batch, step, fail)
        with pytest.raises(ConnectionError):
            backfill.backfill(silver(place, without(2)), FIRST_DAYS)


@pytest.mark.nightly
def test_a_full_refresh_finishes_a_half_written_backfill_before_it_opens_its_checkpoint(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    half_written(place, monkeypatch, "write_target")
    refreshed = make_job(place, SILVER, clean, mode="full_refresh", request_id="f1")
    assert [row["state"] for row in orders.table(refreshed.place.quarantine)] == ["open"], (
        "order 2 is in the table as well"
    )
    assert pending_work.read(refreshed, 0, backfill.Backfill).has_begun(refreshed)

    run_flow(refreshed, before=refresh_once)

    done = [(line.kind, line.app_id) for line in refreshed.run.report.batches]
    assert done[0] == ("backfill", "orders/silver/v1/0/window")
    assert done[-1] == ("swap", "orders/silver/v1/1")
    assert pending_work.read(refreshed, 0, backfill.Backfill).done
    assert amounts(refreshed) == {1: 10, 2: 20, 3: 31, 4: 40, 5: 50, 6: 60}


@pytest.mark.nightly
def test_a_new_version_does_not_finish_a_half_written_backfill_and_records_what_it_wrote(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    half_written(place, monkeypatch, "record_batch")
    newer = dataclasses.replace(SILVER, checkpoint_version=2)
    job = make_job(place, newer, clean, version=2)
    path = PipelinePlace(job.place.layout, "orders").ops("ledger")
    assert store.select(path, "SELECT batch_id FROM delta_table WHERE kind = 'backfill'") == []

    run_flow(job)

    assert pending_work.numbers(job) == []
    (line,) = store.select(path, "SELECT app_id, deleted, quarantined FROM delta_table WHERE kind = 'backfill'")
    assert line == {"app_id": "orders/silver/v1/0/window", "deleted": 1, "quarantined": 1}
    assert [note for note in job.run.report.notes if note.startswith("backfill 0 of checkpoint v1/0 was half-written")]
    assert amounts(job) == {1: 10, 2: 20, 3: 31, 4: 40, 5: 50, 6: 60}
    assert [row["state"] for row in orders.table(job.place.quarantine)] == ["expired"]


def without(*numbers: int) -> Transform:
    """Code with which each of these orders breaks its own rule."""
    from pyspark.sql import functions as F

    refused = F.array(F.concat(F.lit("refused_"), F.col("id")))
    broken = F.when(F.col("id").isin(*numbers), refused).otherwise(F.col("_origin.broken"))
    return lambda rows: clean(rows).withColumn("_origin", F.col("_origin").withField("broken", broken))


@pytest.mark.nightly
def test_a_decided_split_is_kept_and_a_later_backfill_closes_the_entries_of_rows_that_pass(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    window = Window.of_dates("1970-01-03", "1970-01-07", "UTC")
    with monkeypatch.context() as patched:
        patched.setattr(micro_batch, "write_target", fail)
        with pytest.raises(ConnectionError):
            backfill.backfill(silver(place, without(2, 4, 5)), window)
    # Only the quarantine was written. It determines the split, whatever the code is now.
    first = silver(place, clean)
    pending_work.settle(first, backfill.Backfill)
    assert [(line.quarantined, line.deleted) for line in first.run.report.batches] == [(3, 3)]
    assert sorted(amounts(first)) == [1, 3, 6]
    entries = {row["_row_id"] for row in orders.table(first.place.quarantine)}
    selection = Selection.check(rule="refused_4")
    decision.waive(FlowPlace(first.place.layout, "orders", "silver"), selection, by="grace", reason="No such order.")

    second = silver(place, without(5))
    backfill.backfill(second, window)

    rows = {json.loads(row["record"])["id"]: row for row in orders.table(second.place.quarantine)}
    assert {row["_row_id"] for row in rows.values()} == entries, "no duplicates"
    assert {number: row["state"] for number, row in rows.items()} == {2: "replayed", 4: "replayed", 5: "open"}
    assert (rows[4]["changed_by"], rows[4]["reason"]) == ("grace", "No such order.; passed in backfill 1")
    assert (rows[2]["changed_by"], rows[2]["reason"], rows[5]["attempts"]) == ("ada", "backfill 1", 1)
    assert sorted(amounts(second)) == [1, 2, 3, 4, 6]


def test_a_backfill_that_was_accepted_and_has_begun_is_not_judged_again_but_may_not_delete_more(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    window = Window.of_dates("1970-01-03", "1970-01-07", "UTC")
    code = without(2, 4, 5)
    with pytest.raises(
        RewriteRefusedError, match=r"delete 3 of 5 rows .* and send 3 of 6 source rows .* to quarantine"
    ):
        backfill.backfill(limited(place, code), window)
    accept = ("silver:deleted=3", "silver:quarantined=3")
    accepted = limited(place, code, accept=accept)
    pending_work.settle(accepted, backfill.Backfill)
    with monkeypatch.context() as patched:
        patched.setattr(micro_batch, "write_target", fail)
        with pytest.raises(ConnectionError):
            backfill.backfill(accepted, window)

    # The code was edited after the crash: now it filters one more order, which nobody has seen.
    more = make_job(place, LIMITED, lambda rows: clean(rows).selectExpr("*", "IF(id = 6, 'no', NULL) AS _filtered"))
    with pytest.raises(RewriteRefusedError, match="delete 4 of 5 rows"):
        pending_work.settle(more, backfill.Backfill)
    assert sorted(amounts(more)) == [1, 2, 3, 4, 5, 6]

    later = make_job(place, LIMITED, clean)
    pending_work.settle(later, backfill.Backfill)

    assert [(line.quarantined, line.deleted) for line in later.run.report.batches] == [(3, 3)]
    assert sorted(amounts(later)) == [1, 3, 6]
    again = limited(place, code)
    backfill.backfill(again, window)
    assert again.run.report.impact is not None
    assert (again.run.report.impact.deleted, again.run.report.impact.quarantined) == (0, 0), (
        "they are in quarantine already"
    )


@pytest.mark.nightly
def test_a_flow_that_recomputes_groups_recomputes_those_with_a_row_in_the_window(place: Path) -> None:
    def daily(rows: DataFrame) -> DataFrame:
        return rows.selectExpr("day", "amount + 1000 AS amount").groupBy("day").sum("amount").toDF("day", "amount")

    gold = make_job(place, orders.GOLD, daily)
    earlier = [(date(1970, 1, 1) + timedelta(days=day), 0) for day in range(1, 8)]
    frame = gold.spark.createDataFrame(earlier, "day date, amount bigint")
    writes.append(frame, gold.live, orders.transaction(gold, 0))

    dry = make_job(place, orders.GOLD, daily, mode="backfill", dry_run=True)
    backfill.dry_run(dry, None)
    assert dry.run.report.impact == Impact(before=7, after=6, deleted=1, changed=6, added=0, read=6, quarantined=0)
    assert [note for note in dry.run.report.notes if "counted from silver.orders as it is now" in note]

    backfill.backfill(gold, Window.of_dates("1970-01-03", "1970-01-05", "UTC"))

    totals = {(row["day"] - date(1970, 1, 1)).days: row["amount"] for row in orders.table(gold.live)}
    assert totals == {1: 0, 2: 1020, 3: 0, 4: 1040, 5: 0, 6: 0, 7: 0}, "silver has no order of day 3"
    (line,) = gold.run.report.batches
    assert (line.groups, line.upserted, line.unchanged) == (2, 2, 0)


def test_groups_of_a_table_without_event_time_are_selected_by_their_own(place: Path, spark: SparkSession) -> None:
    of_key = dataclasses.replace(orders.GOLD, target=with_fields(orders.GOLD.target, event_time="day"))
    gold = orders.job_of(spark, place, of_key)

    days = ids(gold.kind.keys_in_window(gold, FIRST_DAYS, pending(gold)), "day")

    assert [day.isoformat() for day in days] == ["1970-01-02", "1970-01-03"]


@pytest.mark.nightly
def test_rows_without_a_key_because_the_transform_raises_leave_the_table_only_if_the_keys_were_made_from_them(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of orders 2 and 6 the event time raises. The window has order 2; order 6 stays as it is."""

    def raising(rows: DataFrame) -> DataFrame:
        day = "date_from_unix_date(at + 0 * (1 DIV (id - 2)) + 0 * (1 DIV (id - 6)))"
        return rows.selectExpr("*", f"{day} AS day")

    def lenient() -> Job:
        limits = Thresholds(transform_error_share=0.5)
        flow = dataclasses.replace(SILVER, transform="orders:clean", thresholds=limits)
        return make_job(place, flow, raising, mode="backfill")

    before = amounts(silver(place))
    with pytest.raises(TransformRefusedError, match=r"backfill 0 refused: .* DIVIDE_BY_ZERO on more rows than allowed"):
        backfill.backfill(silver(place, raising), FIRST_DAYS)
    with monkeypatch.context() as patched:
        patched.setattr(micro_batch, "write_target", fail)
        with pytest.raises(ConnectionError):
            backfill.backfill(lenient(), FIRST_DAYS)
    assert amounts(silver(place)) == before

    later = lenient()
    pending_work.settle(later, backfill.Backfill)

    (line,) = later.run.report.batches
    assert (line.read, line.quarantined, line.deleted, line.imbalance()) == (3, 1, 1, 0)
    assert amounts(later) == {number: amount for number, amount in before.items() if number != 2}
    (entry,) = orders.table(later.place.quarantine)
    assert (json.loads(entry["record"])["id"], entry["rules"]) == (2, ["transform_error(DIVIDE_BY_ZERO)"])
    assert [path.name for path in Path(pending_work.folder(later)).iterdir()] == ["0.json"]

    corrected = silver(place, clean)
    backfill.backfill(corrected, FIRST_DAYS)
    assert amounts(corrected) == before
    assert [row["state"] for row in orders.table(corrected.place.quarantine)] == ["replayed"]
