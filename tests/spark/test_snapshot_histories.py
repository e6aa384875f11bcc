"""The pipeline `rates`, which keeps the history of snapshots: whole runs, late days, crashes, backfill, undo, new versions."""

from __future__ import annotations

import importlib
import random
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.deployment import Deployment
from tests.slices import of_week
from tests.spark.queries import expect_idle
from tests.spark.snapshot_oracle import Record, folded
from tidegate.project import registry, resolution
from tidegate.project.resolution import ResolvedPipeline
from tidegate.reports.report import FlowReport
from tidegate.requests.request import RunRequest, fresh_id
from tidegate.runs.undo import plan as undoing
from tidegate.trace.lineage import Lineage

pytestmark = [pytest.mark.jvm, pytest.mark.nightly]

DECLARATION = """
from tidegate.spec import ChangeFeed, FileSource, Flow, Intervals, Pipeline, RewriteLimits, SnapshotFeed, Table

DAILY = Intervals("dt=%Y-%m-%d", marker="dt=%Y-%m-%d/_SUCCESS")
pipeline = Pipeline(
    name="rates",
    rewrite_limits=RewriteLimits(deleted_share=1),
    flows=(
        Flow(
            name="bronze",
            source=FileSource(path="rates", format="csv", schema="id INT NOT NULL, price INT, note INT", intervals=DAILY),
            target=Table("bronze.rates"),
        ),
        Flow(
            name="history",
            source=SnapshotFeed("bronze.rates"),
            transform="rates:clean",
            target=Table(
                "silver.rates", keys=("id",), sequence_by=("snapshot_at",), history="scd2", untracked=("note",), event_time="snapshot_at"
            ),
            checkpoint_version=VERSION,
        ),
        Flow(
            name="gold",
            source=ChangeFeed("silver.rates"),
            transform="rates:levels",
            target=Table("gold.rates", keys=("price",)),
        ),
    ),
)
"""
JOB = """
from pyspark.sql import functions as F

def clean(rows):
    return rows.withColumn("price", F.col("price") + ADDED)

def levels(rows):
    return rows.where("valid_to IS NULL").groupBy("price").agg(F.count("*").alias("number"))
"""
STEPS = ("after:write_quarantine", "before:write_target", "after:write_target", "after:record_batch")


class Rates:
    """Lands snapshots of rates by id, and runs the pipeline."""

    def __init__(self, deployment: Deployment, folder: Path) -> None:
        self.deployment, self.folder = deployment, folder
        self.landed: dict[int, list[Record]] = {}

    def declare(self, *, added: int = 0, version: int = 1) -> None:
        (self.folder / "pipelines" / "rates.py").write_text(DECLARATION.replace("VERSION", str(version)))
        (self.folder / "spark_jobs" / "rates.py").write_text(JOB.replace("ADDED", str(added)))
        forget()

    def land(self, day: int, records: list[Record]) -> None:
        folder = f"dt=2026-01-{day:02}"
        if records:
            lines = [f"{'x' if key is None else key},{price},{note}" for key, price, note in records]
            self.deployment.land(f"{folder}/all.csv", "\n".join(["id,price,note", *lines, ""]), "rates")
        self.deployment.land(f"{folder}/_SUCCESS", "", "rates")
        self.landed[day] = records

    def resolved(self) -> ResolvedPipeline:
        return resolution.load("rates", self.deployment.environment.project)

    def request(self, *flows: str, **options: Any) -> RunRequest:
        """The request of a run, as its plan makes it."""
        request = self.deployment.request("rates", flows, **options)
        if request.mode != "undo":
            return request
        return undoing.plan_run(self.deployment.environment, self.resolved(), request)[0]

    def run(self, *flows: str, **options: Any) -> FlowReport:
        report = self.deployment.run("rates", flows, **options)
        assert [each.flow for each in report.flows if each.error] == []
        return report.flow("history" if "history" in flows or not flows else flows[0])

    def expect(self, added: int = 0) -> None:
        """The table, and what the flow below it made of its changes."""
        rows = [row for row in self.deployment.table("silver.rates").to_pylist() if not row["_deleted"]]
        versions = sorted(
            (
                row["id"],
                row["valid_from"].day,
                row["valid_to"] and row["valid_to"].day,
                row["price"] - added,
                row["note"],
            )
            for row in rows
        )
        assert versions == folded(self.landed)
        levels = {row["price"]: row["number"] for row in self.deployment.table("gold.rates").to_pylist()}
        assert levels == Counter(row["price"] for row in rows if row["valid_to"] is None)

    def expect_verified(self, *, differs: bool = False) -> None:
        request = RunRequest.of_verification(
            registry.load("rates"), "history", fresh_id("v"), requested_by="ada", limit=5
        )
        verified = self.deployment.try_run(request).flow("history").verification
        assert verified is not None and verified.equal
        assert verified.differs == differs


def forget() -> None:
    for name in ("pipelines.rates", "spark_jobs.rates"):
        sys.modules.pop(name, None)
    importlib.invalidate_caches()


@pytest.fixture
def rates(deployment: Deployment, spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Rates]:
    for package in ("pipelines", "spark_jobs"):
        (tmp_path / package).mkdir()
        module = importlib.import_module(package)
        monkeypatch.setattr(module, "__path__", [*module.__path__, str(tmp_path / package)])
    made = Rates(deployment, tmp_path)
    made.declare()
    yield made
    forget()


def test_a_history_is_derived_again_by_backfill_undo_refresh_and_a_new_version(rates: Rates) -> None:
    rates.land(1, [(1, 10, 1), (2, 20, 1), (3, 30, 1)])
    rates.land(3, [(1, 10, 3), (2, 25, 3)])
    rates.land(5, [(1, 12, 5), (3, 30, 5)])
    assert len(rates.run().batches) == 3, "each snapshot has a batch"
    rates.expect()
    rates.land(2, [(1, 11, 2), (2, "many", 2), (4, 40, 2)])
    assert rates.run().total("quarantined") == 1
    rates.expect()
    rates.land(4, [])
    rates.run()
    rates.expect()
    expect_idle(rates.run, "bronze", "history", "gold")
    rates.expect_verified()

    lineage = Lineage(layout=rates.deployment.layout, pipelines={"rates": rates.resolved()}, shown=9)
    steps = {step.row["snapshot_at"].day: step for step in lineage.up("silver.rates", {"id": "1"}) if step.row}
    assert [each.table for each in steps[2].next] == ["bronze.rates"], "the record of the late snapshot"
    assert "no record made it" in " ".join(steps[4].notes)

    rates.declare(added=100)
    rates.expect_verified(differs=True)
    window = {"from_date": "2026-01-01", "to_date": "2026-01-05"}
    judged = rates.run("history", mode="backfill", dry_run=True, **window).impact
    assert judged is not None and (judged.deleted, judged.added) == (0, 0) and judged.changed
    backfilled = rates.request("history", mode="backfill", **window)
    assert rates.deployment.try_run(backfilled).flow("history").total("upserted")
    rates.run("gold")
    rates.expect(added=100)
    rates.expect_verified()
    undone = rates.request("history", mode="undo", undo_run=backfilled.run_id)
    assert rates.deployment.try_run(undone).flow("history").state == "done"
    rates.run("gold")
    rates.expect()

    assert rates.run(mode="full_refresh").state == "done"
    rates.expect(added=100)
    rates.declare(version=2)
    rates.run()
    rates.expect()
    rates.expect_verified()
    rates.deployment.expect_a_balanced_ledger("rates")


@pytest.mark.usefixtures("several_tasks")
@pytest.mark.parametrize("seed", of_week(range(36), 2))
def test_generated_snapshots_and_crashes_leave_a_fold_over_all_snapshots(rates: Rates, seed: int) -> None:
    rng = random.Random(seed)
    days = list(range(1, 7))
    rng.shuffle(days)
    while days:
        for _ in range(rng.randrange(1, 3)):
            if days:
                rows: list[Record] = [(key, rng.randrange(3), days[-1]) for key in range(12) if rng.random() < 0.7]
                broken: list[Record] = [(key, "many", 1) for key in range(12, 15) if rng.random() < 0.3]
                unknown: list[Record] = [(None, 1, 1)] if rng.random() < 0.1 else []
                rates.land(days.pop(), [*rows, *broken, *unknown] if rng.random() < 0.9 or len(days) > 4 else [])
        if rng.random() < 0.6:
            try:
                rates.deployment.run_and_abort(f"{rng.choice(STEPS)}:history", "rates")
            except AssertionError as error:
                assert "ended before the step" in str(error)
        rates.run()
        rates.expect()
    rates.expect_verified()
    rates.deployment.expect_a_balanced_ledger("rates")
