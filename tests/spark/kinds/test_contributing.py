"""The worked example of CONTRIBUTING: a kind of flow, and a kind of run, is a folder and one line that registers it."""

from __future__ import annotations

import dataclasses
import json
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest

from tests.spark import job as orders
from tidegate import spec
from tidegate.errors import FieldError, RequestError, SourceUnavailableError
from tidegate.lake.place import PipelinePlace
from tidegate.planning import preview
from tidegate.probes import delta
from tidegate.project.resolution import resolve
from tidegate.requests.request import RunRequest
from tidegate.requests.runs import RUNS
from tidegate.spark import runs
from tidegate.spark.batch import micro_batch
from tidegate.spec import Flow, Pipeline, kinds
from tidegate.status import lag

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidegate.spark.job import Job

TEXT = (Path(__file__).parents[3] / "CONTRIBUTING.md").read_text(encoding="utf-8")
BLOCKS = dict(re.findall(r"^```python (.+)\n((?s:.*?))^```$", TEXT, re.MULTILINE))
"""The blocks of the example by the words after their language: a path, or what the block does."""


def add_module(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    module = ModuleType(name)
    exec(compile(BLOCKS[path], path, "exec"), vars(module))
    monkeypatch.setitem(sys.modules, name, module)


def add_folder(package: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Add the modules of a folder."""
    for module in ("__init__", "run"):
        add_module(f"tidegate/{package}/{name}/{module}.py", monkeypatch)


@pytest.fixture
def change_log(monkeypatch: pytest.MonkeyPatch) -> Flow:
    """The flow of the example, after its kind was registered."""
    declare = compile(BLOCKS["declares a flow of this kind"].strip(), "example", "eval")
    with pytest.raises(FieldError, match="without one this flow would only copy its source"):
        eval(declare, dict(vars(spec)))
    ((name, source),) = eval(f"{{{BLOCKS['registers a kind of flow']}}}").items()
    add_folder("kinds", name, monkeypatch)
    monkeypatch.setitem(kinds.READS, name, source)
    flow: Flow = eval(declare, dict(vars(spec)))
    # The pipeline of these tests has a flow of this name.
    return dataclasses.replace(flow, name="latest")


@pytest.fixture
def compact(monkeypatch: pytest.MonkeyPatch) -> None:
    """The run of the example, registered."""
    with pytest.raises(RequestError, match="mode='compact' is not allowed"):
        request(mode="compact")
    (name,) = eval(f"({BLOCKS['registers a kind of run']})")
    add_folder("runs", name, monkeypatch)
    monkeypatch.setattr(RUNS, "names", (*RUNS.names, name))


def pipeline(*changed: Flow) -> Pipeline:
    by_name = {flow.name: flow for flow in changed}
    return Pipeline(name="orders", flows=tuple(by_name.get(flow.name, flow) for flow in orders.FLOWS))


def request(**params: Any) -> RunRequest:
    return RunRequest.check(pipeline(), "r", params)


def land(folder: Path, name: str, *records: dict[str, Any]) -> None:
    path = folder / "landing" / "orders" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{json.dumps(record)}\n" for record in records))


def run(spark: SparkSession, folder: Path, flow: Flow, **more: Any) -> Job:
    job = orders.job_of(spark, folder, flow, **more)
    runs.load(job.run.request, flow)(job)
    return job


def increment(spark: SparkSession, folder: Path, *flows: Flow) -> list[Job]:
    return [run(spark, folder, flow) for flow in (orders.BRONZE, orders.SILVER, *flows)]


@pytest.mark.nightly
@pytest.mark.jvm
def test_a_new_kind_of_flow_is_planned_and_goes_through_the_six_steps(
    change_log: Flow, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    land(tmp_path, "a.json", {"id": 1, "at": 1, "amount": 5}, {"id": 2, "at": 1, "amount": 6})
    *_, log = increment(spark, tmp_path, change_log)
    land(tmp_path, "b.json", {"id": 2, "at": 2, "amount": 7})
    increment(spark, tmp_path)
    environment = orders.environment(tmp_path)
    resolved = resolve(pipeline(change_log), tmp_path, {}).flow("latest")
    resolved = dataclasses.replace(resolved, error=None)

    assert lag.measure(environment, resolved).has_work
    with monkeypatch.context() as patched:
        patched.setattr(micro_batch, "record_batch", crash)
        with pytest.raises(SourceUnavailableError):
            run(spark, tmp_path, change_log)
    again = run(spark, tmp_path, change_log)

    assert not lag.measure(environment, resolved).has_work
    rows = [(row["id"], row["amount"], row["change"]) for row in orders.table(log.live)]
    assert rows == [(1, 5, "insert"), (2, 6, "insert"), (2, 7, "update_postimage")], "the batch is written once"
    lines = [*log.run.report.batches, *again.run.report.batches]
    assert [(line.batch_id, line.read, line.written, line.imbalance()) for line in lines] == [
        (0, 2, 2, 0),
        (1, 1, 1, 0),
    ]
    assert [
        line["batch_id"]
        for line in orders.table(PipelinePlace(log.place.layout, "orders").ops("ledger"))
        if line["flow"] == "latest"
    ] == [0, 1]


def crash(*_: Any, **__: Any) -> None:
    raise SourceUnavailableError("simulated crash")


@pytest.mark.nightly
@pytest.mark.jvm
def test_a_new_kind_of_run_is_requested_planned_and_done(compact: None, spark: SparkSession, tmp_path: Path) -> None:
    for number in range(2):
        land(tmp_path, f"{number}.json", {"id": number, "at": 1, "amount": 5})
        _, silver = increment(spark, tmp_path)
    assert request(mode="compact").mode == "compact"
    with pytest.raises(RequestError, match="does not apply to flow 'bronze'; it applies to: silver, latest, gold"):
        request(mode="compact", flows=["bronze"])
    resolved = resolve(pipeline(), tmp_path, {})
    wanted = preview.preview(orders.environment(tmp_path), resolved, request(mode="compact", flows=["silver"]))
    assert wanted.flows[0].rewrites == "no row of silver.orders, only its files"

    before = len(delta.snapshot_files(silver.live)), orders.table(silver.live)

    run(spark, tmp_path, orders.SILVER, mode="compact")

    assert before[0] > 1 == len(delta.snapshot_files(silver.live))
    assert orders.table(silver.live) == before[1]
