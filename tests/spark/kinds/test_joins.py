"""A flow with several sources: which groups a change of each source affects, at which versions they are computed, and that a
drained flow has what a full recomputation gives, whatever the history and wherever it was cut or crashed."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.fault_points import aborted, aborting, fault
from tests.lakes_in_buckets import lake_folder
from tests.resolved import resolved_flow
from tests.slices import of_week
from tests.spark import job as orders
from tests.spark.queries import expect_idle
from tests.spark.reprocessing.test_undo import planned, run_as, undo_as
from tests.with_fields import with_fields
from tidegate.errors import OffsetsExpiredError, RewriteRefusedError, SpecError
from tidegate.reports.impact import Impact
from tidegate.spark import runs
from tidegate.spark.reprocessing import undo
from tidegate.spec import ChangeFeed, Flow, Pipeline, RewriteLimits
from tidegate.status import lag
from tidegate.status.reading import Reading
from tidegate.times.window import Window

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tidegate.spark.job import Job

pytestmark = pytest.mark.jvm

SOURCES = (
    ChangeFeed("silver.orders", max_files_per_trigger=1),
    ChangeFeed("silver.latest", max_files_per_trigger=1, on={"item": "code"}),
)
GOLD = Flow(name="gold", sources=SOURCES, transform="orders:revenue", target=orders.GOLD.target)
Rows = dict[str, dict[int, dict[str, Any]]]
"""By table the rows by key."""
KEYS = {"silver.orders": "id", "silver.latest": "code"}


def revenue(orders: DataFrame, latest: DataFrame) -> DataFrame:
    """The transform: orders and their value per day; an item without price counts as 0."""
    from pyspark.sql import functions as F

    priced = orders.join(latest, orders["item"] == latest["code"], "left")
    value = F.coalesce(F.sum(F.col("amount") * F.col("price")), F.lit(0)).cast("bigint")
    return priced.groupBy("day").agg(F.count("id").alias("orders"), value.alias("value"))


def recomputed(rows: Rows) -> set[tuple[Any, ...]]:
    """What the transform gives for all rows, by DuckDB."""
    import duckdb

    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE orders (id INT, day DATE, item INT, amount INT, _deleted BOOLEAN)")
        connection.execute("CREATE TABLE latest (code INT, price INT, _deleted BOOLEAN)")
        for table, own in rows.items():
            for row in own.values():
                name, values = table.removeprefix("silver."), ", ".join(f"${column}" for column in row)
                connection.execute(f"INSERT INTO {name} ({', '.join(row)}) VALUES ({values})", row)
        return set(
            connection.execute("""
                SELECT day, count(*), coalesce(sum(amount * price), 0)::BIGINT
                FROM orders LEFT JOIN (FROM latest WHERE NOT _deleted) AS prices ON item = code
                WHERE NOT orders._deleted GROUP BY day
            """).fetchall()
        )


class Lake:
    """The two source tables, changed commit by commit with delta-rs, and the flow."""

    def __init__(self, spark: SparkSession, folder: Path, flow: Flow = GOLD) -> None:
        self.spark, self.folder, self.flow = spark, folder, flow
        self.rows: Rows = {table: {} for table in KEYS}

    def change(self, table: str, *rows: dict[str, Any], deleted: tuple[int, ...] = ()) -> None:
        """One commit that sets rows by key, and removes some."""
        import pyarrow as pa
        from deltalake import DeltaTable

        key = KEYS[table]
        names = ("id", "day", "item", "amount") if table == "silver.orders" else ("code", "price")
        types = {"day": pa.date32()}
        schema = pa.schema([*[(name, types.get(name, pa.int32())) for name in names], ("_deleted", pa.bool_())])
        path = self.job().place.layout.table(table)
        if not path.exists():
            DeltaTable.create(str(path), schema, configuration={"delta.enableChangeDataFeed": "true"})
        values = [{"_deleted": False, **row} for row in rows]
        self.rows[table] |= {row[key]: row for row in values}
        gone = [{**dict.fromkeys(names), key: each, "_deleted": None} for each in deleted]
        self.rows[table] = {each: row for each, row in self.rows[table].items() if each not in deleted}
        merge = DeltaTable(str(path)).merge(
            pa.Table.from_pylist([*values, *gone], schema=schema),
            f"t.{key} = s.{key}",
            source_alias="s",
            target_alias="t",
        )
        merge.when_matched_delete("s._deleted IS NULL").when_matched_update_all(
            "s._deleted IS NOT NULL"
        ).when_not_matched_insert_all("s._deleted IS NOT NULL").execute()

    def job(self, *, transform: Callable[..., DataFrame] = revenue, **more: Any) -> Job:
        job = orders.job_of(
            self.spark, self.folder, self.flow, transform=transform, version=self.flow.checkpoint_version, **more
        )
        dated = dataclasses.replace(orders.SILVER, target=with_fields(orders.SILVER.target, event_time="day"))
        flows = (orders.BRONZE, dated, orders.LATEST, self.flow)
        return dataclasses.replace(job, resolved=resolved_flow(self.flow, Pipeline(name="orders", flows=flows)))

    def run(self, **more: Any) -> Job:
        """One run of the flow."""
        job = self.job(**more)
        runs.load(job.run.request, self.flow)(job)
        return job

    def run_and_crash(self, at: str) -> None:
        """A run that crashes at a step, if a batch of it reaches it: one that affects no group writes nothing."""
        with aborting(lambda act: fault(at, act), lake_folder(self.folder), self.spark, must_abort=False):
            self.run()

    def table(self) -> set[tuple[Any, ...]]:
        return {(row["day"], row["orders"], row["value"]) for row in orders.table(self.job().live)}

    def lag(self) -> Reading:
        return lag.measure(orders.environment(self.folder), self.job().resolved)


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path) -> Lake:
    return Lake(spark, tmp_path)


def on(day: int) -> date:
    return date(2026, 1, day)


def order(number: int, day: int | None, item: int | None, amount: int = 1, **more: Any) -> dict[str, Any]:
    return {"id": number, "day": day and on(day), "item": item, "amount": amount, **more}


def price(code: int, price: int | None, **more: Any) -> dict[str, Any]:
    return {"code": code, "price": price, **more}


def started(lake: Lake) -> Lake:
    """Three days with orders of two items, in gold."""
    lake.change("silver.latest", price(1, 10), price(2, 20))
    lake.change("silver.orders", order(1, 1, 1), order(2, 2, 2), order(3, 3, None), order(4, 3, 3))
    lake.run()
    assert lake.table() == recomputed(lake.rows) == {(on(1), 1, 10), (on(2), 1, 20), (on(3), 2, 0)}
    return lake


def test_a_change_of_another_source_recomputes_the_groups_of_the_rows_that_belong_to_it(lake: Lake) -> None:
    """The newcomer's stale join: one price is corrected and one is removed, and no order changes."""
    started(lake)
    assert not lake.lag().has_work
    lake.change("silver.latest", price(2, 21), price(9, 90), deleted=(1,))
    plan = lake.lag()
    assert (plan.has_work, plan.reads) == (True, "1 new version of silver.latest")

    line = lake.run().run.report.batches[0]

    assert lake.table() == recomputed(lake.rows)
    counts = (line.read, line.groups, line.upserted, line.deleted)
    assert counts == (3, 2, 2, 0), "the orders of day 3 are of other items"
    assert dict(line.source_versions) == {"silver.orders": 1, "silver.latest": 2}
    ledger = orders.table(lake.job().place.of_pipeline.ops("ledger"))
    assert [dict(each["source_versions"]) for each in ledger][-1:] == [{"silver.orders": 1, "silver.latest": 2}]
    assert not lake.lag().has_work
    expect_idle(lake.run, "gold")


@pytest.mark.nightly
@pytest.mark.parametrize("seed", of_week(range(1, 11), 2))
def test_a_drained_flow_has_what_a_full_recomputation_gives(lake: Lake, seed: int) -> None:
    """Histories of both tables, cut anywhere, and crashed anywhere in the process."""
    chance = random.Random(seed)
    history = changes(chance)
    steps = [
        "before:write_target:gold",
        "after:write_target:gold",
        "before:split_batch:gold",
        "after:record_batch:gold",
    ]
    for table in KEYS:
        lake.change(table)
    for _ in range(5):
        for table, rows, deleted in [next(history) for _ in range(chance.randint(1, 4))]:
            lake.change(table, *rows, deleted=deleted)
        if lake.lag().has_work and chance.random() < 0.7:
            lake.run_and_crash(chance.choice(steps))
            # What the batch has not read yet changes before it runs again.
            for table, rows, deleted in [next(history) for _ in range(2)]:
                lake.change(table, *rows, deleted=deleted)
        lake.run()
        assert lake.table() == recomputed(lake.rows)
        assert not lake.lag().has_work
    vectors = [
        line["source_versions"]
        for line in sorted(
            orders.table(lake.job().place.of_pipeline.ops("ledger")),
            key=lambda line: line["batch_id"],
        )
    ]
    for table in KEYS:
        versions = [dict(vector)[table] for vector in vectors]
        assert versions == sorted(versions), "vectors never go back"


def changes(chance: random.Random) -> Iterator[tuple[str, list[dict[str, Any]], tuple[int, ...]]]:
    """Commits: rows that appear, change, move to another day or item, are marked as deleted or are removed."""
    while True:
        of_prices = chance.random() < 0.4
        numbers = chance.sample(range(1, 6 if of_prices else 15), 3)
        removed = tuple(numbers[:1]) if chance.random() < 0.3 else ()
        rows = []
        for number in numbers[len(removed) :]:
            marked = chance.random() < 0.2
            if of_prices:
                rows.append(price(number, chance.choice([None, 1, 10, 100]), _deleted=marked))
            else:
                day, item = chance.choice([None, 1, 2, 3]), chance.choice([None, 1, 2, 3, 4, 5])
                rows.append(order(number, day, item, chance.randint(1, 9), _deleted=marked))
        yield "silver.latest" if of_prices else "silver.orders", rows, removed


@pytest.mark.nightly
def test_a_batch_that_crashed_reads_the_same_versions_again(lake: Lake) -> None:
    started(lake)
    lake.change("silver.latest", price(1, 11))
    with aborted("before:write_target:gold", lake_folder(lake.folder), lake.spark):
        lake.run()
    lake.change("silver.latest", price(1, 12))
    lake.change("silver.orders", order(1, 2, 1))

    lines = lake.run().run.report.batches

    assert [dict(line.source_versions) for line in lines] == [
        {"silver.orders": 1, "silver.latest": 2},
        {"silver.orders": 2, "silver.latest": 3},
    ]
    assert lake.table() == recomputed(lake.rows)


def test_a_flow_waits_until_all_its_sources_exist(lake: Lake) -> None:
    lake.change("silver.orders", order(1, 1, 1))

    lake.run()

    assert (lake.lag().has_work, lake.lag().reason) == (False, "waits: silver.latest does not exist yet")
    lake.change("silver.latest", price(1, 10))
    lake.run()
    assert lake.table() == {(on(1), 1, 10)}


@pytest.mark.nightly
def test_removed_files_of_a_version_are_read_from_the_newest_and_removed_changes_are_an_error(lake: Lake) -> None:
    from deltalake import DeltaTable

    started(lake)
    path = lake.job().place.layout.table("silver.latest")
    lake.change("silver.latest", price(1, 11))
    with aborted("before:write_target:gold", lake_folder(lake.folder), lake.spark):
        lake.run()
    kept: set[str] = set()
    for value in (12, 13):
        lake.change("silver.latest", price(1, value))
        kept |= {*DeltaTable(str(path)).file_uris()}
    for file in Path(path).glob("*.parquet"):
        if str(file) not in kept and f"file://{file}" not in kept:
            file.unlink()

    lines = lake.run().run.report.batches

    versions = [dict(line.source_versions)["silver.latest"] for line in lines]
    assert versions == [4, 4, 4], "the second batch could read version 3, but vectors never go back"
    assert lake.table() == recomputed(lake.rows)
    lake.change("silver.latest", price(1, 14))
    for file in Path(path / "_change_data").glob("*"):
        file.unlink()
    with pytest.raises(OffsetsExpiredError, match=r"silver\.latest no longer has the changes"):
        lake.lag()
    with pytest.raises(OffsetsExpiredError):
        lake.run()


@pytest.mark.nightly
def test_a_new_version_reads_the_first_source_again_and_is_swapped_in(lake: Lake) -> None:
    started(lake)
    live = lake.job().live
    lake.flow = dataclasses.replace(GOLD, checkpoint_version=2)
    lake.change("silver.latest", price(1, 11))
    for file in Path(lake.job().place.layout.table("silver.latest") / "_change_data").glob("*"):
        # As VACUUM would: the new version reads the table as it is, and not its last change again.
        file.unlink()
    with aborted("after:write_target:gold", lake_folder(lake.folder), lake.spark):
        lake.run()
    assert {row["value"] for row in orders.table(live)} == {10, 20, 0}, "readers see the old version"
    lake.change("silver.latest", price(2, 22))

    lines = lake.run().run.report.batches

    assert [line.kind for line in lines] == ["recompute", "recompute", "swap"]
    assert [dict(line.source_versions) for line in lines] == [
        {"silver.orders": 1, "silver.latest": 2},
        {"silver.orders": 1, "silver.latest": 3},
        {"silver.orders": 1, "silver.latest": 3},
    ]
    assert (lines[-1].upserted, lines[-1].unchanged) == (2, 1)
    assert lake.table() == recomputed(lake.rows) == {(on(1), 1, 11), (on(2), 1, 22), (on(3), 2, 0)}


@pytest.mark.nightly
def test_a_backfill_computes_the_groups_of_a_window_from_one_version_of_each_source(lake: Lake) -> None:
    from pyspark.sql import functions as F

    def doubled(**sources: DataFrame) -> DataFrame:
        return revenue(**sources).withColumn("value", F.col("value") * 2)

    started(lake)
    lake.change("silver.latest", price(3, 30))
    window = Window.of_dates("2026-01-02", "2026-01-02", "UTC")

    line = lake.run(
        transform=lambda orders, **others: doubled(orders=orders, **others), mode="backfill", window=window
    ).run.report.batches[-1]

    assert (line.is_batch, line.groups, line.upserted) == (False, 1, 1)
    assert dict(line.source_versions) == {"silver.orders": 1, "silver.latest": 2}
    assert lake.table() == {(on(1), 1, 10), (on(2), 1, 40), (on(3), 2, 60)}, (
        "the increment before it is of new code too"
    )


def only_priced(orders: DataFrame, latest: DataFrame) -> DataFrame:
    """Days with a price, of twice the value."""
    return revenue(orders, latest).where("value > 0").selectExpr("day", "orders", "value * 2 AS value")


@pytest.mark.nightly
def test_a_backfill_of_several_sources_is_judged_and_undone_where_nothing_changed_since(lake: Lake) -> None:
    started(lake)
    lake.flow = dataclasses.replace(GOLD, rewrite_limits=RewriteLimits(rows=0))
    window = Window.of_dates("2026-01-01", "2026-01-03", "UTC")

    def backfill_as(name: str, **request: Any) -> Job:
        own = run_as(name, lake.job(transform=only_priced, mode="backfill", window=window, **request))
        runs.load(own.run.request, lake.flow)(own)
        return own

    loss = Impact(before=3, after=2, deleted=1, changed=2, added=0, read=3, quarantined=0)
    assert backfill_as("b0", dry_run=True).run.report.impact == loss
    with pytest.raises(RewriteRefusedError, match=r"it would delete 1 of 3 rows .* --accept gold:deleted=1"):
        backfill_as("b1")
    assert lake.table() == recomputed(lake.rows)
    backfill_as("b2", accept=("gold:deleted=1",))
    assert lake.table() == {(on(1), 1, 20), (on(2), 1, 40)}
    lake.change("silver.latest", price(1, 11))
    lake.run()

    dry = planned(lake.job(), "b2", "u0", dry_run=True)
    undo.undo_run(dry)
    line = undo_as("u1", lake.job(), "b2").run.report.batches[0]

    assert (line.groups, line.upserted, line.unchanged) == (3, 2, 1), "the item of day 1 has another price since"
    assert [(each.groups, each.upserted, each.unchanged) for each in dry.run.report.batches] == [(3, 2, 1)]
    assert lake.table() == recomputed(lake.rows)
    lake.change("silver.orders", order(2, 3, 2))
    lake.run()
    assert lake.table() == recomputed(lake.rows)


def test_columns_that_cannot_be_compared_are_refused(lake: Lake) -> None:
    lake.change("silver.orders", order(1, 1, 1))
    lake.change("silver.latest", price(1, 10))
    second = dataclasses.replace(SOURCES[1], on={"item": "name"})
    lake.flow = dataclasses.replace(GOLD, sources=(SOURCES[0], second))

    with pytest.raises(SpecError, match=r"silver\.orders\.item \(int\) with silver\.latest\.name \(no such column\)"):
        lake.run()
