"""A snapshot beside changes: the table is the snapshot with the highest position and the changes after it, whatever came first."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import random
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.crashes import Crash, crash
from tests.fault_points import fault
from tests.resolved import resolved_flow
from tests.slices import of_week
from tests.spark.job import BRONZE, SILVER, backfill, job_of, plan_batch, table, write_table
from tests.spark.landed_snapshots import BRONZE_COLUMNS, LANDED_AT, LandedSnapshots
from tidegate.errors import RewriteRefusedError
from tidegate.kinds.rows_with_snapshots import compare
from tidegate.kinds.rows_with_snapshots.run import KIND
from tidegate.runs.verify.pins import Pins
from tidegate.sources.snapshots import beside
from tidegate.spark.batch import micro_batch
from tidegate.spark.batch.split import Decision
from tidegate.spark.batch.work import Staged
from tidegate.spark.lake import tables
from tidegate.spec import ChangeRecords, FileSource, Flow, Intervals, Pipeline, RewriteLimits, SnapshotFeed, Table

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyspark.sql import SparkSession

    from tidegate.reports.ledger_line import LedgerLine
    from tidegate.sources.snapshots.beside import Comparison
    from tidegate.spark.job import Job

pytestmark = pytest.mark.jvm

Change = tuple[int, int, int | None]
"""A key, its place in the order, and an amount; None for a delete."""
Row = tuple[int | None, int | None, int | str]
"""Of a snapshot: a key, the position and an amount; a text breaks a rule."""

CHANGES = dataclasses.replace(
    BRONZE,
    source=FileSource(
        path="orders",
        format="json",
        schema="id INT NOT NULL, at INT NOT NULL, amount INT, op STRING",
        changes=ChangeRecords(operation="op", writes=("w",), deletes=("d",)),
    ),
)
EXPORTS = Flow(
    name="exports",
    source=FileSource(
        path="exports",
        format="json",
        schema="id INT NOT NULL, at INT, amount INT",
        intervals=Intervals("dt=%Y-%m-%d", marker="dt=%Y-%m-%d/_SUCCESS"),
    ),
    target=Table("bronze.exports"),
)
HEALED = dataclasses.replace(
    SILVER, snapshots=SnapshotFeed("bronze.exports"), rewrite_limits=RewriteLimits(deleted_share=1)
)


class Lake:
    """A table that follows changes, and snapshots that land beside them."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark, self.folder, self.flow = spark, folder, HEALED
        self.changes: list[tuple[Any, ...]] = []
        self.snapshots = LandedSnapshots()
        self.batches = self.landed = self.refresh = 0

    def job(self, **options: Any) -> Job:
        job = job_of(self.spark, self.folder, self.flow, refresh=self.refresh, **options)
        pipeline = Pipeline(name="orders", flows=(CHANGES, EXPORTS, self.flow))
        return dataclasses.replace(job, resolved=resolved_flow(self.flow, pipeline))

    def change(self, *changes: Change, **options: Any) -> LedgerLine:
        """A batch of changes, which bronze gets too."""
        number = self.batches
        lines = [
            json.dumps({"op": "d" if amount is None else "w", "id": key, "at": at, "amount": amount})
            for key, at, amount in changes
        ]
        batch = [
            (f"c{number}#{line}", text, None, LANDED_AT, "file:///c", 1000 * number + line, LANDED_AT)
            for line, text in enumerate(lines)
        ]
        job = self.job(**options)
        plan_batch(job, number)
        feed = self.spark.createDataFrame([(*row, "insert") for row in batch], f"{BRONZE_COLUMNS}, _change_type string")
        micro_batch.process(job, feed.coalesce(1), number)
        self.batches += 1
        self.changes += batch
        return job.run.report.batches[0]

    def land(self, *rows: Row) -> None:
        """A complete snapshot, in bronze and announced."""
        self.landed += 1
        path, modified = f"/exports/{self.landed}.json", LANDED_AT + timedelta(hours=self.landed)
        lines = [json.dumps({"id": key, "at": at, "amount": amount}) for key, at, amount in rows]
        job, name = self.job(), f"2026-01-{self.landed:02}"
        self.snapshots.land(
            job, job.place.layout.table("bronze.exports"), name, path, modified, lines, has_file=bool(lines)
        )

    def compare(self, **options: Any) -> LedgerLine | None:
        """The ledger line of the snapshot announced last; None if it was only compared."""
        job = self.job(**options)
        compare.compare_announced(job)
        self.notes = job.run.report.notes
        batches = job.run.report.batches
        assert all(each.imbalance() == 0 for each in batches)
        return batches[-1] if batches else None

    def orders(self) -> dict[int, int | None]:
        return {row["id"]: row["amount"] for row in table(self.job().target) if not row["_deleted"]}

    def comparison(self) -> Comparison:
        return list(beside.comparisons(self.job().place).values())[-1]

    def expect_verified(self) -> None:
        """Changes and snapshot, derived again, make the rows of the table."""
        job = self._with_bronze()
        pins = Pins(
            version=tables.version(self.spark, job.live),
            batches={job.place: self.batches - 1},
            source_versions={"bronze.orders": tables.version(self.spark, job.place.layout.table("bronze.orders"))},
            entries_version=None,
            planned_at_ms=0,
        )
        sides = KIND.sides(job.doing(pins), pins)
        names = [name for name in sides.actual.columns if name not in sides.ignored]
        expected, actual = sides.expected.select(*names), sides.actual.select(*names)
        assert (expected.exceptAll(actual).collect(), actual.exceptAll(expected).collect()) == ([], [])
        job.release()

    def backfilled(self) -> tuple[int, dict[int, int | None]]:
        """How many rows a backfill of every key deletes, and what it writes."""
        job = self._with_bronze()
        version = tables.version(self.spark, job.place.layout.table("bronze.orders"))
        pending = dataclasses.replace(backfill(), source_version=version, window={"from": "2026-01-01"})
        job = job.doing(pending)
        keys = tables.read(self.spark, job.live).select("id").distinct()
        split = KIND.split_keys(job, keys, pending, Decision(quarantined=False, written=False))
        assert split is not None and split.changes is not None
        rows = split.changes.where("_op = 'upsert' AND NOT _deleted").collect()
        present = {row["id"] for row in table(job.live) if not row["_deleted"]}
        deleted = {row["id"] for row in split.changes.where("_op = 'delete'").collect()} & present
        job.release()
        return len(deleted), {row["id"]: row["amount"] for row in rows}

    def _with_bronze(self) -> Job:
        job = self.job()
        assert job.source_table is not None
        write_table(job.source_table, BRONZE_COLUMNS, *self.changes)
        return job


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path) -> Lake:
    return Lake(spark, tmp_path)


def keys(line: LedgerLine | None) -> tuple[int, int, int, int, int]:
    assert line is not None
    return line.groups, line.upserted, line.deleted, line.unchanged, line.overtaken


def test_a_later_snapshot_heals_the_table_and_leaves_keys_with_a_later_change(lake: Lake) -> None:
    lake.change((1, 1, 10), (2, 2, 20), (3, 3, 30), (4, 25, 40), (5, 26, None), (6, 4, 60))
    lake.land((1, 20, 10), (2, 20, 22), (4, 20, 41), (5, 20, 50), (7, 20, 70))

    line = lake.compare()

    assert keys(line) == (7, 2, 2, 1, 2)
    assert line is not None
    assert (line.kind, line.read, line.written, line.app_id) == ("snapshot", 5, 5, "orders/silver/v1/0/snapshot")
    assert lake.orders() == {1: 10, 2: 22, 4: 40, 7: 70}
    compared = lake.comparison()
    assert [(row.effect, row.key, row.columns) for row in compared.rows] == [
        ("different", '{"id":2}', ("amount",)),
        ("missing", '{"id":7}', ()),
        ("unexpected", '{"id":3}', ()),
        ("unexpected", '{"id":6}', ()),
    ]
    assert lake.notes == [
        "snapshot 2026-01-01 was written: 1 equal, 1 missing, 1 different, 2 unexpected, 2 with a later change; "
        "`tidegate snapshots orders silver` names keys"
    ]
    assert "10" not in lake.notes[0].replace("2026-01-01", "")
    assert lake.compare() is None and lake.notes == [], "it was compared"


@pytest.mark.nightly
def test_changes_up_to_the_position_count_no_more_also_of_keys_that_the_table_never_had(lake: Lake) -> None:
    lake.change((1, 1, 10))
    lake.land((1, 20, 10), (2, 20, 22))
    lake.compare()

    line = lake.change((1, 19, 11), (2, 20, 23), (8, 12, 80), (9, 21, 90), (2, 21, None))

    assert (line.read, line.written, line.superseded + line.deduplicated) == (5, 2, 3)
    assert lake.orders() == {1: 10, 9: 90}
    lake.expect_verified()


@pytest.mark.nightly
def test_a_first_snapshot_is_followed_by_the_changes_after_its_position(lake: Lake) -> None:
    lake.change((9, 2, None))
    lake.land((1, 5, 10), (2, 5, 20))
    assert keys(lake.compare()) == (2, 2, 0, 0, 0)
    lake.change((1, 4, 1), (1, 6, 11), (2, 7, None), (3, 8, 30))

    assert lake.orders() == {1: 11, 3: 30}
    lake.expect_verified()


@pytest.mark.nightly
def test_what_has_no_position_of_its_own_is_only_compared(lake: Lake) -> None:
    lake.change((1, 1, 10), (2, 2, 20))
    version = tables.version(lake.spark, lake.job().target)
    cases: list[tuple[list[Row], str]] = [
        ([(1, None, 11), (3, None, 30)], "its rows have no position (at)"),
        ([(1, 5, 11), (3, 6, 30)], "its rows have several positions (at), as those of exports that overlap"),
        ([(1, 5, 11), (3, 5, "many")], "1 record of it breaks a rule (wrong_type(amount) 1)"),
        ([], "it has no rows, and so no position"),
    ]
    for number, (rows, why) in enumerate(cases, start=1):
        lake.land(*rows)

        assert lake.compare() is None

        assert lake.notes[0].startswith(f"snapshot 2026-01-{number:02} was only compared, because {why}: ")
        compared = lake.comparison()
        assert (compared.why, compared.position) == (why, ())
        assert compared.different + compared.missing + compared.unexpected == len(compared.rows) > 0
        assert lake.compare() is None and lake.notes == [], "it was compared"
    assert tables.version(lake.spark, lake.job().target) == version
    assert lake.orders() == {1: 10, 2: 20}

    lake.land((1, 20, 11), (1, 20, 12))
    line = lake.compare()
    assert line is not None
    assert (line.read, line.written, line.deduplicated, lake.orders()) == (2, 1, 1, {1: 12})
    assert lake.notes[0].startswith("snapshot 2026-01-05 has 1 row whose key a later row of it has, which counts")

    lake.land((1, 20, 13), (2, 20, 20))
    assert lake.compare() is None
    assert "because it is not after snapshot 2026-01-05, with which the table begins" in lake.notes[0]
    assert lake.orders() == {1: 12}


@pytest.mark.nightly
def test_a_snapshot_that_deletes_too_much_waits_for_the_accepted_number_or_another_one(lake: Lake) -> None:
    lake.flow = dataclasses.replace(HEALED, rewrite_limits=RewriteLimits())
    lake.change(*[(key, 1, key) for key in range(30)])
    lake.land(*[(key, 5, key) for key in range(18)])

    with pytest.raises(RewriteRefusedError, match=r"delete 12 of 30 rows \(40.0%\).*silver:deleted=12"):
        lake.compare()
    assert len(lake.orders()) == 30
    lake.land(*[(key, 6, key) for key in range(17)])
    with pytest.raises(RewriteRefusedError, match="delete 13 of 30 rows"):
        lake.compare(accept=("silver:deleted=12",))
    assert keys(lake.compare(accept=("silver:deleted=13",))) == (30, 0, 13, 17, 0)
    assert sorted(lake.orders()) == list(range(17))


@pytest.mark.nightly
def test_a_table_that_is_derived_again_begins_with_the_snapshot(lake: Lake) -> None:
    changes: list[Change] = [(1, 1, 10), (2, 2, 20), (3, 25, 30)]
    lake.change(*changes)
    lake.land((1, 20, 11))
    lake.compare()
    assert lake.orders() == {1: 11, 3: 30}

    lake.refresh, lake.batches = 1, 0
    lake.change(*changes, work=Staged())
    lake.compare(work=Staged())

    staged = {row["id"]: row["amount"] for row in table(lake.job().place.staging) if not row["_deleted"]}
    assert staged == {1: 11, 3: 30}


STEPS = ("before:write_target", "after:write_target", "before:record_batch", "after:record_batch")


@pytest.mark.nightly
def test_a_crash_at_any_step_leaves_what_the_next_run_finishes(lake: Lake) -> None:
    lake.change((1, 1, 10))
    for number, step in enumerate(STEPS):
        position = 20 * (number + 1)
        lake.change((2, position - 5, 20))
        lake.land((1, position, number))

        with fault(f"{step}:silver", crash), pytest.raises(Crash):
            lake.compare()
        line = lake.change((4, position - 4, 40), (2, position - 3, 25))
        is_written = step != "before:write_target"
        assert line.superseded == (2 if is_written else 0), "what the table has of the snapshot counts"
        if step == "after:write_target":
            KIND.finish(lake.job())
            known = beside.read(lake.job().place)
            assert known.begun is None and known.base is not None and known.base.position == (str(position),)
        lake.compare()
        assert lake.orders() == {1: number}
    lines = [each for each in table(lake.job().place.of_pipeline.ops("ledger")) if each["kind"] == "snapshot"]
    assert sorted(each["batch_id"] for each in lines) == list(range(len(STEPS)))


def folded(changes: Sequence[Change], positioned: Mapping[int, Mapping[int, int]]) -> dict[int, int | None]:
    """What plain Python makes of all changes and all snapshots, one after the other in their order."""
    events: list[tuple[int, int, Any]] = [(at, 0, (key, amount)) for key, at, amount in changes]
    events += [(at, 1, rows) for at, rows in positioned.items()]
    state: dict[int, int | None] = {}
    for _, is_snapshot, event in sorted(events, key=lambda each: each[:2]):
        if is_snapshot:
            state = dict(event)
        elif event[1] is None:
            state.pop(event[0], None)
        else:
            state[event[0]] = event[1]
    return state


def arrivals(rng: random.Random, events: int) -> Iterator[list[Change] | tuple[int, dict[int, int]]]:
    """Changes of a table, of which some are lost and many are late, and exports of it, of which some are late."""
    truth: dict[int, int] = {}
    waiting: list[Change] = []
    late: list[tuple[int, dict[int, int]]] = []
    at = 0
    for _ in range(events):
        for _ in range(rng.randrange(4, 12)):
            at, key = at + 1, rng.randrange(12)
            amount = None if rng.random() < 0.25 else rng.randrange(5)
            if amount is None:
                truth.pop(key, None)
            else:
                truth[key] = amount
            if rng.random() < 0.8:
                waiting.append((key, at, amount))
        rng.shuffle(waiting)
        cut = rng.randrange(len(waiting) + 1)
        if waiting[:cut]:
            yield waiting[:cut]
        del waiting[:cut]
        if rng.random() < 0.6 and truth:
            late.append((at, dict(truth)))
            rng.shuffle(late)
            if rng.random() < 0.7:
                yield late.pop()
    if waiting:
        yield waiting
    yield from late


@pytest.mark.parametrize(
    ("seed", "events"),
    [(3, 3), *[pytest.param(seed, 9, marks=pytest.mark.nightly) for seed in of_week(range(20, 40), 2)]],
)
def test_the_table_is_a_fold_over_all_changes_and_snapshots_whatever_step_crashes(
    lake: Lake, seed: int, events: int
) -> None:
    rng = random.Random(seed)
    changes: list[Change] = []
    positioned: dict[int, dict[int, int]] = {}
    crashes = compared = 0
    lake.change((99, 0, None))
    for arrival in arrivals(rng, events):
        if isinstance(arrival, list):
            lake.change(*arrival)
            changes += arrival
        else:
            at, rows = arrival
            positioned[at] = rows
            lake.land(*[(key, at, amount) for key, amount in rows.items()])
            step = rng.choice((None, *STEPS))
            with fault(f"{step}:silver", crash) if step else contextlib.nullcontext():
                try:
                    lake.compare()
                except Crash:
                    crashes += 1
            lake.compare()
            compared += 1
        assert lake.orders() == folded(changes, positioned), (seed, arrival)
    assert compared and (crashes or events < 9)
    if events < 9:
        return
    lake.expect_verified()
    deleted, written = lake.backfilled()
    assert (deleted, written) == (0, folded(changes, positioned))
