"""The pipeline `prices`, which follows full snapshots: whole runs, late and incomplete days, crashes, refusals, a full refresh."""

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
from tidegate.project import registry, resolution
from tidegate.reports.report import FlowReport
from tidegate.requests.request import RunRequest, fresh_id
from tidegate.status import plan
from tidegate.status.reading import Reading

pytestmark = [pytest.mark.jvm, pytest.mark.nightly]

DECLARATION = """
from tidegate.spec import ChangeFeed, FileSource, Flow, Intervals, Pipeline, RewriteLimits, SnapshotFeed, Table

DAILY = Intervals("dt=%Y-%m-%d", manifest="dt=%Y-%m-%d/_manifest")
pipeline = Pipeline(
    name="prices",
    flows=(
        Flow(
            name="bronze",
            source=FileSource(path="prices", format="csv", schema="id INT NOT NULL, price INT", intervals=DAILY),
            target=Table("bronze.prices"),
        ),
        Flow(
            name="silver",
            source=SnapshotFeed("bronze.prices"),
            target=Table("silver.prices", keys=("id",)),
            rewrite_limits=RewriteLimits(deleted_share=SHARE),
        ),
        Flow(
            name="gold",
            source=ChangeFeed("silver.prices"),
            transform="prices:levels",
            target=Table("gold.prices", keys=("price",)),
        ),
    ),
)
"""
JOB = """
from pyspark.sql import functions as F

def levels(rows):
    return rows.groupBy("price").agg(F.count("*").alias("number"))
"""
STEPS = ("after:write_quarantine", "before:write_target", "after:write_target", "after:record_batch")
Rows = dict[int, int]


class Prices:
    """Lands snapshots of prices by id, and runs the pipeline."""

    def __init__(self, deployment: Deployment) -> None:
        self.deployment = deployment

    def land(self, day: int, name: str, lines: list[str]) -> None:
        self.deployment.land(f"dt=2026-01-{day:02}/{name}.csv", "\n".join(["id,price", *lines, ""]), "prices")

    def complete(self, day: int, *names: str) -> None:
        listed = "".join(f"{name}.csv\n" for name in names)
        self.deployment.land(f"dt=2026-01-{day:02}/_manifest", listed, "prices")

    def land_whole(self, day: int, rows: Rows, name: str = "all") -> None:
        self.land(day, name, [f"{key},{price}" for key, price in rows.items()])
        self.complete(day, name)

    def run(self, *flows: str, **options: Any) -> FlowReport:
        report = self.deployment.run("prices", flows, **options)
        assert [each.flow for each in report.flows if each.flow != "silver" and each.error] == []
        return report.flow("silver")

    def rows(self) -> Rows:
        path = self.deployment.layout.table("silver.prices")
        rows = self.deployment.table("silver.prices").to_pylist() if path.exists() else []
        assert len({row["id"] for row in rows}) == len(rows)
        return {row["id"]: row["price"] for row in rows}

    def expect(self, rows: Rows) -> None:
        """The table, and what the flow below it made of its changes."""
        assert self.rows() == rows
        path = self.deployment.layout.table("gold.prices")
        levels = self.deployment.table("gold.prices").to_pylist() if path.exists() else []
        assert {row["price"]: row["number"] for row in levels} == Counter(rows.values())

    def plan(self) -> dict[str, Reading]:
        resolved = resolution.load("prices", self.deployment.environment.project)
        decided = plan.decide(self.deployment.environment, resolved, resolved.pipeline.flows)
        return {each.flow: each for each in decided.readings}


@pytest.fixture
def declare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    for package in ("pipelines", "spark_jobs"):
        (tmp_path / package).mkdir()
        module = importlib.import_module(package)
        monkeypatch.setattr(module, "__path__", [*module.__path__, str(tmp_path / package)])

    def forget() -> None:
        for name in ("pipelines.prices", "spark_jobs.prices"):
            sys.modules.pop(name, None)
        importlib.invalidate_caches()

    def write(share: float) -> None:
        (tmp_path / "pipelines" / "prices.py").write_text(DECLARATION.replace("SHARE", str(share)))
        (tmp_path / "spark_jobs" / "prices.py").write_text(JOB)
        forget()

    yield write
    forget()


@pytest.fixture
def prices(deployment: Deployment, spark: Any, declare: Any) -> Prices:
    declare(0.1)
    return Prices(deployment)


def test_only_complete_snapshots_are_compared_and_late_ones_change_nothing(prices: Prices) -> None:
    first = dict.fromkeys(range(40), 10)
    prices.land_whole(3, first)
    prices.land(4, "1", [f"{key},10" for key in range(20)])
    assert prices.run().state == "done"
    prices.expect(first)
    assert "not complete: 2026-01-04 (no _manifest)" in prices.plan()["silver"].reason
    assert not prices.plan()["silver"].has_work

    prices.complete(4, "1", "2")
    assert prices.run().state == "idle"
    prices.land(4, "2", ["20,12", *(f"{key},10" for key in range(21, 39))])
    assert (line := prices.run().batches[0]).source_versions == {"bronze.prices": 1}
    assert (line.read, line.upserted, line.deleted, line.unchanged) == (39, 1, 1, 38)
    second = {**dict.fromkeys(range(39), 10), 20: 12}
    prices.expect(second)

    prices.land_whole(2, {99: 1})
    assert prices.plan()["bronze"].has_work
    expect_idle(prices.run, "silver", "gold")
    expect_idle(prices.run, "bronze", "silver", "gold")
    prices.expect(second)
    prices.land_whole(4, {**second, 40: 13}, "again")
    assert prices.run().batches[0].upserted == 1
    prices.expect({**second, 40: 13})
    prices.deployment.expect_a_balanced_ledger("prices")
    request = RunRequest.of_verification(registry.load("prices"), "silver", fresh_id("v"), requested_by="ada", limit=5)
    verified = prices.deployment.try_run(request).flow("silver").verification
    assert verified is not None
    assert (verified.equal, verified.missing, verified.unexpected, verified.different) == (40, 0, 0, 0)


def test_a_refused_snapshot_waits_and_a_full_refresh_compares_the_newest(prices: Prices) -> None:
    prices.land_whole(1, dict.fromkeys(range(40), 10))
    prices.run()
    prices.land_whole(2, dict.fromkeys(range(5), 10))

    refused = prices.run()

    assert refused.error is not None
    assert (refused.state, refused.error.kind) == ("refused", "RewriteRefusedError")
    waiting = prices.plan()["silver"]
    assert (waiting.refused_by, waiting.has_work) == ("limits", False)
    assert "it would delete 35 of 40 rows (87.5%)" in waiting.reason
    prices.land(3, "all", ["x,1", "0,11", *(f"{key},10" for key in range(1, 40))])
    prices.complete(3, "all")
    newer = prices.run()
    assert (newer.state, newer.total("quarantined"), newer.total("deleted")) == ("done", 1, 0)
    prices.expect({**dict.fromkeys(range(40), 10), 0: 11})

    prices.land_whole(4, dict.fromkeys(range(28), 10))
    assert prices.run(accept=["silver:deleted=12"]).total("deleted") == 12
    prices.expect(dict.fromkeys(range(28), 10))
    judged = prices.run("silver", mode="full_refresh", dry_run=True).impact
    assert judged is not None
    assert (judged.before, judged.deleted, judged.changed) == (28, 0, 0)
    assert prices.run(mode="full_refresh").state == "done"
    prices.expect(dict.fromkeys(range(28), 10))
    assert not prices.plan()["silver"].has_work


@pytest.mark.usefixtures("several_tasks")
@pytest.mark.parametrize("seed", of_week(range(8), 1))
def test_generated_snapshots_and_crashes_leave_the_newest_complete_one(prices: Prices, declare: Any, seed: int) -> None:
    declare(1)
    rng = random.Random(seed)
    compared, expected, waiting = 0, Rows(), dict[int, Rows]()
    days = list(range(1, 6))
    rng.shuffle(days)
    for day in days:
        rows = {key: rng.randrange(3) for key in range(12) if rng.random() < 0.7}
        lines = [f"{key},{price}" for key, price in rows.items()]
        broken = [rng.randrange(12, 24)] if rng.random() < 0.3 else []
        prices.land(day, "1", [*lines[::2], *(f"{key},many" for key in broken)])
        prices.land(day, "2", lines[1::2])
        waiting[day] = rows
        done = [each for each in waiting if rng.random() < 0.6]
        for each in done:
            prices.complete(each, "1", "2")
        newest = max([each for each in done if each > compared], default=None)
        if newest is not None:
            compared, expected = newest, waiting[newest]
        for each in done:
            del waiting[each]
        if rng.random() < 0.6:
            at = f"{rng.choice(STEPS)}:silver"
            try:
                prices.deployment.run_and_abort(at, "prices")
            except AssertionError as error:
                assert "ended before the step" in str(error)
        prices.run()
        prices.expect(expected)
    prices.deployment.expect_a_balanced_ledger("prices")
