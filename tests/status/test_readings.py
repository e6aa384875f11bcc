"""A plan, the status, the alerts and a page read each file of the lake once."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import deltalake
import pendulum
import pytest

from tests.resolved import resolved
from tests.spark_files import add, delta_offset
from tests.status.sample_project import TRIPS, SampleProject
from tidegate.environment import Environment
from tidegate.lake import read_once
from tidegate.lake.place import PipelinePlace
from tidegate.ops import ledger
from tidegate.probes import delta_table
from tidegate.project.resolution import ResolvedPipeline
from tidegate.reports.ledger_line import LedgerLine
from tidegate.status import evaluation, flow_status, plan
from tidegate.store import Address, Store
from tidegate.store.instrumented import InstrumentedStore
from tidegate.store.location import Location, Stores

Pipelines = Sequence[tuple[str, ResolvedPipeline]]
NOW = pendulum.datetime(2026, 11, 2)
PATIENCE = 30.0


def of_plan(environment: Environment, pipelines: Pipelines) -> None:
    plan.decide(environment, pipelines[0][1], TRIPS.flows)


def of_status(environment: Environment, pipelines: Pipelines) -> None:
    flow_status.gather(environment, pipelines, PATIENCE, NOW)


def of_alerts(environment: Environment, pipelines: Pipelines) -> None:
    evaluation.evaluate_pipelines(environment, pipelines, NOW)


def of_page(environment: Environment, pipelines: Pipelines) -> None:
    environment = read_once.once(environment)
    readings = flow_status.gather(environment, pipelines, PATIENCE, NOW)
    evaluation.with_alerts(environment, pipelines, readings)


READINGS: list[Callable[[Environment, Pipelines], None]] = [of_plan, of_status, of_alerts, of_page]


@dataclasses.dataclass
class Counting:
    """Makes stores that count, and keeps them."""

    stores: dict[Location, InstrumentedStore] = dataclasses.field(default_factory=dict)

    def __call__(self, root: Location) -> Store:
        return self.stores.setdefault(root, InstrumentedStore(Stores()(root)))

    @property
    def keys(self) -> Counter[tuple[str, str]]:
        return sum((store.keys for store in self.stores.values()), Counter[tuple[str, str]]())


@pytest.fixture
def project(tmp_path: Path) -> SampleProject:
    project = SampleProject(tmp_path)
    project.layout.open()
    for number in range(3):
        project.land(f"{number}.csv")
    project.read_everything(project.checkpoint("bronze"))
    project.land("unread.csv")
    project.refuse_silver()
    silver = project.table("silver.trips")
    for number in range(4):
        silver.commit(add(f"f{number}", 1))
    project.checkpoint("gold").run(0, delta_offset(2))
    return project


@pytest.mark.parametrize("read", READINGS)
def test_nothing_is_read_or_listed_twice(
    project: SampleProject, read: Callable[[Environment, Pipelines], None]
) -> None:
    counting = Counting()
    environment = dataclasses.replace(project.environment, store_of=counting)

    read(environment, [("trips", resolved(TRIPS, environment.project))])

    requested = {of: count for of, count in counting.keys.items() if of[0] in ("read", "list", "open", "stat")}
    assert any("_delta_log/" in key for _, key in requested)
    assert {of: count for of, count in requested.items() if count > 1} == {}


def test_no_table_is_opened_twice(project: SampleProject, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: Counter[str] = Counter()
    load = delta_table._load

    def count(address: Address, version: int | None) -> deltalake.DeltaTable:
        opened[address.key] += 1
        return load(address, version)

    monkeypatch.setattr(delta_table, "_load", count)
    for flow in ("bronze", "silver", "gold"):
        line = LedgerLine(flow=flow, batch_id=0, app_id=f"trips/{flow}/v1/0", kind="append")
        ledger.record(PipelinePlace(project.layout, "trips"), line, ledger.RunOrigin(checkpoint_version=1, refresh=0))
    opened.clear()
    of_alerts(project.environment, [("trips", resolved(TRIPS, project.environment.project))])
    assert opened["_ops/trips/ledger"] == 1
    assert {key: count for key, count in opened.items() if count > 1} == {}


def test_the_next_reading_reads_again(project: SampleProject) -> None:
    pipelines = [("trips", resolved(TRIPS, project.environment.project))]
    before = plan.decide(project.environment, pipelines[0][1], TRIPS.flows)
    project.land("another.csv")
    after = plan.decide(project.environment, pipelines[0][1], TRIPS.flows)
    assert "1 new file" in before.readings[0].reason
    assert "2 new files" in after.readings[0].reason
