"""A run of a pipeline: the order of the flows, which flows a failure stops, and the report."""

from __future__ import annotations

import dataclasses
import errno
import importlib
import json
from pathlib import Path
from typing import Any

import pytest

from tests import places
from tests.deployment import Deployment
from tests.spark.orders import Declare, Orders, row
from tests.with_fields import with_fields
from tidegate.checkpoints import checkpoint, overrides, refusal
from tidegate.checkpoints.overrides import OVERRIDES
from tidegate.errors import LakeUnwritableError, MachineError, MachineUnavailableError, RequestError, SpecError
from tidegate.errors.refusals import ContractRefusal
from tidegate.lake.place import AttemptPlace, FlowPlace, Place
from tidegate.project import registry, resolution
from tidegate.reports.report import FlowReport, RunReport
from tidegate.runtime.project_archive import ProjectArchive
from tidegate.spark.application import _Application, run_application


@pytest.fixture
def orders(deployment: Deployment, declare: Declare) -> Orders:
    """The declared pipeline, without a landing folder."""
    declare()
    return Orders(deployment)


def states(report: RunReport) -> dict[str, str]:
    return {flow.flow: flow.state for flow in report.flows}


def report_in_lake(orders: Orders, report: RunReport) -> dict[str, Any]:
    """The report as written to the lake."""
    path = AttemptPlace(orders.deployment.layout, "orders", report.run_key, report.attempt).report
    written: dict[str, Any] = json.loads(Path(path).read_text())
    return written


@pytest.mark.jvm
def test_if_no_flow_can_run_no_session_starts_and_the_report_has_the_errors(orders: Orders) -> None:
    (orders.deployment.environment.landing / "orders").write_text("a file in place of the folder")
    report = orders.run("bronze", "silver", "gold")

    assert states(report) == {"bronze": "failed", "silver": "skipped", "gold": "skipped"}
    error = report.flow("bronze").error
    assert error is not None and error.kind == "SourceError"
    assert "session" not in report.parts
    written = report_in_lake(orders, report)
    assert [flow["state"] for flow in written["flows"]] == ["failed", "skipped", "skipped"]
    assert written["ended_at"] and written["parts"]["total"] >= 0


def test_a_verification_does_not_depend_on_what_its_flow_reads_next(orders: Orders) -> None:
    environment = orders.deployment.environment
    flows = resolution.load("orders", environment.project).flows
    request = dataclasses.replace(orders.deployment.request("orders"), mode="verify")
    job = _Application(environment, request, "a1")
    job.report.flows = [FlowReport(flow=each.flow.name, target="", checkpoint_version=1) for each in flows]

    job._preflight(flows)

    assert job.blocked == {}, "its landing folder does not exist"
    assert [flow.lag_before for flow in job.report.flows] == [None] * 3


def test_a_flow_is_blocked_only_by_its_upstream_flow(orders: Orders) -> None:
    environment = orders.deployment.environment
    flows = resolution.load("orders", environment.project).flows
    job = _Application(environment, orders.deployment.request("orders"), "a1")

    def runnable(*blocked: str) -> bool:
        job.blocked = {name: SpecError("fix it") for name in blocked}
        return job._runnable(flows)

    assert not runnable("bronze")
    assert runnable("silver"), "bronze does not read from silver"
    assert runnable("gold")
    assert runnable()


def test_an_unreadable_source_does_not_fail_a_flow_that_is_switched_off_and_damaged_overrides_fail_their_flow(
    orders: Orders,
) -> None:
    layout, environment = orders.deployment.layout, orders.deployment.environment
    flows = resolution.load("orders", environment.project).flows
    overrides.switch(FlowPlace(layout, "orders", "bronze"), on=False, by="ada", reason="the folder has moved")
    damaged = OVERRIDES.path(FlowPlace(layout, "orders", "gold"))
    Path(damaged.parent).mkdir(parents=True)
    Path(damaged).write_text('{"act": "off", "by"')
    job = _Application(environment, orders.deployment.request("orders"), "a1")
    job.report.flows = [FlowReport(flow=each.flow.name, target="", checkpoint_version=1) for each in flows]

    job._preflight(flows)

    assert job.switched_off.keys() == {"bronze"}
    assert {name: type(error).__name__ for name, error in job.blocked.items()} == {"gold": "DamagedFileError"}


def test_an_error_of_the_whole_run_is_in_its_report(orders: Orders) -> None:
    request = dataclasses.replace(orders.deployment.request("orders"), dag_id="unknown")

    with pytest.raises(RequestError, match="there is no pipeline 'unknown'"):
        run_application(orders.deployment.environment, request, "a1")

    written = json.loads(
        Path(AttemptPlace(orders.deployment.layout, "unknown", request.run_key, "a1").report).read_text()
    )
    assert (written["error"]["kind"], written["ended_at"] is None) == ("RequestError", False)


def test_an_unwritable_report_is_a_transient_error_and_hides_no_other_error(
    orders: Orders, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(code: int) -> Any:
        def write(*_: Any, **__: Any) -> None:
            raise OSError(code, "no")

        return write

    request = orders.deployment.request("orders")
    monkeypatch.setattr(RunReport, "write", full(errno.ENOSPC))
    with pytest.raises(LakeUnwritableError) as raised:
        run_application(orders.deployment.environment, request, "a1")
    assert raised.value.transient
    with pytest.raises(RequestError, match="no pipeline"):
        run_application(orders.deployment.environment, dataclasses.replace(request, dag_id="unknown"), "a1")
    monkeypatch.setattr(RunReport, "write", full(errno.EACCES))
    with pytest.raises(MachineError, match="permission is denied"):
        run_application(orders.deployment.environment, request, "a1")


def test_the_traceback_is_written_next_to_the_report_unless_the_error_has_no_cause(orders: Orders) -> None:
    job = _Application(orders.deployment.environment, orders.deployment.request("orders"), "a1")
    job.write_report()
    path = Path(job.place.report).with_name("failure-silver.txt")

    job._write_failure("silver", SpecError("fix it"))
    assert not path.exists()

    wrapped = SpecError("fix it")
    wrapped.__cause__ = ValueError("secret@example.org")
    for error in (wrapped, KeyError("secret@example.org")):
        job._write_failure("silver", error)
        assert "secret@example.org" in path.read_text()
        path.unlink()


@pytest.mark.jvm
def test_the_job_has_the_current_refresh_and_the_imported_transform(orders: Orders) -> None:
    layout, environment = orders.deployment.layout, orders.deployment.environment
    Path(Place(layout, "orders", "silver", 1, 3).checkpoint).mkdir(parents=True)
    silver = resolution.load("orders", environment.project).flow("silver")
    spark: Any = None
    report = FlowReport(flow="silver", target="", checkpoint_version=1)

    job = _Application(environment, orders.deployment.request("orders"), "a1")._job(spark, silver, report)

    assert (job.source_table, job.target) == (layout.table("bronze.orders"), layout.table("silver.orders"))
    assert (job.place.refresh, report.refresh) == (3, 3)
    assert job.transform is not None and job.transform.__name__ == "clean"


def test_a_transform_that_is_not_the_one_of_the_executors_is_not_applied(orders: Orders) -> None:
    environment = orders.deployment.environment
    job = _Application(environment, orders.deployment.request("orders"), "a1")
    job._check_code("silver")
    job.project_archive = ProjectArchive.read(environment.project).sha256
    job._check_code("silver")
    (environment.project / "spark_jobs").mkdir()
    (environment.project / "spark_jobs" / "orders.py").write_text("FACTOR = 3\n")
    with pytest.raises(MachineUnavailableError, match="flow 'silver': the code of the project has changed"):
        job._check_code("silver")


@pytest.mark.jvm
def test_a_run_that_is_not_small_shuffles_by_the_size_of_its_input(orders: Orders, spark: Any) -> None:
    request = dataclasses.replace(orders.deployment.request("orders"), size=200 * 1024**2)
    application = _Application(orders.deployment.environment, request, "a1")
    name = "spark.sql.shuffle.partitions"
    before = spark.conf.get(name)
    try:
        assert application._session().conf.get(name) == "8", "one per 32 MiB, in whole waves of two cores"
        assert "shuffle partitions: 8" in application.report.notes
    finally:
        spark.conf.set(name, before)


@pytest.mark.jvm
def test_a_flow_with_an_incompatible_declaration_fails_and_its_downstream_flows_are_skipped(
    orders: Orders, spark: Any
) -> None:
    orders.land(row(1))
    layout, pipeline = orders.deployment.layout, registry.load("orders")
    silver = pipeline.flow("silver")
    recorded = dataclasses.replace(silver, target=with_fields(silver.target, keys=("amount",)))
    checkpoint.write_sidecar(places.of(layout, pipeline, recorded), recorded)

    report = orders.run("bronze", "silver", "gold")

    assert states(report) == {"bronze": "done", "silver": "failed", "gold": "skipped"}
    error = report.flow("silver").error
    assert error is not None and error.kind == "CheckpointIncompatibleError"
    assert report.flow("bronze").total("written") == 1
    assert not layout.table("silver.orders").exists()
    assert not layout.table("gold.orders").exists()
    written = report_in_lake(orders, report)
    assert [flow["state"] for flow in written["flows"]] == ["done", "failed", "skipped"]
    assert {"preflight", "session", "flows", "total"} <= written["parts"].keys()


@pytest.mark.jvm
def test_a_flow_without_its_transform_fails_alone(orders: Orders, spark: Any, tmp_path: Path) -> None:
    orders.land(row(1))
    code = tmp_path / "spark_jobs" / "orders.py"
    code.write_text(code.read_text().replace("def daily", "def weekly"))

    report = orders.run("bronze", "silver", "gold")

    assert states(report) == {"bronze": "done", "silver": "done", "gold": "failed"}
    error = report.flow("gold").error
    assert error is not None and "spark_jobs/orders.py has no function 'daily'" in error.message


@pytest.mark.gx
def test_a_suite_that_great_expectations_refuses_blocks_only_its_flow(deployment: Deployment) -> None:
    deployment.edit_suite("flights/silver", [{"type": "expect_nothing"}])
    job = _Application(deployment.environment, deployment.request(), "a1")

    loading = job._load_suites(resolution.load("flights", deployment.environment.project).flows)

    assert loading is not None
    loading.join()
    assert (job.loading_error, list(job.blocked)) == (None, ["silver"])
    assert "expect_nothing" in job.blocked["silver"].message


@pytest.mark.jvm
def test_a_failed_flow_stops_all_its_downstream_flows(orders: Orders, spark: Any) -> None:
    from tidegate.spark.lake import writes

    orders.land(row(1))
    path = orders.deployment.layout.table("bronze.orders")
    of_another_flow = writes.Transaction(app_id="orders/landing/v1/0", batch_id=0, prepared={})
    writes.append(spark.createDataFrame([(1,)], "id int"), path, of_another_flow)

    report = orders.run("bronze", "silver", "gold")

    assert states(report) == {"bronze": "failed", "silver": "skipped", "gold": "skipped"}
    error = report.flow("bronze").error
    assert error is not None and error.kind == "DeclarationConflictError"


@pytest.mark.jvm
@pytest.mark.nightly
def test_a_flow_that_is_switched_off_is_skipped_with_its_reason_and_its_downstream_flows_run(
    orders: Orders, spark: Any
) -> None:
    orders.land(row(1))
    layout = orders.deployment.layout
    overrides.switch(FlowPlace(layout, "orders", "silver"), on=False, by="ada", reason="its suite is being fixed")

    report = orders.run("bronze", "silver", "gold")

    assert states(report) == {"bronze": "done", "silver": "skipped", "gold": "idle"}
    assert report.flow("silver").notes[-1].endswith("its suite is being fixed")
    assert not layout.table("silver.orders").exists()
    overrides.switch(FlowPlace(layout, "orders", "silver"), on=True, by="ada", reason="it is fixed")
    again = orders.run("silver", "gold")
    assert states(again) == {"silver": "done", "gold": "done"}
    before, after = again.flow("silver").lag_before, again.flow("silver").lag_after
    assert before is not None and after is not None
    assert (before.behind > 0, after.behind) == (True, 0)


@pytest.mark.jvm
def test_a_refused_batch_is_recorded_for_plan_and_stops_the_downstream_flows(
    orders: Orders, spark: Any, declare: Declare
) -> None:
    declare("Contract(mode='freeze')")
    orders.land(row(1, gate="B12"))

    report = orders.run("bronze", "silver", "gold")

    assert states(report) == {"bronze": "done", "silver": "refused", "gold": "skipped"}
    layout, pipeline = orders.deployment.layout, registry.load("orders")
    place = places.current(layout, pipeline, pipeline.flow("silver"))
    error = report.flow("silver").error
    assert error is not None
    recorded = refusal.REFUSAL.read(place)
    assert isinstance(recorded, ContractRefusal)
    assert recorded.schema_change_id == error.schema_change_id
    assert not orders.plan().work


@pytest.mark.jvm
def test_a_failed_flow_writes_its_traceback_to_the_lake_and_stops_only_its_downstream_flows(
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
    assert error is not None and error.kind == "UnexpectedError"
    assert "secret" not in json.dumps(report_in_lake(orders, report))
    attempt = AttemptPlace(orders.deployment.layout, "orders", report.run_key, report.attempt).folder
    assert "secret@example.org" in Path(attempt / "failure-silver.txt").read_text()
