"""The rows of a scope give way as a whole to what its newest record makes. Here an order is a record and the scope of its items."""

from __future__ import annotations

import dataclasses
import random
import re
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.crashes import Crash, crash
from tests.spark import job as jobs
from tests.spark.batch.splits import NEW, Open, counts, refused, write
from tests.spark.job import LATEST, changes, plan_batch, table, transaction, write_table
from tests.with_fields import with_fields
from tidegate.lake.place import PipelinePlace
from tidegate.spark.batch import micro_batch, scopes
from tidegate.spark.batch.groups import split_groups
from tidegate.spark.batch.rows import BOOKKEEPING, replace_rows, split_rows
from tidegate.spark.lake import tables, writes
from tidegate.spark.reprocessing.replay import Replay
from tidegate.spec import ChangeFeed, Flow, Table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession

    from tidegate.spark.batch.split import Split
    from tidegate.spark.job import Job

pytestmark = pytest.mark.jvm

ORDERS = "id int, at int, items array<string>"
ITEMS = dataclasses.replace(
    LATEST, target=Table("silver.latest", keys=("id", "sku"), replace_by=("id",), sequence_by=("at",))
)


def exploded(rows: DataFrame) -> DataFrame:
    """One row per item; the price tells the version. An order without items is deleted, free items are filtered."""
    from pyspark.sql import functions as F

    no_items = F.coalesce(F.size("items"), F.lit(0)) < 1
    items = rows.withColumns({"sku": F.explode_outer("items"), "_deleted": F.col("_deleted") | no_items})
    filtered = F.when(F.col("sku") == "free", F.lit("free_item"))
    return items.withColumns({"price": F.col("at") * 10, "_filtered": filtered}).drop("items")


def split(job: Job, *orders: tuple[Any, ...], batch_id: int = 0) -> Split:
    """Split a batch. An order is ``id, at, items`` and, optionally, change type and version."""
    result = split_rows(job, changes(job.spark, ORDERS, *orders), batch_id, NEW)
    assert result is not None
    assert result.prepared.imbalance() == 0
    return result


def process(job: Job, *orders: tuple[Any, ...], batch_id: int = 0) -> dict[str, int]:
    """Split and write a batch; the counts of its ledger line."""
    return counts(write(job, split(job, *orders, batch_id=batch_id)))


def reading_items(job: Job) -> Job:
    """The job of a flow whose source is the table of items."""
    return dataclasses.replace(job, resolved=dataclasses.replace(job.resolved, writer=ITEMS))


def items(job: Job) -> list[tuple[Any, ...]]:
    """Every stored row; a tombstone ends with True."""
    return [(row["id"], row["sku"], row["price"], row["_deleted"]) for row in table(job.target)]


def test_items_that_the_newest_version_lacks_leave_and_a_delete_by_the_key_of_the_order_empties_it(
    latest: Open,
) -> None:
    from pyspark.sql import functions as F

    job = latest(exploded, flow=ITEMS)
    assert process(job, (1, 1, ["a", "b"]), (2, 1, ["a"])) == {"read": 2, "written": 2}

    line = process(job, (1, 2, ["a", "c"], "update_postimage", 2), (2, 2, None, "delete", 2), batch_id=1)

    assert line == {"read": 2, "written": 2}
    assert items(job) == [(1, "a", 20, False), (1, "c", 20, False), (2, None, 20, True)]
    late = process(job, (1, 1, ["b"], "insert", 3), (2, 1, ["a"], "insert", 3), batch_id=2)
    assert late == {"read": 2, "superseded": 2}
    assert items(job) == [(1, "a", 20, False), (1, "c", 20, False), (2, None, 20, True)]

    feed = job.spark.read.format("delta").option("readChangeFeed", "true").option("startingVersion", 1)
    batch = feed.option("endingVersion", 1).load(str(job.target))
    assert sorted((row["id"], row["sku"] or "", row["_change_type"]) for row in batch.collect()) == [
        (1, "a", "update_postimage"),
        (1, "a", "update_preimage"),
        (1, "b", "delete"),
        (1, "c", "insert"),
        (2, "", "insert"),
        (2, "a", "delete"),
    ]
    per_item = Flow(
        name="gold",
        source=ChangeFeed("silver.latest"),
        transform="orders:daily",
        target=Table("gold.orders", keys=("sku",)),
    )
    gold = reading_items(latest(lambda rows: rows.groupBy("sku").agg(F.count("*").alias("orders")), flow=per_item))
    write_table(gold.target, "sku string, orders bigint", ("a", 2), ("b", 1))
    recomputed = split_groups(gold, batch, 0, NEW)
    assert recomputed is not None
    line_of_gold = write(gold, recomputed)
    assert (line_of_gold.read, line_of_gold.groups) == (4, 3), "the tombstone of order 2 is no row"
    assert (line_of_gold.upserted, line_of_gold.deleted) == (2, 1)
    assert table(gold.target) == [{"sku": "a", "orders": 1}, {"sku": "c", "orders": 1}]
    keys_of_groups = job.spark.createDataFrame([(20, "insert")], "price int, _change_type string")
    assert scopes.without_tombstones(gold, keys_of_groups).count() == 1, "a backfill's feed has no other column"


@pytest.mark.nightly
def test_items_outside_of_the_declared_days_leave_their_scope_and_may_empty_it(latest: Open) -> None:
    from pyspark.sql import functions as F

    limited = with_fields(ITEMS.target, event_time="on", first_day="2026-01-02")
    job = latest(
        lambda rows: exploded(rows).withColumn("on", F.col("sku").cast("date")),
        flow=dataclasses.replace(ITEMS, target=limited),
    )
    process(job, (1, 1, ["2026-01-02", "2026-01-03"]), (2, 1, ["2026-01-04"]))

    line = process(
        job,
        (1, 2, ["2025-12-31", "2026-01-03"], "update_postimage", 2),
        (2, 2, ["2026-01-01"], "update_postimage", 2),
        batch_id=1,
    )

    assert line == {"read": 2, "written": 2}
    assert items(job) == [(1, "2026-01-03", 20, False), (2, None, None, True)]
    assert process(job, (2, 1, ["2026-01-04"], "insert", 3), batch_id=2) == {"read": 1, "superseded": 1}


Order = tuple[int, int, "list[str | None] | None"]


def history(seed: int, orders: int) -> list[Order]:
    """Versions of orders as they arrive: many late, some delivered twice, deleted, without items, or refused."""
    generator = random.Random(seed)
    versions: list[Order] = []
    for number in range(orders):
        for at in range(1, generator.randint(1, 4) + 1):
            chosen = generator.sample(["a", "b", "c", "free", None], generator.randint(0, 3))
            versions += [(number, at, None if generator.random() < 0.15 else chosen)] * generator.choice((1, 1, 1, 2))
    generator.shuffle(versions)
    return versions


def oracle(batches: Sequence[Sequence[tuple[int, Order]]]) -> tuple[list[tuple[Any, ...]], list[Counter[str]]]:
    """The rows of the table after all batches, and the dispositions of each batch, in plain Python."""
    state: dict[int, tuple[tuple[int, int], list[str]]] = {}
    dispositions = []
    for batch in batches:
        good = [(arrival, order) for arrival, order in batch if None not in (order[2] or ())]
        line = Counter({"quarantined": len(batch) - len(good)})
        newest = {
            order[0]: (order[1], arrival) for arrival, order in sorted(good, key=lambda each: (each[1][1], each[0]))
        }
        for arrival, (number, at, chosen) in good:
            kept = [sku for sku in chosen or () if sku is not None and sku != "free"]
            is_newest = newest[number] == (at, arrival)
            if is_newest and (number not in state or state[number][0] < (at, arrival)):
                line["written"] += 1
                state[number] = (at, arrival), kept
            elif chosen == ["free"]:
                line["filtered"] += 1
            else:
                line["superseded" if is_newest else "deduplicated"] += 1
        dispositions.append(+line)
    rows = [(number, sku, at * 10, False) for number, ((at, _), kept) in state.items() for sku in kept]
    empty = [(number, None, None, True) for number, (_, kept) in state.items() if not kept]
    return sorted(rows + empty, key=repr), dispositions


def run(job: Job, batches: Sequence[Sequence[tuple[int, Order]]], crash_at: Sequence[str] = ()) -> list[Counter[str]]:
    """Run batches through all six steps and return their dispositions; ``crash_at`` names the step before which each one crashes."""

    for number, batch in enumerate(batches):
        plan_batch(job, number)
        rows = [(*order, "insert", arrival) for arrival, order in batch]
        if number < len(crash_at):
            with pytest.MonkeyPatch.context() as patch, pytest.raises(Crash):
                patch.setattr(micro_batch, crash_at[number], crash)
                micro_batch.process(job, changes(job.spark, ORDERS, *rows), number)
        micro_batch.process(job, changes(job.spark, ORDERS, *rows), number)
    ledger = sorted(table(PipelinePlace(job.place.layout, "orders").ops("ledger")), key=lambda line: line["batch_id"])
    assert [line["batch_id"] for line in ledger] == list(range(len(batches)))
    names = ("written", "quarantined", "superseded", "deduplicated")
    return [
        +Counter({**{name: line[name] for name in names}, "filtered": sum(dict(line["filtered"]).values())})
        for line in ledger
    ]


@pytest.mark.nightly
def test_the_newest_version_of_each_order_wins_as_a_whole_however_the_history_is_cut(
    latest: Open, tmp_path_factory: pytest.TempPathFactory, spark: SparkSession
) -> None:
    arrivals = list(enumerate(history(seed=12, orders=60)))
    cuts = sorted(random.Random(12).sample(range(1, len(arrivals)), 3))
    batches = [arrivals[start:end] for start, end in zip([0, *cuts], [*cuts, len(arrivals)], strict=True)]
    in_batches = latest(exploded, flow=ITEMS)
    at_once = jobs.job_of(spark, tmp_path_factory.mktemp("once"), ITEMS, transform=exploded)

    for job, parts, crashes in ((in_batches, batches, ("write_target", "record_batch")), (at_once, [arrivals], ())):
        expected, dispositions = oracle(parts)
        assert {"written", "quarantined", "filtered", "deduplicated"} <= set(sum(dispositions, Counter()))
        assert run(job, parts, crashes) == dispositions
        stored = [(*row[:2], None if row[3] else row[2], row[3]) for row in items(job)]
        assert sorted(stored, key=repr) == expected

    commit = writes.swap(
        tables.read(spark, at_once.target),
        in_batches.target,
        ITEMS.target.keys,
        transaction(in_batches, 9),
        BOOKKEEPING,
    )
    changed = ("numTargetRowsInserted", "numTargetRowsUpdated", "numTargetRowsDeleted")
    assert [commit.metrics[name] for name in changed] == [0, 0, 0], "tombstones too are the same, whatever the batches"


@pytest.mark.nightly
def test_a_refused_version_leaves_the_scope_and_its_replay_obeys_the_order_of_the_scope(latest: Open) -> None:
    job = latest(exploded, flow=ITEMS)
    bad = split(
        job, (1, 1, ["a", "b"]), (1, 2, ["a", None], "insert", 2), (2, 1, ["a"]), (2, 2, ["b", None], "insert", 2)
    )
    assert refused(bad) == {"1|2|insert": ["null_key(sku)"], "2|2|insert": ["null_key(sku)"]}
    assert counts(write(job, bad)) == {"read": 4, "written": 2, "quarantined": 2}
    assert items(job) == [(1, "a", 10, False), (1, "b", 10, False), (2, "a", 10, False)]
    assert process(job, (1, 3, ["c"], "insert", 3), batch_id=1) == {"read": 1, "written": 1}

    replay = job.doing(Replay(by="ada", number=0, started_ms=0, entries=()))
    corrected = process(replay, (1, 2, ["a"], "insert", 2), (2, 2, ["b"], "insert", 2))

    assert corrected == {"read": 2, "written": 1, "superseded": 1}
    assert items(job) == [(1, "c", 30, False), (2, "b", 20, False)]


def test_rows_of_one_record_have_one_order_and_only_deletes_need_no_child_key(latest: Open) -> None:
    from pyspark.sql import functions as F

    def with_sequence_of_item(rows: DataFrame) -> DataFrame:
        made = exploded(rows)
        of_item = F.when(F.col("sku") == "a", F.col("at") - 5).otherwise(F.col("at"))
        return made.withColumns({"at": of_item, "id": F.when(F.col("id") > 0, F.col("id"))})

    job = latest(with_sequence_of_item, flow=ITEMS)

    result = split(
        job,
        *((1, 7, ["a", "b"], "insert", 2), (1, 6, ["c"])),
        (2, 1, []),
        (3, 1, [None]),
        *((0, 1, []), (0, 1, ["free"], "insert", 2)),
    )

    assert refused(result) == {"3|1|insert": ["null_key(sku)"], "0|1|insert": ["null_key(id)"]}
    assert counts(write(job, result)) == {
        "read": 6,
        "written": 2,
        "deduplicated": 1,
        "quarantined": 2,
        "filtered": 1,
    }
    assert items(job) == [(1, "a", 70, False), (1, "b", 70, False), (2, None, 10, True)]


@pytest.mark.nightly
def test_a_backfill_replaces_whole_scopes(latest: Open) -> None:
    job = latest(exploded, flow=ITEMS)
    process(job, (1, 1, ["a", "b"]), (2, 1, ["a", "b"]), (3, 1, ["a"]), (4, 1, ["a"]))
    keys = job.spark.createDataFrame([(1,), (2,), (3,)], "id int")
    own = job.doing(jobs.backfill(7))

    outside = (4, 1, ["z"])
    feed = changes(job.spark, ORDERS, (1, 1, ["a", "b"]), (2, 1, ["c"]), outside)
    result = replace_rows(own, feed, keys, 7, NEW)

    assert result is not None
    line = write(own, result)
    assert (line.groups, line.upserted, line.deleted, line.unchanged) == (6, 1, 3, 2)
    assert items(job) == [(1, "a", 10, False), (1, "b", 10, False), (2, "c", 10, False), (4, "a", 10, False)]


def test_a_flow_that_copies_the_rows_reads_no_tombstones_of_scopes(latest: Open) -> None:
    copy = dataclasses.replace(LATEST, target=Table("silver.latest", keys=("id", "sku"), sequence_by=("at",)))
    job = reading_items(latest(flow=copy))
    feed = changes(
        job.spark, "id int, sku string, at int, _deleted boolean", (1, None, 2, True), (1, "a", 1, False, "delete")
    )

    result = split_rows(job, feed, 0, NEW)

    assert result is not None
    assert counts(result.prepared) == {"read": 1, "written": 1}


@pytest.mark.nightly
def test_replacing_scopes_takes_at_most_one_more_job_per_batch(latest: Open) -> None:
    spark = latest().spark
    adaptive = spark.conf.get("spark.sql.adaptive.enabled")
    by_key = Table("silver.latest_by_key", keys=("id", "sku"), sequence_by=("at",))
    jobs = []
    # With adaptive execution, as in large runs, every shuffle is a job.
    spark.conf.set("spark.sql.adaptive.enabled", "false")
    try:
        for flow in (ITEMS, dataclasses.replace(LATEST, target=by_key)):
            job = latest(exploded, flow=flow)
            process(job, (1, 1, ["a", "b"]), (2, 1, ["a"]))
            spark.sparkContext.setJobGroup(flow.target.name, "")
            process(job, (1, 2, ["a", "c"], "insert", 2), (2, 1, ["a"]), batch_id=1)
            jobs.append(len(spark.sparkContext.statusTracker().getJobIdsForGroup(flow.target.name)))
    finally:
        spark.sparkContext.setJobGroup("", "")
        spark.conf.set("spark.sql.adaptive.enabled", str(adaptive))

    of_scopes, of_keys = jobs
    assert 0 < of_scopes <= of_keys + 1


def test_the_transform_of_the_guide_explodes_items_and_deletes_the_scope_of_an_order_without_items(
    spark: SparkSession,
) -> None:
    from pyspark.sql import DataFrame
    from pyspark.sql import functions as F

    guide = (Path(__file__).parents[3] / "docs/guides/add-a-pipeline.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"^```python\n(def order_items\((?s:.*?))^```$", guide, re.MULTILINE)
    names: dict[str, Any] = {"F": F, "DataFrame": DataFrame}
    exec(compile(code, "guide", "exec"), names)
    columns = "_row_id string, _origin string, order_id int, version int, kind string, items array<struct<sku:string,quantity:int>>"
    orders = [
        ("1", None, 1, 1, None, [("a", 1), ("b", 2)]),
        ("2", None, 2, 1, "update", []),
        ("3", None, 3, 1, "update", None),
        ("4", None, 4, 1, "delete", [("a", 1), ("b", 2)]),
        ("5", None, 5, 1, "update", [(None, 3)]),
    ]

    made = names["order_items"](spark.createDataFrame(orders, columns)).collect()

    assert [(row["_row_id"], row["sku"], row["quantity"], row["_deleted"]) for row in made] == [
        *(("1", "a", 1, False), ("1", "b", 2, False)),
        *((number, None, None, True) for number in "234"),
        ("5", None, 3, False),
    ]
