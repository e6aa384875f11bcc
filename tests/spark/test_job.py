"""A run of a pipeline: each flow in its order, what stops whom, and a report that is there whatever happens."""

from __future__ import annotations

import dataclasses
import errno
import importlib
import json
from pathlib import Path
from typing import Any

import pytest

from tests.deployment import Deployment
from tests.spark.orders import Declare, Orders, row
from tidegate import registry
from tidegate.checkpoints import checkpoint, intervention, refusal
from tidegate.errors import LakeUnwritableError, RequestError, SpecError
from tidegate.report import FlowReport, RunReport
from tidegate.spark.job import _Job, run_job
from tidegate.spec import ChangeFeed, Flow, KafkaSource, Pipeline, Table


@pytest.fixture
def orders(deployment: Deployment, declare: Declare) -> Orders:
    """The pipeline, declared; it has no landing folder yet."""
    declare()
    return Orders(deployment)


def states(report: RunReport) -> dict[str, str]:
    return {flow.flow: flow.state for flow in report.flows}


def kept(orders: Orders, report: RunReport) -> dict[str, Any]:
    """The report as it lies in the lake."""
    path = orders.deployment.layout.report("orders", report.run_key, report.attempt)
    told: dict[str, Any] = json.loads(path.read_text())
    return told


def test_where_no_flow_can_run_no_spark_starts_and_the_report_says_of_each_why(orders: Orders) -> None:
    report = orders.run("bronze", "silver", "gold")

    assert states(report) == {"bronze": "failed", "silver": "skipped", "gold": "skipped"}
    error = report.flow("bronze").error
    assert error is not None and error["kind"] == "SourceError"
    assert "session" not in report.parts
    told = kept(orders, report)
    assert [flow["state"] for flow in told["flows"]] == ["failed", "skipped", "skipped"]
    assert told["ended_at"] and told["parts"]["total"] >= 0


def test_a_flow_is_blocked_by_the_one_right_above_it_and_not_by_one_beside_it(orders: Orders) -> None:
    pipeline = registry.load("orders")
    job = _Job(orders.deployment.environment, orders.deployment.request("orders"), "a1")

    def runnable(*blocked: str) -> bool:
        job.blocked = {name: SpecError("mend it") for name in blocked}
        return job._runnable(pipeline, pipeline.flows)

    assert not runnable("bronze")
    assert runnable("silver"), "bronze is not behind it"
    assert runnable("gold")
    assert runnable()


def test_a_source_that_cannot_be_read_fails_no_flow_that_is_off_and_a_damaged_list_of_decisions_its_own_flow(
    orders: Orders,
) -> None:
    pipeline, layout = registry.load("orders"), orders.deployment.layout
    intervention.switch(layout, "orders", "bronze", on=False, by="ada", reason="the folder has moved")
    damaged = layout.interventions("orders", "gold")
    damaged.parent.mkdir(parents=True)
    damaged.write_text('{"act": "off", "by"')
    job = _Job(orders.deployment.environment, orders.deployment.request("orders"), "a1")
    job.report.flows = [FlowReport(flow=f.name, target=f.target.name, checkpoint_version=1) for f in pipeline.flows]

    job._preflight(pipeline, pipeline.flows)

    assert job.off.keys() == {"bronze"}
    assert {name: type(error).__name__ for name, error in job.blocked.items()} == {"gold": "CheckpointCorruptError"}


def test_an_error_of_the_whole_run_stands_in_its_report(orders: Orders) -> None:
    request = dataclasses.replace(orders.deployment.request("orders"), dag_id="nobody")

    with pytest.raises(RequestError, match="there is no pipeline 'nobody'"):
        run_job(orders.deployment.environment, request, "a1")

    told = json.loads(orders.deployment.layout.report("nobody", request.run_key, "a1").read_text())
    assert (told["error"]["kind"], told["ended_at"] is None) == ("RequestError", False)


def test_a_lake_that_takes_no_report_is_an_error_that_heals_and_hides_no_other(
    orders: Orders, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(code: int) -> Any:
        def write(*_: Any) -> None:
            raise OSError(code, "no")

        return write

    request = orders.deployment.request("orders")
    monkeypatch.setattr(RunReport, "write", full(errno.ENOSPC))
    with pytest.raises(LakeUnwritableError) as raised:
        run_job(orders.deployment.environment, request, "a1")
    assert raised.value.transient
    with pytest.raises(RequestError, match="no pipeline"):
        run_job(orders.deployment.environment, dataclasses.replace(request, dag_id="nobody"), "a1")
    monkeypatch.setattr(RunReport, "write", full(errno.EACCES))
    with pytest.raises(PermissionError):
        run_job(orders.deployment.environment, request, "a1")


def test_what_is_behind_an_error_is_kept_beside_the_report_and_our_own_words_are_enough(orders: Orders) -> None:
    job = _Job(orders.deployment.environment, orders.deployment.request("orders"), "a1")
    job.tell()
    flow = registry.load("orders").flow("silver")
    path = job.path.with_name("failure-silver.txt")

    job._keep_failure(flow, SpecError("mend it"))
    assert not path.exists()

    wrapped = SpecError("mend it")
    wrapped.__cause__ = ValueError("secret@example.org")
    for error in (wrapped, KeyError("secret@example.org")):
        job._keep_failure(flow, error)
        assert "secret@example.org" in path.read_text()
        path.unlink()


def context_of(orders: Orders, *flows: Flow, name: str) -> Any:
    """The context that a job makes for a flow of a pipeline; nothing of it asks Spark."""
    pipeline = Pipeline(name="orders", flows=flows)
    job = _Job(orders.deployment.environment, orders.deployment.request("orders"), "a1")
    told = FlowReport(flow=name, target="", checkpoint_version=1)
    spark: Any = None
    return job._context(spark, pipeline, pipeline.flow(name), told)


@pytest.mark.jvm
def test_a_flow_knows_the_source_whose_records_it_parses_or_the_keys_of_the_table_that_it_reads(
    orders: Orders, tmp_path: Path
) -> None:
    bronze, silver, gold = registry.load("orders").flows
    layout = orders.deployment.layout
    layout.checkpoint("orders", "silver", 1, 3).mkdir(parents=True)

    first = context_of(orders, bronze, silver, gold, name="bronze")
    assert (first.landing, first.source_keys, first.source_table) == (None, (), None)
    second = context_of(orders, bronze, silver, gold, name="silver")
    assert (second.landing, second.source_keys) == (bronze.source, ())
    assert (second.source_table, second.target) == (layout.table("bronze.orders"), layout.table("silver.orders"))
    assert (second.ref.refresh, second.report.refresh) == (3, 3), "the refresh that is in use"
    assert second.transform.__name__ == "clean"
    third = context_of(orders, bronze, silver, gold, name="gold")
    assert (third.landing, third.source_keys) == (None, ("id",))


@pytest.mark.jvm
def test_a_flow_is_told_of_a_source_that_nobody_writes_and_of_one_without_keys(orders: Orders) -> None:
    clicks = Flow(
        name="clicks", source=KafkaSource(topic="clicks", schema="id INT", format="json"), target=Table("bronze.c")
    )
    log = Flow(name="log", source=ChangeFeed("bronze.c"), transform="orders:clean", target=Table("silver.log"))
    behind = Flow(name="behind", source=ChangeFeed("silver.log"), transform="orders:clean", target=Table("silver.b"))
    alone = Flow(name="alone", source=ChangeFeed("silver.nobodys"), transform="orders:clean", target=Table("silver.a"))

    with pytest.raises(SpecError, match="is neither a bronze table nor keyed"):
        context_of(orders, clicks, log, behind, name="behind")
    with pytest.raises(SpecError, match=r"no declared flow writes its source table 'silver\.nobodys'"):
        context_of(orders, clicks, alone, name="alone")


@pytest.mark.jvm
def test_a_flow_whose_declaration_does_not_fit_fails_alone_and_those_behind_it_do_not_run(
    orders: Orders, spark: Any
) -> None:
    orders.land(row(1))
    layout, pipeline = orders.deployment.layout, registry.load("orders")
    silver = pipeline.flow("silver")
    remembered = dataclasses.replace(silver, target=dataclasses.replace(silver.target, keys=("amount",)))
    checkpoint.write_sidecar(layout, pipeline, remembered)

    report = orders.run("bronze", "silver", "gold")

    assert states(report) == {"bronze": "done", "silver": "failed", "gold": "skipped"}
    error = report.flow("silver").error
    assert error is not None and error["kind"] == "CheckpointIncompatibleError"
    assert report.flow("bronze").total("written") == 1
    assert not layout.table("silver.orders").exists()
    assert not layout.table("gold.orders").exists()
    told = kept(orders, report)
    assert [flow["state"] for flow in told["flows"]] == ["done", "failed", "skipped"]
    assert {"preflight", "session", "flows", "total"} <= told["parts"].keys()


@pytest.mark.jvm
def test_a_flow_that_fails_stops_all_that_are_behind_it_however_far(orders: Orders, spark: Any) -> None:
    from tidegate.spark.lake import sinks

    orders.land(row(1))
    path = orders.deployment.layout.table("bronze.orders")
    of_another_flow = sinks.Transaction(app_id="orders/landing/v1/0", batch_id=0, planned={})
    sinks.append(spark.createDataFrame([(1,)], "id int"), path, of_another_flow)

    report = orders.run("bronze", "silver", "gold")

    assert states(report) == {"bronze": "failed", "silver": "skipped", "gold": "skipped"}
    error = report.flow("bronze").error
    assert error is not None and error["kind"] == "SpecDriftError"


@pytest.mark.jvm
def test_a_flow_that_is_switched_off_is_skipped_with_its_reason_and_those_behind_it_run(
    orders: Orders, spark: Any
) -> None:
    orders.land(row(1))
    layout = orders.deployment.layout
    intervention.switch(layout, "orders", "silver", on=False, by="ada", reason="its suite is being mended")

    report = orders.run("bronze", "silver", "gold")

    assert states(report) == {"bronze": "done", "silver": "skipped", "gold": "idle"}
    assert report.flow("silver").notes[-1].endswith("its suite is being mended")
    assert not layout.table("silver.orders").exists()
    intervention.switch(layout, "orders", "silver", on=True, by="ada", reason="it is mended")
    again = orders.run("silver", "gold")
    assert states(again) == {"silver": "done", "gold": "done"}
    before, after = again.flow("silver").lag_before, again.flow("silver").lag_after
    assert before is not None and after is not None
    assert (before["has_work"], after["has_work"]) == (True, False)


@pytest.mark.jvm
def test_a_refused_batch_is_noted_once_for_plan_and_stops_the_flows_behind_it(
    orders: Orders, spark: Any, declare: Declare
) -> None:
    declare("Contract(mode='freeze')")
    orders.land(row(1, gate="B12"))

    report = orders.run("bronze", "silver", "gold")

    assert states(report) == {"bronze": "done", "silver": "refused", "gold": "skipped"}
    layout, pipeline = orders.deployment.layout, registry.load("orders")
    ref = checkpoint.current(layout, pipeline, pipeline.flow("silver"))
    error = report.flow("silver").error
    assert error is not None
    assert refusal.noted(layout, ref)["drift"] == error["drift"]
    assert not orders.plan().work


@pytest.mark.jvm
def test_a_failed_flow_says_why_keeps_the_cause_in_the_lake_and_stops_only_those_behind_it(
    orders: Orders, spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders.land(row(1))
    orders.run("bronze")

    def breaks(_rows: Any) -> Any:
        raise ValueError("secret@example.org")

    monkeypatch.setattr(importlib.import_module("spark_jobs.orders"), "clean", breaks)
    orders.land(row(2))

    report = orders.run("bronze", "silver", "gold")

    assert states(report) == {"bronze": "done", "silver": "failed", "gold": "skipped"}
    error = report.flow("silver").error
    assert error is not None and error["kind"] == "UnexpectedError"
    assert "secret" not in json.dumps(kept(orders, report))
    attempt = orders.deployment.layout.attempt("orders", report.run_key, report.attempt)
    assert "secret@example.org" in (attempt / "failure-silver.txt").read_text()
