"""Verifications: what someone changed in a table is named by key; a table that only Tidegate wrote has no difference."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from devstack.broker import Broker
from tests import topics
from tests.deployment import Deployment
from tests.resolved import resolved
from tests.spark import job as orders
from tests.spark.kinds.test_joins import Lake, on
from tests.spark.reprocessing.test_backfill import (
    SILVER,
    clean,
    land,
    make_job,
    new_code,
    six_orders_of_six_days,
)
from tests.spark.reprocessing.test_undo import backfill_as, undo_as
from tests.spark.test_topics import Clicks
from tidegate import json_codec
from tidegate.checkpoints.pending_jobs import UNDO, PendingUndo
from tidegate.errors import RequestError, SourceError, WriteConflictError
from tidegate.lake.place import FlowPlace
from tidegate.quarantine.selection import Selection
from tidegate.reports.ledger_line import LedgerLine
from tidegate.reports.report import DifferingRow, FlowReport, Verification
from tidegate.runs.verify.run import compare, verify
from tidegate.spark.batch import ledger
from tidegate.spark.flow import refresh_once, run_flow
from tidegate.spark.job import Job, Sides, load_kind
from tidegate.spark.lake import tables
from tidegate.spark.reprocessing import replay
from tidegate.spec import ChangeFeed, Flow, Table

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.jvm

StartState = Callable[[Callable[[Deployment], None]], Deployment]
ITEMS = Flow(
    name="items",
    source=ChangeFeed("bronze.orders"),
    target=Table("silver.items", keys=("id", "part"), replace_by=("id",), sequence_by=("at",)),
)
HISTORY = Flow(
    name="history",
    source=ChangeFeed("bronze.orders"),
    transform="orders:clean",
    target=Table("silver.history", keys=("id",), sequence_by=("at",), history="scd2"),
)
KEPT = Flow(
    name="kept",
    source=ChangeFeed("bronze.orders"),
    target=Table("silver.kept", keys=("id",), sequence_by=("at",), history="scd2", untracked=("day",)),
)
RANKED = Flow(
    name="ranked",
    source=ChangeFeed("silver.orders"),
    transform="orders:ranked",
    target=Table("gold.ranked", keys=("amount", "id"), replace_by=("amount",)),
)
LOG = Flow(name="log", source=ChangeFeed("bronze.orders"), transform="orders:clean", target=Table("silver.log"))


@pytest.fixture
def place(start_state: StartState) -> Path:
    """Six orders of six days in silver; order N has the amount 10 * N, order 3 the amount 31."""
    return start_state(six_orders_of_six_days).environment.lake.parent


def clean_or_deleted(rows: DataFrame) -> DataFrame:
    """Deletes orders of no amount."""
    return clean(rows).selectExpr("*", "amount = 0 AS _deleted")


def numbered(rows: DataFrame) -> DataFrame:
    """An order without id is number 9."""
    return clean_or_deleted(rows.selectExpr("* EXCEPT (id)", "coalesce(id, 9) AS id"))


def without_zero(rows: DataFrame) -> DataFrame:
    """An order of no amount has no time, which breaks a rule."""
    return rows.selectExpr("* EXCEPT (at)", "IF(amount = 0, NULL, at) AS at")


def parts(rows: DataFrame) -> DataFrame:
    """One row for each ten of the amount, at most three; none for an amount below ten."""
    return rows.selectExpr(
        "*", "explode_outer(slice(sequence(1, 3), 1, CAST(least(3, amount DIV 10) AS INT))) AS part"
    ).selectExpr("*", "part IS NULL AS _deleted")


def ranked(rows: DataFrame) -> DataFrame:
    """Orders of the same amount, numbered."""
    return rows.selectExpr("amount", "id", "row_number() OVER (PARTITION BY amount ORDER BY id) AS rank")


def daily(rows: DataFrame) -> DataFrame:
    return rows.selectExpr("day", "amount / 3.0D AS third").groupBy("day").sum("third").toDF("day", "amount")


def silver(place: Path, transform: Callable[[DataFrame], DataFrame] = clean, **request: Any) -> Job:
    return make_job(place, SILVER, transform, **request)


def added(place: Path, flow: Flow, transform: Callable[[DataFrame], DataFrame]) -> Job:
    """The job of a flow that `tests.spark.job` does not have."""
    other = silver(place, transform)
    pipeline = dataclasses.replace(other.resolved.pipeline, flows=(*other.resolved.pipeline.flows, flow))
    report = FlowReport(flow=flow.name, target=flow.target.name, checkpoint_version=1)
    return dataclasses.replace(
        other,
        resolved=resolved(pipeline).flow(flow.name),
        kind=load_kind(flow),
        place=dataclasses.replace(other.place, flow=flow.name),
        run=dataclasses.replace(other.run, report=report),
    )


def verified(job: Job, limit: int | None = None, **request: Any) -> tuple[Verification, list[DifferingRow]]:
    """What a verification finds; it commits to no table."""
    changed = dataclasses.replace(job.run.request, mode="verify", dry_run=True, limit=limit, **request)
    report = dataclasses.replace(job.run.report)
    own = dataclasses.replace(job, run=dataclasses.replace(job.run, request=changed, report=report))
    commits = sorted(Path(job.place.layout.root).glob("**/_delta_log/*.json"))
    verify(own)
    assert sorted(Path(job.place.layout.root).glob("**/_delta_log/*.json")) == commits
    path = job.run.place.differences(job.flow.name)
    assert own.run.report.verification is not None
    return own.run.report.verification, list(json_codec.read(path, tuple[DifferingRow, ...]) or ())


def differences(job: Job, **request: Any) -> set[tuple[str, int, tuple[str, ...]]]:
    """Effect, id and differing columns of each row."""
    _, rows = verified(job, **request)
    return {(row.effect, json.loads(row.key)["id"], row.columns) for row in rows}


def counts(result: Verification) -> tuple[int, int, int, int]:
    return result.equal, result.missing, result.unexpected, result.different


def by_hand(job: Job) -> DeltaTable:
    from deltalake import DeltaTable

    return DeltaTable(str(job.live))


@pytest.mark.nightly
def test_rows_that_someone_changed_are_named_by_key_and_column(place: Path) -> None:
    table = by_hand(silver(place))
    table.delete("id = 2")
    table.update({"amount": "41"}, predicate="id = 4")
    table.update({"id": "60"}, predicate="id = 6")

    result, rows = verified(silver(place))

    assert counts(result) == (3, 2, 1, 1)
    assert [(row.effect, row.key, row.columns) for row in rows] == [
        ("different", '{"id":4}', ("amount",)),
        ("missing", '{"id":2}', ()),
        ("missing", '{"id":6}', ()),
        ("unexpected", '{"id":60}', ()),
    ]
    assert result.source == "bronze.orders at version 0"
    result, rows = verified(silver(place), limit=1)
    assert (result.missing, len(rows)) == (2, 1), "all are counted, one is named"
    assert differences(silver(place), keys=("id=2",)) == {("missing", 2, ())}
    assert differences(silver(place), keys=("id=02",)) == {("missing", 2, ())}, "as a value of the column's type"
    with pytest.raises(RequestError, match=r"'x' is no int, the type of column 'id' of 'silver\.orders'"):
        verified(silver(place), keys=("id=x",))


@pytest.mark.nightly
def test_other_code_that_made_rows_of_the_present_checkpoint_is_named(place: Path) -> None:
    job = silver(place)
    by_hand(job).delete("id = 2")

    def notes(app_id: str) -> list[str]:
        line = LedgerLine(flow="silver", batch_id=9, app_id=app_id, kind="upsert", read=1, written=1)
        ledger.record_batch(job, dataclasses.replace(line, code_fingerprint="earlier"))
        job.run.report.notes.clear()
        verified(job)
        return job.run.report.notes

    assert notes("orders/silver/v1/1") == [], "of another refresh of the checkpoint"
    (note,) = notes(job.app_id)
    assert "was edited after it made some of the rows" in note


def test_a_row_that_is_in_the_table_twice_is_unexpected_once(place: Path) -> None:
    from deltalake import write_deltalake

    rows = by_hand(silver(place)).to_pyarrow_table()
    write_deltalake(str(silver(place).live), rows.slice(0, 1), mode="append")

    result, _ = verified(silver(place))

    assert counts(result) == (6, 0, 1, 0)


def test_records_of_bronze_are_compared_with_the_files_that_are_still_as_they_were(place: Path) -> None:
    bronze = make_job(place, orders.BRONZE)
    for name in ("gone.json", "changed.json"):
        land(place, name, (1, 0, 1), (2, 0, 2))
    (place / "landing" / "orders" / "bad.json.gz").write_bytes(b"no gzip")
    run_flow(bronze)
    land(place, "later.json", (8, 8, 8))
    assert counts(verified(bronze)[0]) == (12, 0, 0, 0), (
        "a file that was not read yet makes no row, nor does one in quarantine"
    )
    (place / "landing" / "orders" / "gone.json").unlink()
    os.utime(place / "landing" / "orders" / "changed.json", (1, 1))
    by_hand(bronze).delete("_path LIKE '%one.json' AND _line_number = 3")
    by_hand(bronze).update({"line": "'{}'"}, predicate="_path LIKE '%one.json' AND _line_number = 5")

    result, rows = verified(bronze)

    assert counts(result) == (6, 1, 0, 1)
    assert [(row.effect, row.key.rpartition("#")[2], row.columns) for row in rows] == [
        ("different", '5"}', ("line",)),
        ("missing", '3"}', ()),
    ]
    assert result.not_compared == {"of files that are no longer landed": 2, "of files that were changed since": 2}


@pytest.mark.nightly
def test_a_history_is_compared_version_by_version(place: Path) -> None:
    history = added(place, HISTORY, clean)
    run_flow(history)
    assert counts(verified(history)[0]) == (8, 0, 0, 0)
    by_hand(history).update({"valid_to": "NULL"}, predicate="id = 3 AND at = 3")

    _, rows = verified(history)

    assert [(row.effect, row.key, row.columns) for row in rows] == [("different", '{"id":3,"at":3}', ("valid_to",))]


def test_batches_that_changed_no_row_count_as_read(place: Path) -> None:
    bronze = make_job(place, orders.BRONZE)
    by_hand(bronze).delete("line LIKE '%\"id\": 6%'", commit_properties=orders.by_writer(bronze.live))
    run_flow(silver(place))
    backfill_as("b1", silver(place))
    for file in Path(silver(place).place.checkpoint / "offsets").glob("*0*"):
        # Spark removes the files of a batch that is older than the last hundred.
        file.unlink()

    result, rows = verified(silver(place))

    assert result.source == "bronze.orders at version 1"
    assert [(row.effect, row.key) for row in rows] == [("unexpected", '{"id":6}')]


def test_an_entry_keeps_its_row_out_of_the_table_although_the_present_code_would_let_it_in(place: Path) -> None:
    land(place, "later.json", (None, 2, 90))
    for each in (make_job(place, orders.BRONZE), silver(place)):
        run_flow(each)
    assert [entry["rules"] for entry in orders.table(silver(place).place.quarantine)] == [["null_key(id)"]]

    result, _ = verified(silver(place, numbered))

    assert counts(result) == (6, 0, 0, 0)


def test_a_lost_checkpoint_of_an_earlier_refresh_does_not_stop_the_verification_of_bronze(place: Path) -> None:
    bronze = make_job(place, orders.BRONZE, mode="reingest")
    run_flow(bronze, before=refresh_once)
    shutil.rmtree(bronze.place.checkpoint)

    assert counts(verified(bronze)[0]) == (8, 0, 0, 0)


def test_sums_are_the_same_up_to_nine_digits_and_a_sum_that_is_no_number_is_not_any_number(
    spark: SparkSession, tmp_path: Path
) -> None:
    from pyspark.sql import functions as F

    job = orders.job_of(spark, tmp_path, orders.GOLD)
    values = [1.0, 1.0, math.nan, math.nan, math.inf, math.inf, math.inf, 5.0]
    others = [1.0 + 1e-12, 1.1, math.nan, 5.0, math.inf, 5.0, -math.inf, math.nan]
    # A column may have the name of one that the comparison adds.
    expected, actual = (
        spark.createDataFrame(list(enumerate(each)), "day int, columns double") for each in (values, others)
    )

    sides = Sides(expected=expected, actual=actual, keys=("day",), source="", sums=True)
    _, rows = compare(job, 0, sides, F.lit(True))

    assert [json.loads(row.key)["day"] for row in rows] == [1, 3, 5, 6, 7]
    assert {row.columns for row in rows} == {("columns",)}


def test_values_and_keys_differ_by_a_microsecond_and_a_field_without_a_value_is_no_difference(
    spark: SparkSession, tmp_path: Path
) -> None:
    from pyspark.sql import functions as F

    job = orders.job_of(spark, tmp_path, orders.GOLD)
    at = "TIMESTAMP '2026-10-25T00:30:00.00000{}Z'"
    row = "{key} AS at, map('seen', {value}) AS times, named_struct({fields}) AS place"
    place = "'city', 'Rome'"
    larger = f"{place}, 'zip', CAST(NULL AS string)"
    sides = Sides(
        expected=spark.sql(
            f"SELECT {row.format(key=at.format(1), value=at.format(1), fields=place)} UNION ALL "
            f"SELECT {row.format(key=at.format(2), value=at.format(1), fields=place)}"
        ),
        actual=spark.sql(
            f"SELECT {row.format(key=at.format(1), value=at.format(1), fields=larger)} UNION ALL "
            f"SELECT {row.format(key=at.format(2), value=at.format(2), fields=larger)}"
        ),
        keys=("at",),
        source="",
    )
    _, rows = compare(job, 0, sides, F.lit(True))

    assert rows == [DifferingRow(effect="different", key='{"at":"2026-10-25T00:30:00.000002Z"}', columns=("times",))]


@pytest.mark.nightly
def test_tables_that_only_runs_wrote_have_no_difference(place: Path) -> None:
    code, gold = clean_or_deleted, make_job(place, orders.GOLD, daily)
    latest = make_job(place, orders.LATEST)
    items, log = added(place, ITEMS, parts), added(place, LOG, clean)
    kept, scoped = added(place, KEPT, code), added(place, RANKED, ranked)
    others = (gold, latest, items, log, kept, scoped)

    def increment(name: str, *records: tuple[int | None, int, int]) -> None:
        land(place, name, *records)
        run_flow(make_job(place, orders.BRONZE))
        for each in (silver(place, code), *others):
            run_flow(each)

    def differing(*jobs: Job) -> dict[str, Verification]:
        result = {each.flow.name: verified(each)[0] for each in jobs}
        return {name: each for name, each in result.items() if each.differs}

    increment("second.json", (2, 2, 5), (4, 1, 1), (5, 9, 0), (None, 2, 90), (7, 8, 30))
    every = make_job(place, orders.BRONZE), silver(place, code), *others
    assert differing(*every) == {}, "after increments with updates, a late row, a delete and an entry in quarantine"

    backfill_as("b1", silver(place, new_code))
    assert ("missing", 1, ()) in differences(silver(place, code)), "after a backfill with other code"
    undo_as("u1", silver(place, code), "b1")
    assert differing(silver(place, code), gold) == {}, "after its undo; gold has not followed"

    replay.replay_entries(silver(place, numbered), Selection())
    for each in (gold, latest, scoped):
        run_flow(each)
    assert differing(silver(place, numbered), gold, latest, scoped) == {}, "after a replay"
    assert ("unexpected", 9, ()) in differences(silver(place, code)), "the code without which the entry breaks a rule"

    run_flow(silver(place, numbered, mode="full_refresh"), before=refresh_once)
    assert differing(silver(place, numbered), gold) == {}, "after a full refresh"


def test_an_increment_of_the_source_changes_nothing_until_the_flow_has_read_it(place: Path) -> None:
    gold = make_job(place, orders.GOLD, daily)
    run_flow(gold)
    before = tables.version(gold.spark, silver(place).live)
    land(place, "later.json", (6, 7, 61))
    for each in (make_job(place, orders.BRONZE), silver(place)):
        run_flow(each)

    result, _ = verified(gold)

    assert (result.differs, result.source) == (False, f"silver.orders at version {before}")
    table = by_hand(silver(place))
    newest = set(table.file_uris())
    table.load_as_version(before)
    for file in set(table.file_uris()) - newest:
        Path(file.removeprefix("file://")).unlink()
    with pytest.raises(
        SourceError, match=rf"version {before} of its source table 'silver.orders' can no longer be read"
    ):
        verified(gold)
    run_flow(gold)
    assert not verified(gold)[0].differs


@pytest.mark.nightly
def test_a_row_is_compared_again_when_a_change_after_the_one_in_quarantine_has_passed(place: Path) -> None:
    def increment(name: str, *record: int) -> Job:
        amount, at = record
        land(place, name, (2, amount, at))
        job = make_job(place, orders.LATEST, without_zero)
        for each in (make_job(place, orders.BRONZE), silver(place), job):
            run_flow(each)
        return job

    increment("bad.json", 8, 0)
    latest = increment("good.json", 9, 5)
    by_hand(latest).update({"amount": "7"}, predicate="id = 2")
    assert differences(latest) == {("different", 2, ("amount",))}

    latest = increment("bad_again.json", 10, 0)
    result, _ = verified(latest)
    assert (counts(result), list(result.not_compared.values())) == ((5, 0, 0, 0), [1])


def test_a_flow_that_has_written_nothing_or_a_part_of_an_undo_is_refused(place: Path) -> None:
    with pytest.raises(
        RequestError, match=r"has not written table 'gold\.orders' yet.*tidegate run orders --flow gold"
    ):
        verified(make_job(place, orders.GOLD, daily))
    begun = PendingUndo(number=0, undoes="r", commits=(), planned_at_ms=0, run_id="u", requested_by="ada")
    UNDO.write(FlowPlace(silver(place).place.layout, "orders", "silver"), begun)
    with pytest.raises(WriteConflictError, match="an undo may have written a part of its rows"):
        verified(silver(place))


@pytest.mark.nightly
def test_a_flow_with_several_sources_is_compared_at_the_versions_that_it_has_read(
    spark: SparkSession, tmp_path: Path
) -> None:
    lake = Lake(spark, tmp_path)
    lake.change("silver.orders", *({"id": day, "day": on(day), "item": 7, "amount": day} for day in (1, 2)))
    lake.change("silver.latest", {"code": 7, "price": 5})
    lake.run()
    lake.change("silver.latest", {"code": 7, "price": 6})
    assert counts(verified(lake.job())[0]) == (2, 0, 0, 0)
    by_hand(lake.job()).update({"value": "1"}, predicate="orders = 1 AND value = 10")

    _, rows = verified(lake.job())

    assert [(row.effect, row.key, row.columns) for row in rows] == [("different", '{"day":"2026-01-02"}', ("value",))]


@pytest.mark.kafka
@pytest.mark.nightly
def test_messages_of_bronze_are_compared_with_those_that_the_topic_still_has(
    spark: SparkSession, tmp_path: Path, broker: Broker
) -> None:
    clicks = Clicks(spark, tmp_path, broker, "verified")
    topics.send(broker, "verified", range(6))
    clicks.run()
    topics.send(broker, "verified", range(6, 8))
    topics.delete_before(broker, "verified", 2)
    assert counts(verified(clicks.job())[0]) == (4, 0, 0, 0)
    table = by_hand(clicks.job())
    table.delete("_offset = 3")
    table.update({"value": "arrow_cast('x', 'Binary')"}, predicate="_offset = 4")

    result, rows = verified(clicks.job())

    assert counts(result) == (2, 1, 0, 1)
    assert [(row.effect, row.key.rpartition("/")[2], row.columns) for row in rows] == [
        ("different", '4"}', ("value",)),
        ("missing", '3"}', ()),
    ]
    assert result.not_compared == {"of messages that the topic no longer has": 2}

    topics.configure(broker, "verified", cleanup_policy="compact")
    table = by_hand(clicks.job())
    table.update({"_row_id": "'other'"}, predicate="_offset = 5")
    result, _ = verified(clicks.job())
    assert counts(result) == (1, 2, 0, 1)
    assert result.not_compared["of messages that compaction may have removed"] == 1
