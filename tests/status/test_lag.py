"""Whether a run has work, and which files are read to decide it, without a JVM."""

from __future__ import annotations

import builtins
import io
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from tests.spark_files import add, delta_offset
from tests.status.sample_project import BRONZE, GOLD, PROJECT, SILVER, SampleProject
from tidegate.status.lag import to_json

pytestmark = pytest.mark.slow


def test_flows_downstream_of_a_flow_with_work_have_work(project: SampleProject) -> None:
    project.land("a.csv")
    plan = project.plan()
    assert plan.work is True
    assert [lag.has_work for lag in plan.readings] == [True, True, True]
    assert plan.reasons == (
        "bronze: 1 new file in trips",
        "silver: reads what flow bronze writes",
        "gold: reads what flow silver writes",
    )
    assert plan.reason == "; ".join(plan.reasons)


def test_only_selected_flows_are_planned(project: SampleProject) -> None:
    project.land("a.csv")
    plan = project.plan(GOLD)
    assert (plan.work, [lag.flow for lag in plan.readings]) == (False, ["gold"])
    assert plan.reason == "gold: waits: silver.trips does not exist yet"


def test_with_nothing_new_every_flow_has_a_reason(project: SampleProject) -> None:
    plan = project.plan()
    assert (plan.work, len(plan.reasons)) == (False, 3)


@pytest.mark.parametrize(
    ("size", "first", "small"),
    [(1, True, True), (15, True, True), (17, True, False), (17, False, True), (63, False, True), (65, False, False)],
)
def test_a_plan_is_small_below_the_size_limit(project: SampleProject, size: int, first: bool, small: bool) -> None:
    log = project.table("bronze.trips")
    log.commit(add("a", 1, 1))
    if not first:
        project.checkpoint("silver").run(0, delta_offset(1))
    log.commit(add("b", 1, size * 1024 * 1024))
    assert project.plan(SILVER).small is small


def test_the_lag_is_json_serializable(project: SampleProject) -> None:
    project.land("a.csv")
    values = to_json(project.measure(BRONZE))
    assert json.loads(json.dumps(values)) == values
    assert {"flow", "kind", "rows", "bytes", "rows_exact", "bytes_exact", "behind", "pending_batch", "has_work"} <= set(
        values
    )


def test_measuring_writes_nothing(project: SampleProject) -> None:
    project.land("a.csv")
    project.refuse_silver()
    before = sorted(Path(project.layout.root).rglob("*"))
    project.plan()
    assert sorted(Path(project.layout.root).rglob("*")) == before


def test_measuring_opens_only_new_files(project: SampleProject, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(365):
        project.land(f"{number}.csv")
    project.read_everything(project.checkpoint("bronze"))
    for table, flow in (("bronze.trips", "silver"), ("silver.trips", "gold")):
        log = project.table(table)
        for number in range(200):
            log.commit(add(f"f{number}", 1))
            if number == 150:
                DeltaTable(str(log.path)).create_checkpoint()
        project.checkpoint(flow).run(0, delta_offset(150))
    opened: Counter[Path] = Counter()
    original_open = io.open

    def counted(file: Any, *arguments: Any, **named: Any) -> Any:
        opened[Path(file)] += 1
        return original_open(file, *arguments, **named)

    for module in (io, builtins):
        monkeypatch.setattr(module, "open", counted)
    project.plan()
    monkeypatch.undo()

    assert not [path for path in opened if path.is_relative_to(project.landing)], "landed files are only listed"
    for table in ("bronze.trips", "silver.trips"):
        delta_log = project.layout.table(table) / "_delta_log"
        entries = {
            path.name: count
            for path, count in opened.items()
            if path.parent == Path(delta_log) and path.suffix == ".json"
        }
        assert entries.keys() == {f"{version:020d}.json" for version in range(150, 200)}
    of_lake = {path: count for path, count in opened.items() if path.is_relative_to(Path(project.layout.root))}
    assert set(of_lake.values()) == {1}, of_lake
    assert opened.total() < 330, "in addition only a few files of each checkpoint"


def test_no_slow_module_is_imported() -> None:
    program = (
        "import importlib, sys, tidegate.status.plan, tidegate.checkpoints.lease, tidegate.probes.kafka\n"
        "from tidegate.spec.kinds import SOURCES\n"
        "measured = [importlib.import_module(f'tidegate.sources.{kind}.measure') for kind in SOURCES]\n"
        "heavy = ('airflow', 'pyspark', 'delta', 'pandas', 'pyarrow', 'great_expectations', 'deltalake', 'confluent_kafka')\n"
        "print([name for name in heavy if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=PROJECT)
    assert done.stdout.strip() == "[]"
