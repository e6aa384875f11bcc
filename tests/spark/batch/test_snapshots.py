"""Snapshots are compared with the table: what a batch writes, deletes, keeps and refuses, on small frames."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.crashes import Crash, crash
from tests.fault_points import fault
from tests.slices import of_week
from tests.spark.job import BRONZE, SILVER, job_of, plan_batch, table
from tests.spark.landed_snapshots import LANDED_AT, LandedSnapshots
from tidegate import json_codec
from tidegate.checkpoints import overrides
from tidegate.checkpoints.landing_folder import MOVED_FILES, MovedFiles
from tidegate.checkpoints.overrides import Override
from tidegate.checkpoints.refusal import DECISION, BatchDecision
from tidegate.errors import RewriteRefusedError
from tidegate.lake.place import Place
from tidegate.sources.snapshots import announcements
from tidegate.spark.batch import micro_batch
from tidegate.spec import SnapshotFeed, Table

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from tidegate.reports.ledger_line import LedgerLine
    from tidegate.spark.job import Job

pytestmark = pytest.mark.jvm

COMPARED = dataclasses.replace(
    SILVER, source=SnapshotFeed("bronze.orders"), target=Table("silver.orders", keys=("id",))
)


class Snapshots:
    """The snapshots of one table, which land in bronze one after the other."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark = spark
        self.folder = folder
        self.landed = LandedSnapshots()
        self.days = 0

    def job(self, **options: Any) -> Job:
        return job_of(self.spark, self.folder, COMPARED, **options)

    def land(self, lines: Sequence[str]) -> None:
        """A complete snapshot of the next day, in bronze and announced."""
        self.days += 1
        job = self.job()
        assert job.source_table is not None
        name, path = f"2026-01-{self.days:02}", f"/orders/{self.days}.json"
        self.landed.land(job, job.source_table, name, path, LANDED_AT.replace(day=self.days), lines)

    def process(self, batch_id: int, **options: Any) -> LedgerLine | None:
        """The ledger line of a batch; None if it writes nothing."""
        job = self.job(**options)
        plan_batch(job, batch_id)
        micro_batch.process(job, self.spark.range(1), batch_id)
        return job.run.report.batches[0] if job.run.report.batches else None

    def orders(self) -> dict[int, int]:
        return {row["id"]: row["amount"] for row in table(self.job().target)}


@pytest.fixture
def compared(spark: SparkSession, tmp_path: Path) -> Snapshots:
    return Snapshots(spark, tmp_path)


def lines(orders: dict[int, int]) -> list[str]:
    return [f'{{"id": {order}, "at": 1, "amount": {amount}}}' for order, amount in orders.items()]


def keys(line: LedgerLine | None) -> tuple[int, int, int, int]:
    assert line is not None
    assert line.imbalance() == 0
    return line.groups, line.upserted, line.deleted, line.unchanged


@pytest.mark.nightly
def test_rows_that_differ_are_written_and_rows_that_are_missing_are_deleted(compared: Snapshots) -> None:
    compared.land(lines({1: 10, 2: 20, 3: 30}))
    assert keys(compared.process(0)) == (3, 3, 0, 0)
    compared.land([*lines({1: 10, 2: 25}), *lines({2: 21, 4: 40})])

    line = compared.process(1)

    assert keys(line) == (4, 2, 1, 1)
    assert line is not None
    assert (line.kind, line.read, line.written, line.deduplicated) == ("snapshot", 4, 3, 1)
    assert compared.orders() == {1: 10, 2: 21, 4: 40}
    stored = {row["id"]: (row["_row_id"], row["_batch_id"]) for row in table(compared.job().target)}
    assert stored == {1: ("1#0", 0), 2: ("2#2", 1), 4: ("2#3", 1)}, "the row that is the same was not written again"
    assert compared.process(2) is None, "the snapshot was compared"


def test_a_record_in_quarantine_keeps_its_row_and_one_without_key_keeps_every_row(compared: Snapshots) -> None:
    compared.land(lines({1: 10, 2: 20, 3: 30}))
    compared.process(0)
    compared.land([*lines({2: 22}), '{"id": 1, "amount": "many"}'])

    line = compared.process(1)

    assert keys(line) == (2, 1, 1, 0)
    assert compared.orders() == {1: 10, 2: 22}

    compared.land(['{"id": 1, "amount', *lines({5: 50})])
    assert keys(compared.process(2)) == (1, 1, 0, 0)
    assert compared.orders() == {1: 10, 2: 22, 5: 50}
    job = compared.job()
    job.kind.drained(job)
    entries = {(row["_batch_id"], row["state"]) for row in table(job.place.quarantine)}
    assert entries == {(1, "expired"), (2, "open")}, "a later snapshot has the record again, or not any more"


@pytest.mark.nightly
def test_a_snapshot_whose_files_got_another_path_and_time_has_the_same_rows(compared: Snapshots) -> None:
    compared.land(lines({1: 10, 2: 20}))
    compared.process(0)
    job = compared.job()
    landing = job.place.of_pipeline.flow(BRONZE.name)
    announced = announcements.announced(job.place)
    assert announced is not None
    [read_ms] = announced.files.values()
    later_ms = read_ms + 60_000
    MOVED_FILES.write(landing, MovedFiles(times={"1.json": [read_ms, later_ms]}))
    overrides.record(landing, Override(act="move", by="ada", reason="a copy", moved_from="/orders"))
    path = str(job.place.layout.landing("orders") / "1.json")
    announcements.announce(job.place, "2026-01-02", {path: later_ms})

    assert keys(compared.process(1)) == (2, 0, 0, 2)
    assert compared.orders() == {1: 10, 2: 20}


def test_a_snapshot_that_deletes_too_much_waits_until_the_number_is_accepted_or_a_newer_one_is_there(
    compared: Snapshots,
) -> None:
    compared.land(lines(dict.fromkeys(range(30), 1)))
    compared.process(0)
    compared.land(lines(dict.fromkeys(range(18), 1)))

    with pytest.raises(RewriteRefusedError, match=r"delete 12 of 30 rows \(40.0%\).*silver:deleted=12") as refused:
        compared.process(1)
    assert "land it again, or a newer one, which takes its place" in refused.value.message
    assert len(compared.orders()) == 30

    compared.land([])
    with pytest.raises(RewriteRefusedError, match="delete 30 of 30 rows") as refused:
        compared.process(1, accept=("silver:deleted=12",), mode="reingest", gaps=True)
    assert "tidegate run orders --accept silver:deleted=30" in refused.value.message, "an increment, which has no gaps"

    compared.land(lines(dict.fromkeys(range(17), 1)))
    assert keys(compared.process(1, accept=("silver:deleted=13",))) == (30, 0, 13, 17)
    assert sorted(compared.orders()) == list(range(17))


@pytest.mark.nightly
def test_a_snapshot_without_files_deletes_all_rows_once_that_is_accepted(compared: Snapshots) -> None:
    compared.land(lines({1: 10, 2: 20}))
    compared.process(0)
    job = compared.job()
    announcements.announce(job.place, "2026-01-31", {})

    with pytest.raises(RewriteRefusedError, match="it would delete 2 of 2 rows"):
        compared.process(1)
    assert compared.orders() == {1: 10, 2: 20}
    line = compared.process(1, accept=("silver:deleted=2",))

    assert keys(line) == (2, 0, 2, 0)
    assert compared.orders() == {}
    announcements.announce(job.place, "2026-02-01", {})
    assert compared.process(2) is None, "neither has rows"


@pytest.mark.nightly
def test_a_held_batch_that_a_person_accepted_keeps_its_snapshot(compared: Snapshots) -> None:
    compared.land(lines({1: 10, 2: 20}))
    compared.process(0)
    compared.land([])
    with pytest.raises(RewriteRefusedError):
        compared.process(1)
    decided = BatchDecision(batch_id=1, by="ada", reason="closed", at="2026-01-05", action="accept")
    json_codec.write(DECISION.path(Place(compared.job().place.layout, "orders", "silver", 1, 0)), decided)
    compared.land(lines({3: 30}))

    line = compared.process(1, accept=("silver:deleted=2",))

    assert keys(line) == (2, 0, 2, 0)
    assert compared.orders() == {}


@pytest.mark.nightly
def test_a_batch_that_has_written_its_entries_keeps_its_snapshot_and_deletes_what_that_lacks(
    compared: Snapshots,
) -> None:
    compared.land(lines({1: 9, 4: 40}))
    compared.process(0)
    compared.land(['{"id": 1, "amount": "many"}', *lines({2: 20, 3: 30})])

    def stop(_job: Any) -> None:
        raise InterruptedError

    with fault("after:write_quarantine:silver", stop), pytest.raises(InterruptedError):
        compared.process(1)
    compared.land(lines({1: 11, 3: 30}))

    line = compared.process(1)

    assert line is not None
    assert (line.written, line.quarantined, compared.orders()) == (2, 1, {1: 9, 2: 20, 3: 30})
    assert keys(compared.process(2)) == (3, 1, 1, 1)
    assert compared.orders() == {1: 11, 3: 30}


Record = tuple[int | None, int | str]
"""A key, or None for a record whose key cannot be read, and an amount: 0 is filtered, a text goes to quarantine."""
STEPS = (
    "before:write_quarantine",
    "after:write_quarantine",
    "before:write_target",
    "after:write_target",
    "after:record_batch",
)
ENTRIES_ARE_WRITTEN, TABLE_IS_WRITTEN = STEPS[1:3], STEPS[3:]


def without_zero(rows: DataFrame) -> DataFrame:
    return rows.selectExpr("*", "CASE WHEN amount = 0 THEN 'zero' END AS _filtered")


def exports(seed: int) -> Iterator[list[Record]]:
    """Snapshots of a table that changes: with repeated and broken records, and with exports that stopped halfway."""
    rng = random.Random(seed)
    rows: dict[int, int] = {}
    while True:
        rows |= {key: rng.randrange(4) for key in rng.sample(range(30), 12 if rows else 30)}
        for key in rng.sample(sorted(rows), min(len(rows), 3)):
            del rows[key]
        records: list[Record] = [*rows.items()]
        if rng.random() < 0.3:
            records = records[: rng.randrange(12)]
        records += [(key, rng.randrange(4)) for key in rng.sample(range(30), 2)]
        if rng.random() < 0.5:
            broken = rng.sample(range(34), 3)
            records = [(key, amount) for key, amount in records if key not in broken]
            records += [(key, "many") for key in broken] + [(None, 1)] * (rng.random() < 0.3)
        rng.shuffle(records)
        yield records


def export_lines(records: Sequence[Record]) -> list[str]:
    return [
        '{"id": 1, "amou' if key is None else json.dumps({"id": key, "at": 1, "amount": amount})
        for key, amount in records
    ]


def after(rows: dict[int, int], snapshot: Sequence[Record]) -> tuple[dict[int, int], int]:
    """What plain Python makes of a table and a snapshot, and how many rows it deletes."""
    good = {key: amount for key, amount in snapshot if key is not None and isinstance(amount, int) and amount}
    refused = {key for key, amount in snapshot if amount == "many"}
    stay = rows.keys() if any(key is None for key, _ in snapshot) else refused
    kept = {key: amount for key, amount in rows.items() if key in good or key in stay}
    return kept | good, len(rows) - len(kept)


@pytest.mark.parametrize(
    ("seed", "events"),
    [(623, 3), *[pytest.param(seed, 8, marks=pytest.mark.nightly) for seed in of_week(range(2, 10), 1)]],
)
def test_the_table_is_what_plain_python_makes_of_the_snapshots_whatever_step_crashes(
    compared: Snapshots, seed: int, events: int
) -> None:
    """Of seed 623, a newer snapshot lands between a crash that has written entries and the rerun, and is refused."""
    rng, landing = random.Random(seed), exports(seed)
    rows: dict[int, int] = {}
    newest: list[Record] | None = None
    bound: list[Record] | None = None
    batch, accepted, refusals, crashes = 0, False, 0, 0

    def process(at: str | None, **options: Any) -> bool:
        """Whether it crashed at a step."""

        try:
            with fault(f"{at}:silver", crash) if at else contextlib.nullcontext():
                compared.process(batch, transform=without_zero, **options)
        except Crash:
            return True
        return False

    for event in range(events + 8):
        settling = event >= events
        if newest is None and settling:
            break
        if newest is None or (not settling and rng.random() < 0.4):
            newest = next(landing)
            compared.land(export_lines(newest))
            accepted = accepted and bound is not None
        snapshot = newest if bound is None else bound
        expected, deleted = after(rows, snapshot)
        options: dict[str, Any] = {}
        if not accepted and deleted and (deleted > 10 or deleted == len(rows)):
            with pytest.raises(RewriteRefusedError, match=f"delete {deleted} of {len(rows)} rows"):
                process(None)
            assert compared.orders() == rows
            refusals += 1
            accepted = settling or rng.random() < 0.5
            options = {"accept": (f"silver:deleted={deleted}",)}
            if not accepted:
                continue
        at = None if settling else rng.choice((None, *STEPS))
        if process(at, **options):
            crashes += 1
            if at in TABLE_IS_WRITTEN:
                rows = expected
            has_entries = any(key is None or amount == "many" for key, amount in snapshot)
            if at in TABLE_IS_WRITTEN or (at in ENTRIES_ARE_WRITTEN and has_entries):
                bound = snapshot
        else:
            rows, batch, accepted = expected, batch + 1, False
            newest, bound = (None if snapshot is newest else newest), None
        assert compared.orders() == rows

    assert newest is None
    assert compared.process(batch, transform=without_zero) is None, "every snapshot was compared"
    lines = table(compared.job().place.of_pipeline.ops("ledger"))
    assert sorted(line["batch_id"] for line in lines) == list(range(batch))
    assert crashes and (refusals or seed != 623)
