"""Spark's own numbers of every micro-batch are kept, and never at the cost of a flow."""

from __future__ import annotations

import dataclasses
import logging
from types import SimpleNamespace
from typing import Any, cast

import pytest

from demo import flights_feed
from tests.deployment import Deployment
from tidegate.ops import store
from tidegate.spark.context import FlowContext
from tidegate.spark.driver.listener import Recorder


@pytest.fixture
def two_batches(deployment: Deployment, monkeypatch: pytest.MonkeyPatch) -> Deployment:
    """Two days of flights, a file a batch."""
    import pipelines.flights

    declared = pipelines.flights.pipeline
    bronze = declared.flow("bronze")
    source = dataclasses.replace(bronze.source, max_files_per_trigger=1)
    flows = (dataclasses.replace(bronze, source=source), *declared.flows[1:])
    monkeypatch.setattr(pipelines.flights, "pipeline", dataclasses.replace(declared, flows=flows))
    for day in sorted(flights_feed.days())[:2]:
        deployment.land(f"{day}.csv", flights_feed._csv(flights_feed.days()[day][:50]))
    return deployment


@pytest.mark.jvm
def test_every_batch_of_every_flow_has_its_line(two_batches: Deployment, spark: Any) -> None:
    report = two_batches.run()
    assert [flow.state for flow in report.flows] == ["done", "done", "done"]
    path = two_batches.layout.ops("flights", "progress")
    lines = store.select(path, "SELECT * FROM held ORDER BY started_at")
    told = {(line["app_id"], line["batch_id"]) for line in lines}
    assert told == {(line["app_id"], line["batch_id"]) for line in two_batches.ledger()}
    assert len(lines) == len(told)
    first, second = (line for line in lines if line["flow"] == "bronze")
    assert (first["run_key"], first["attempt"], first["mode"]) == (report.run_key, report.attempt, "incremental")
    assert 0 < dict(first["duration_ms"])["addBatch"] <= first["trigger_ms"]
    (silver,) = (line for line in lines if line["flow"] == "silver")
    assert silver["input_rows"] >= 100
    assert silver["processed_rows_per_second"] > 0
    assert second["start_offset"] == first["end_offset"] == '{"logOffset": 0}'
    # Written when a flow ends, so it costs one commit each.
    assert len(list((path / "_delta_log").glob("*.json"))) == 3


@pytest.mark.jvm
def test_a_flow_whose_metrics_cannot_be_written_is_done_all_the_same(
    two_batches: Deployment, spark: Any, caplog: pytest.LogCaptureFixture
) -> None:
    path = two_batches.layout.ops("flights", "progress")
    path.parent.mkdir(parents=True)
    path.write_text("a file where a table should be")
    report = two_batches.run(flows=["bronze"])
    assert report.flow("bronze").state == "done"
    assert report.flow("bronze").total("written") == 100
    assert "bronze: metrics of its batches were not recorded: " in caplog.text


def test_what_spark_tells_in_an_unknown_form_is_a_warning_without_its_text(
    deployment: Deployment, caplog: pytest.LogCaptureFixture
) -> None:
    context = SimpleNamespace(
        flow=SimpleNamespace(name="bronze"),
        app_id="flights/bronze/v1/0",
        run_key="r",
        attempt="a",
        request=SimpleNamespace(mode="incremental"),
        layout=deployment.layout,
        pipeline=SimpleNamespace(name="flights"),
    )
    listener = Recorder(cast(FlowContext, context))
    assert listener.await_end(0), "a query that never started has no end"
    listener.onQueryStarted(SimpleNamespace(name="another", runId=1))
    listener.onQueryStarted(SimpleNamespace(name="flights/bronze/v1/0", runId=2))
    assert not listener.await_end(0)
    caplog.set_level(logging.WARNING)
    for run, json in ((1, "not ours"), (2, '{"secret": 4711}')):
        listener.onQueryProgress(
            SimpleNamespace(progress=SimpleNamespace(runId=run, durationMs={"addBatch": 1}, json=json))
        )
    listener.onQueryTerminated(SimpleNamespace(runId=1))
    assert not listener.await_end(0)
    listener.onQueryTerminated(SimpleNamespace(runId=2))
    assert listener.await_end(0)
    listener.write()
    assert [record.getMessage() for record in caplog.records] == [
        "bronze: metrics of its batches were not recorded: KeyError"
    ]
    assert not deployment.layout.ops("flights", "progress").exists()
