"""A history of snapshots is a fold over all of them, in whatever order they came, on small frames."""

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
from tests.slices import of_week
from tests.spark.job import SILVER, job_of, plan_batch, reading, table
from tests.spark.landed_snapshots import LANDED_AT, LandedSnapshots
from tests.spark.snapshot_oracle import Record, Version, folded
from tidegate.errors import RewriteRefusedError, SpecError
from tidegate.kinds.snapshot_histories.run import KIND
from tidegate.runs.verify.pins import Pins
from tidegate.spark.batch import micro_batch
from tidegate.spark.lake import tables
from tidegate.spec import FileSource, Intervals, RewriteLimits, SnapshotFeed, Table

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from tidegate.reports.ledger_line import LedgerLine
    from tidegate.spark.job import Job

pytestmark = pytest.mark.jvm

KEPT = Table("silver.orders", keys=("id",), sequence_by=("snapshot_at",), history="scd2", untracked=("at",))
HISTORY = dataclasses.replace(SILVER, source=SnapshotFeed("bronze.orders"), target=KEPT)
ANY = RewriteLimits(deleted_share=1)


class Histories:
    """Snapshots of one table, which land in bronze in any order."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark, self.folder = spark, folder
        self.flow = HISTORY
        self.snapshots, self.landed = LandedSnapshots(), 0

    def job(self, **options: Any) -> Job:
        return job_of(self.spark, self.folder, self.flow, **options)

    def land(self, day: int, records: Sequence[Record]) -> None:
        """A complete snapshot of a day, in bronze and announced."""
        self.landed += 1
        path, modified = f"/orders/{day}-{self.landed}.json", LANDED_AT + timedelta(hours=self.landed)
        lines = ['{"id": 1, "amou' if key is None else _line(key, amount, at) for key, amount, at in records]
        job = self.job()
        assert job.source_table is not None
        self.snapshots.land(job, job.source_table, f"2026-01-{day:02}", path, modified, lines, has_file=bool(lines))

    def process(self, batch_id: int, **options: Any) -> LedgerLine | None:
        """The ledger line of a batch; None if it writes nothing."""
        job = self.job(**options)
        plan_batch(job, batch_id)
        micro_batch.process(job, self.spark.range(1), batch_id)
        line = job.run.report.batches[0] if job.run.report.batches else None
        assert line is None or line.imbalance() == 0
        self.notes = job.run.report.notes
        return line

    def versions(self) -> list[Version]:
        path = self.job().target
        rows = table(path) if tables.exists(path) else []
        assert all(row["_change"] in ("version", "delete") for row in rows)
        return sorted(
            (row["id"], row["valid_from"].day, row["valid_to"] and row["valid_to"].day, row["amount"], row["at"])
            for row in rows
            if not row["_deleted"]
        )

    def expect_verified(self, batch_id: int) -> None:
        """All snapshots derived again make the rows of the table."""
        job = self.job()
        entries = tables.version(self.spark, job.place.quarantine) if tables.exists(job.place.quarantine) else None
        pins = Pins(
            version=tables.version(self.spark, job.live),
            batches={job.place: batch_id},
            source_versions={"bronze.orders": 0},
            entries_version=entries,
            planned_at_ms=0,
        )
        sides = KIND.sides(job.doing(pins), pins)
        names = [name for name in sides.actual.columns if name not in sides.ignored]
        expected, actual = sides.expected.select(*names), sides.actual.select(*names)
        assert (expected.exceptAll(actual).collect(), actual.exceptAll(expected).collect()) == ([], [])
        job.release()


def _line(key: int, amount: int | str, at: int) -> str:
    return json.dumps({"id": key, "at": at, "amount": amount})


@pytest.fixture
def histories(spark: SparkSession, tmp_path: Path) -> Histories:
    return Histories(spark, tmp_path)


@pytest.mark.nightly
def test_versions_begin_and_end_with_snapshots_and_a_late_one_is_inserted(histories: Histories) -> None:
    histories.flow = dataclasses.replace(HISTORY, rewrite_limits=ANY)
    snapshots: dict[int, list[Record]] = {
        1: [(1, 10, 1), (2, 20, 1), (3, 30, 1)],
        3: [(1, 10, 3), (2, 25, 3)],
        5: [(1, 10, 5), (2, 25, 5), (3, 30, 5)],
        2: [(1, 11, 2), (2, 25, 2), (4, "many", 2), (4, 40, 2), (2, 24, 2), (2, 25, 2)],
        6: [],
    }
    landed: dict[int, list[Record]] = {}
    for batch_id, (day, records) in enumerate(snapshots.items()):
        histories.land(day, records)
        landed[day] = records
        line = histories.process(batch_id)
        assert line is not None and line.kind == "snapshot"
        assert histories.versions() == folded(landed), f"day {day}"
        if day == 2:
            assert (line.read, line.written, line.quarantined, line.deduplicated) == (6, 3, 1, 2)
            assert any("2 rows whose key a later row of it has" in note for note in histories.notes)
    assert histories.process(5) is None, "every snapshot was compared"
    histories.expect_verified(4)
    assert all(end == 6 for _, begin, end, *_ in histories.versions() if begin == 5)


class Arrivals:
    """Random snapshots of a week: in any order, some again with other rows, some keys in quarantine."""

    def __init__(self, seed: int, keys: int) -> None:
        self.rng, self.keys = random.Random(seed), keys

    def records(self) -> list[Record]:
        rng = self.rng
        if rng.random() < 0.08:
            return []
        records: list[Record] = [
            (key, rng.randrange(3), rng.randrange(3)) for key in range(self.keys) if rng.random() < 0.7
        ]
        records += [(key, rng.randrange(3), 1) for key in rng.sample(range(self.keys), self.keys // 20)]
        broken = {key for key in range(self.keys) if rng.random() < 0.1} if rng.random() < 0.5 else set()
        records = [each for each in records if each[0] not in broken] + [(key, "many", 1) for key in sorted(broken)]
        if records and rng.random() < 0.15:
            records.append((None, 1, 1))
        return records

    def __iter__(self) -> Iterator[tuple[int, list[Record]]]:
        days = list(range(1, 9))
        self.rng.shuffle(days)
        for day in [*days[: self.rng.randrange(4, 8)], *self.rng.sample(days[:4], 2)]:
            yield day, self.records()


STEPS = (
    "before:write_quarantine",
    "after:write_quarantine",
    "before:write_target",
    "after:write_target",
    "after:record_batch",
)


@pytest.mark.parametrize(
    ("seed", "keys", "most"),
    [(3, 20, 2), *[pytest.param(seed, 500, None, marks=pytest.mark.nightly) for seed in of_week(range(10, 20), 1)]],
)
def test_a_history_is_what_plain_python_makes_of_all_snapshots_in_any_order(
    histories: Histories, seed: int, keys: int, most: int | None
) -> None:
    """Each key has a history of its own: 500 of a seed that runs at night, and 20 of two arrivals."""
    histories.flow = dataclasses.replace(HISTORY, rewrite_limits=ANY)
    rng, landed, crashes, batch_id = random.Random(seed), dict[int, list[Record]](), 0, 0
    arrivals = list(Arrivals(seed, keys))[:most]
    for day, records in arrivals:
        if not records and day in landed:
            continue
        histories.land(day, records)
        landed[day] = records
        if rng.random() < 0.4:
            with contextlib.suppress(Crash), fault(f"{rng.choice(STEPS)}:silver", crash):
                crashes += 1
                histories.process(batch_id)
                crashes -= 1
        histories.process(batch_id)
        batch_id += 1
        assert histories.versions() == folded(landed), (seed, day, list(landed))
    assert crashes
    histories.expect_verified(batch_id - 1)


@pytest.mark.nightly
def test_a_refused_snapshot_waits_is_accepted_or_gives_way_to_the_next(histories: Histories) -> None:
    everyone: list[Record] = [(key, 1, 1) for key in range(30)]
    histories.land(1, everyone)
    histories.process(0)
    histories.land(2, [])
    with pytest.raises(RewriteRefusedError, match=r"delete 30 of 30 rows.*silver:deleted=30"):
        histories.process(1)
    with pytest.raises(RewriteRefusedError, match=r"snapshot 2026-01-02"):
        histories.process(1)
    histories.land(3, everyone[:29])

    histories.process(1)

    assert "snapshot 2026-01-02 was refused and is no part of the history: land it again" in " ".join(histories.notes)
    assert histories.versions() == folded({1: everyone, 3: everyone[:29]})
    assert histories.process(2) is None
    histories.land(2, everyone[:10])
    with pytest.raises(RewriteRefusedError, match=r"delete 20 of 30 rows"):
        histories.process(2)
    histories.land(4, everyone)
    histories.process(2, accept=("silver:deleted=20",))
    assert histories.versions() == folded({1: everyone, 2: everyone[:10], 3: everyone[:29]}), "it was accepted"
    histories.process(3)
    assert histories.versions() == folded({1: everyone, 2: everyone[:10], 3: everyone[:29], 4: everyone})
    histories.expect_verified(3)


@pytest.mark.nightly
def test_a_version_begins_at_its_column_where_that_can_be_right(histories: Histories) -> None:
    """Of the column ``at``, as hours of January: not one after the interval of the snapshot, nor one before the row before it."""

    def with_time(rows: DataFrame) -> DataFrame:
        from pyspark.sql import functions as F

        return rows.withColumn("changed_at", F.expr("TIMESTAMP '2026-01-01' + make_interval(0, 0, 0, 0, at)"))

    source = SnapshotFeed("bronze.orders", valid_from="changed_at")
    target = dataclasses.replace(KEPT, untracked=("at", "changed_at"))
    histories.flow = dataclasses.replace(HISTORY, source=source, target=target, rewrite_limits=ANY)
    daily = FileSource(
        path="orders", format="json", schema="id INT, at INT, amount INT", intervals=Intervals("dt=%Y-%m-%d", files=1)
    )
    made = histories.job
    histories.job = lambda **options: reading(made(**options), daily)  # type: ignore[method-assign]
    hours = {1: (5, -50), 2: (30, 60), 3: (30, 70), 4: (), 5: (30, 100)}
    for batch_id, (day, at) in enumerate(hours.items()):
        histories.land(day, [(key, day, hour) for key, hour in enumerate(at)])
        histories.process(batch_id, transform=with_time)

    begins = {
        (row["id"], row["amount"]): (row["valid_from"] - LANDED_AT, row["valid_to"] and row["valid_to"] - LANDED_AT)
        for row in table(histories.job().target)
        if not row["_deleted"]
    }
    hour = timedelta(hours=1)
    assert begins == {
        (0, 1): (5 * hour, 30 * hour),
        (0, 2): (30 * hour, 48 * hour),
        (0, 3): (48 * hour, 72 * hour),
        (0, 5): (96 * hour, None),
        (1, 1): (-50 * hour, 24 * hour),
        (1, 2): (24 * hour, 70 * hour),
        (1, 3): (70 * hour, 72 * hour),
        (1, 5): (100 * hour, None),
    }


def test_a_column_of_the_name_of_the_time_is_refused(histories: Histories) -> None:
    histories.land(1, [(1, 1, 1)])
    with pytest.raises(SpecError, match=r"makes the column 'snapshot_at'.*return it under another name"):
        histories.process(0, transform=lambda rows: rows.selectExpr("*", "1 AS snapshot_at"))
    histories.flow = dataclasses.replace(HISTORY, source=SnapshotFeed("bronze.orders", valid_from="amount"))
    with pytest.raises(SpecError, match=r"valid_from names 'amount', which is int.*as a date or a timestamp"):
        histories.process(0)
