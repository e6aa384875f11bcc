"""Recoveries of each kind of flow: histories, joins, snapshots, appended tables, changes; after each kind of damage, some killed.

The twin is the lake before the damage. ``KIND_SEEDS=3,17`` runs these seeds.
"""

from __future__ import annotations

import importlib
import json
import os
import random
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from tests.deployment import Deployment
from tests.fault_points import aborting, fault
from tests.slices import of_week
from tidegate.lake.layout import Layout
from tidegate.lake.place import Place
from tidegate.probes import delta_log
from tidegate.project import resolution
from tidegate.runs.recover import plan as recovery
from tidegate.runs.recover.plan import Recovery
from tidegate.status import plan
from tidegate.store import Address

pytestmark = [pytest.mark.jvm, pytest.mark.chaos, pytest.mark.nightly, pytest.mark.timeout(1800)]

DECLARATION = """
from tidegate.spec import ChangeFeed, FileSource, Flow, Intervals, Pipeline, SnapshotFeed, Table

SCHEMA = "id INT NOT NULL, at INT, day INT, amount INT"
DAILY = Intervals("dt=%Y-%m-%d", manifest="dt=%Y-%m-%d/_manifest")


def of_bronze(name, target):
    return Flow(name=name, source=ChangeFeed("bronze.kinds"), transform="kinds:clean", target=target)


pipeline = Pipeline(
    name="kinds",
    flows=(
        Flow(name="bronze", source=FileSource(path="kinds", format="json", schema=SCHEMA), target=Table("bronze.kinds")),
        of_bronze("silver", Table("silver.kinds", keys=("id",), sequence_by=("at",))),
        of_bronze("history", Table("silver.history", keys=("id",), sequence_by=("at",), history="scd2")),
        of_bronze("log", Table("silver.log")),
        Flow(
            name="days", source=FileSource(path="days", format="json", schema="day INT NOT NULL, at INT, name STRING"),
            target=Table("bronze.days"),
        ),
        Flow(
            name="names", source=ChangeFeed("bronze.days"), transform="kinds:names",
            target=Table("silver.names", keys=("day",), sequence_by=("at",)),
        ),
        Flow(
            name="joined",
            sources=(ChangeFeed("silver.kinds"), ChangeFeed("silver.names", on={"day": "day"})),
            transform="kinds:joined",
            target=Table("gold.joined", keys=("id",)),
        ),
        Flow(
            name="prices", source=FileSource(path="prices", format="csv", schema="id INT NOT NULL, price INT", intervals=DAILY),
            target=Table("bronze.prices"),
        ),
        Flow(name="current", source=SnapshotFeed("bronze.prices"), target=Table("silver.prices", keys=("id",))),
        Flow(
            name="kept", source=SnapshotFeed("bronze.prices"),
            target=Table("silver.kept", keys=("id",), sequence_by=("snapshot_at",), history="scd2"),
        ),
    ),
)
"""
JOB = """
from pyspark.sql import functions as F


def clean(rows):
    return rows.select("_row_id", "_origin", "id", "at", "day", "amount")


def names(rows):
    return rows.select("_row_id", "_origin", "day", "at", "name")


def joined(kinds, names):
    return kinds.join(names.select("day", "name"), "day", "left").groupBy("id").agg(
        F.max("name").alias("name"), F.sum("amount").alias("amount")
    )
"""
FLOWS = ("bronze", "silver", "history", "log", "days", "names", "joined", "prices", "current", "kept")
TABLES = (
    *("bronze.kinds", "silver.kinds", "silver.history", "silver.log", "bronze.days", "silver.names", "gold.joined"),
    *("bronze.prices", "silver.prices", "silver.kept"),
)
BOOKKEEPING = ("_batch_id", "_ingested_at", "_row_id")
"""They depend on the division into batches, or on versions of a keyed source."""
STEPS = ("before:write_target", "after:write_target", "before:record_batch", "after:record_batch")


def lose(layout: Layout, rng: random.Random) -> str:
    path, name = table_of(layout, rng)
    version = DeltaTable(str(path)).version()
    for file in Path(path / "_delta_log").glob(f"*{version:020d}.*"):
        file.unlink()
    return f"the newest entry of {name} is lost"


def tear(layout: Layout, rng: random.Random) -> str:
    path, name = table_of(layout, rng)
    entry = delta_log.entry(Address.local(Path(path)), rng.randrange(DeltaTable(str(path)).version() + 1))
    entry.put(entry.read().data[: rng.choice((0, 50))])
    return f"{entry.name} of {name} is torn"


def remove(layout: Layout, rng: random.Random) -> str:
    path, name = table_of(layout, rng)
    shutil.rmtree(rng.choice((path, path / "_delta_log")))
    return f"{name} or its log is removed"


def restore(layout: Layout, rng: random.Random) -> str:
    path, name = table_of(layout, rng)
    DeltaTable(str(path)).restore(0)
    return f"{name} is restored"


def tear_offsets(layout: Layout, rng: random.Random) -> str:
    flow = rng.choice(FLOWS)
    offsets = max(
        Path(Place(layout, "kinds", flow, 1, 0).checkpoint / "offsets").glob("[0-9]*"), key=lambda file: int(file.name)
    )
    offsets.write_bytes(offsets.read_bytes()[:-9])
    return f"the offsets of {flow} are torn"


def remove_checkpoint(layout: Layout, rng: random.Random) -> str:
    flow = rng.choice(FLOWS)
    shutil.rmtree(Place(layout, "kinds", flow, 1, 0).checkpoints)
    return f"the checkpoint of {flow} is removed"


DAMAGES = (lose, tear, remove, restore, tear_offsets, remove_checkpoint)


def table_of(layout: Layout, rng: random.Random) -> tuple[Address, str]:
    name = rng.choice(TABLES)
    return layout.table(name), name


class Kinds:
    """The pipeline in a lake with two increments, of which each example gets a copy."""

    def __init__(self, deployment: Deployment, spark: Any) -> None:
        self.deployment, self.spark = deployment, spark
        for increment in range(2):
            numbers = range(increment * 5, increment * 5 + 5)
            rows = [{"id": n % 4, "at": n, "day": n % 3, "amount": 10 + n} for n in numbers]
            days = [{"day": n % 3, "at": n, "name": f"name {n}"} for n in numbers]
            self.land(f"kinds/{increment}.json", rows)
            self.land(f"days/{increment}.json", days)
            folder = f"prices/dt=2026-01-0{increment + 1}"
            deployment.land("all.csv", f"id,price\n1,{increment}\n{increment + 2},7\n", folder)
            deployment.land("_manifest", "all.csv\n", folder)
            self.run()
        self.twin = self.contents()

    def land(self, name: str, rows: list[dict[str, Any]]) -> None:
        folder, _, file = name.partition("/")
        self.deployment.land(file, "".join(f"{json.dumps(row)}\n" for row in rows), folder)

    def run(self, flows: tuple[str, ...] = FLOWS, **options: Any) -> None:
        self.spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
        report = self.deployment.run("kinds", flows, **options)
        assert {each.flow: each.error for each in report.flows if each.error} == {}

    def plan(self) -> Recovery:
        environment = self.deployment.environment
        return recovery.make(environment, {"kinds": resolution.load("kinds", environment.project)})

    def contents(self) -> dict[str, list[str]]:
        return {
            name: sorted(
                repr({column: value for column, value in row.items() if column not in BOOKKEEPING})
                for row in self.deployment.table(name).to_pylist()
            )
            for name in TABLES
        }


@pytest.fixture(scope="module")
def kinds(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kinds]:
    folder = tmp_path_factory.mktemp("kinds")
    for package, text in (("pipelines", DECLARATION), ("spark_jobs", JOB)):
        (folder / "code" / package).mkdir(parents=True)
        (folder / "code" / package / "kinds.py").write_text(text)
        importlib.import_module(package).__path__.append(str(folder / "code" / package))
    importlib.invalidate_caches()
    yield Kinds(Deployment.make(folder / "deployment", Path(__file__).parents[2]), spark)
    for package in ("pipelines", "spark_jobs"):
        importlib.import_module(package).__path__.remove(str(folder / "code" / package))
        sys.modules.pop(f"{package}.kinds", None)


def seeds() -> list[int]:
    return [int(seed) for seed in os.environ.get("KIND_SEEDS", "").split(",") if seed] or of_week(range(12), 1)


@pytest.fixture
def lake(kinds: Kinds) -> Iterator[Kinds]:
    """The lake as it was, afterwards."""
    root = kinds.deployment.environment.lake
    copy = root.with_name("copy")
    shutil.copytree(root, copy, symlinks=True)
    yield kinds
    shutil.rmtree(root)
    copy.rename(root)


@pytest.mark.parametrize("seed", seeds())
def test_a_lake_of_each_kind_of_flow_is_as_its_undamaged_twin(seed: int, lake: Kinds) -> None:
    rng = random.Random(seed)
    layout = lake.deployment.layout
    notes = [DAMAGES[seed % len(DAMAGES)](layout, rng)]
    kill: Callable[[Callable[[Any], None]], Any] | None = None
    if seed % 3 == 0:
        at = f"{rng.choice(STEPS)}:{rng.choice(FLOWS)}"
        kill = lambda act: fault(at, act)  # noqa: E731
    for _ in range(4):
        made = lake.plan()
        notes += made.lines()
        if not made.steps:
            break
        flows = tuple(each.step.key[1] for each in made.steps)
        assert made.losses == (), notes
        if kill is None:
            lake.run(flows, mode="recover")
            continue
        lake.spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
        with aborting(kill, Path(layout.root), lake.spark, must_abort=False):
            lake.deployment.run("kinds", flows, mode="recover")
        kill = None
    assert lake.plan().lines() == [], notes
    lake.run()
    assert lake.contents() == lake.twin, notes
    resolved = resolution.load("kinds", lake.deployment.environment.project)
    decided = plan.decide(lake.deployment.environment, resolved, resolved.pipeline.flows)
    assert (decided.work, decided.errors) == (False, ()), (notes, decided.reasons)
    for flow in FLOWS:
        request = lake.deployment.request("kinds", [flow])
        verified = lake.deployment.try_run(
            type(request).of_verification(resolved.pipeline, flow, request.run_id, requested_by="ada", limit=5)
        ).flow(flow)
        assert verified.error is None, (notes, verified.error)
        assert verified.verification is not None and not verified.verification.differs, (notes, flow)
