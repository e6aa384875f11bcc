"""Spark's progress metrics of every micro-batch are recorded; a failure to record them never fails the flow."""

from __future__ import annotations

import dataclasses
import json
import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.deployment import Deployment
from tests.spark import job as orders
from tests.with_fields import with_fields
from tidegate.lake.place import AttemptPlace, PipelinePlace, Place
from tidegate.ops import store
from tidegate.reports.report import FlowReport
from tidegate.requests.request import RunRequest
from tidegate.spark.driver.listener import ProgressRecorder
from tidegate.spark.flow import run_flow
from tidegate.spark.job import Job, Run

NO_SPARK: Any = None


def two_files_one_at_a_time(spark: Any, folder: Path) -> Job:
    """A landing flow that reads two files in two batches."""
    source = with_fields(orders.BRONZE.source, max_files_per_trigger=1)
    landing = folder / "landing" / "orders"
    landing.mkdir(parents=True)
    for name in ("a", "b"):
        (landing / f"{name}.json").write_text('{"id": 1, "at": 1}\n{"id": 2, "at": 1}\n')
    return orders.job_of(spark, folder, dataclasses.replace(orders.BRONZE, source=source))


@pytest.mark.jvm
def test_every_batch_of_every_flow_has_one_line(spark: Any, tmp_path: Path) -> None:
    bronze = two_files_one_at_a_time(spark, tmp_path)
    run_flow(bronze)
    run_flow(orders.job_of(spark, tmp_path, orders.SILVER))

    path = PipelinePlace(bronze.place.layout, "orders").ops("progress")
    lines = store.select(path, "SELECT * FROM delta_table ORDER BY started_at")
    ledger = store.select(
        PipelinePlace(bronze.place.layout, "orders").ops("ledger"), "SELECT app_id, batch_id FROM delta_table"
    )
    recorded = {(line["app_id"], line["batch_id"]) for line in lines}
    assert recorded == {(line["app_id"], line["batch_id"]) for line in ledger}
    assert len(lines) == len(recorded) == 3
    first, second = (line for line in lines if line["flow"] == "bronze")
    assert (first["run_key"], first["attempt"], first["mode"]) == (bronze.run.request.run_key, "a1", "incremental")
    assert 0 < dict(first["duration_ms"])["addBatch"] <= first["trigger_ms"]
    (silver,) = (line for line in lines if line["flow"] == "silver")
    assert silver["input_rows"] >= 4
    assert silver["processed_rows_per_second"] > 0
    assert second["start_offset"] == first["end_offset"] == '{"logOffset": 0}'
    # Lines are written at the end of a flow: one commit per flow.
    assert len(list(Path(path / "_delta_log").glob("*.json"))) == 2


@pytest.mark.jvm
def test_a_flow_succeeds_if_its_metrics_cannot_be_written(
    spark: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    bronze = two_files_one_at_a_time(spark, tmp_path)
    path = PipelinePlace(bronze.place.layout, "orders").ops("progress")
    path.parent.make_folder()
    path.put(b"a file where a table should be")
    run_flow(bronze)
    assert sum(line.written for line in bronze.run.report.batches) == 4
    assert "bronze: metrics of its batches were not recorded: " in caplog.text


def test_progress_in_an_unknown_format_is_a_warning_without_its_text(
    deployment: Deployment, caplog: pytest.LogCaptureFixture
) -> None:
    place = Place(deployment.layout, "flights", "bronze", 1, 0)
    request = RunRequest(dag_id="flights", run_id="r")
    report = FlowReport(flow="bronze", target="bronze.flights", checkpoint_version=1, refresh=0)
    attempt = AttemptPlace(deployment.layout, "flights", request.run_key, "a")
    attempted = Run(request=request, place=attempt, report=report, publish=lambda: None)
    listener = ProgressRecorder(NO_SPARK, place, attempted, place.app_id)
    assert listener.await_termination(0), "there is nothing to wait for before the query starts"
    listener.onQueryStarted(SimpleNamespace(name="another", runId=1))
    listener.onQueryStarted(SimpleNamespace(name="flights/bronze/v1/0", runId=2))
    assert not listener.await_termination(0)
    caplog.set_level(logging.WARNING)
    for run in ("1", "2"):
        listener.onQueryProgress(json.dumps({"runId": run, "durationMs": {"addBatch": 1}, "secret": 4711}))
    listener.onQueryTerminated(SimpleNamespace(runId=1))
    assert not listener.await_termination(0)
    listener.onQueryTerminated(SimpleNamespace(runId=2))
    assert listener.await_termination(0)
    listener.write()
    assert [record.getMessage() for record in caplog.records] == [
        "bronze: metrics of its batches were not recorded: KeyError"
    ]
    assert not PipelinePlace(deployment.layout, "flights").ops("progress").exists()
