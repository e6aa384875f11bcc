"""Flows of a real lake are read and the alert rules evaluated, without a JVM."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pendulum
import pytest

from tests.cli.project import Project, append, orders, quarantined
from tests.resolved import resolved
from tests.spark_files import delta_offset
from tests.with_fields import with_fields
from tidegate.checkpoints import lease, overrides
from tidegate.lake.place import AttemptPlace, FlowPlace, PipelinePlace
from tidegate.ops import ledger, metrics, plans
from tidegate.ops.metrics import QueryProgress
from tidegate.reports.ledger_line import LedgerLine
from tidegate.reports.report import FlowReport, RunReport, now
from tidegate.requests.request import fresh_id
from tidegate.spec import AfterTables, ChangeFeed, Pipeline
from tidegate.spec.limits import Thresholds
from tidegate.status import evaluation
from tidegate.status.reading import Reading

NOW = pendulum.now("UTC")


@pytest.fixture
def project(tmp_path: Path) -> Project:
    project = Project.make(tmp_path / "project")
    (project.folder / "landing" / "orders").mkdir()
    return project


def changed(pipeline: Pipeline, name: str, **fields: Any) -> Pipeline:
    flows = tuple(dataclasses.replace(flow, **fields) if flow.name == name else flow for flow in pipeline.flows)
    return dataclasses.replace(pipeline, flows=flows)


def reading(project: Project, pipeline: Pipeline, flow: str) -> Reading:
    return Reading.of(project.environment, resolved(pipeline).flow(flow), NOW)


def rules(project: Project, pipeline: Pipeline, now: datetime = NOW) -> set[tuple[str, str]]:
    (evaluated,) = evaluation.evaluate_pipelines(project.environment, [(pipeline.name, resolved(pipeline))], now)
    return {(alert.flow, alert.rule) for findings in evaluated.findings for alert in findings.alerts}


def record(project: Project, pipeline: Pipeline, flow: str, batch_id: int, run: str, **counts: Any) -> None:

    line = LedgerLine(flow=flow, batch_id=batch_id, app_id=f"orders/{flow}", kind="append", **counts)
    assert line.imbalance() == 0
    origin = ledger.RunOrigin(run_key=run, mode="incremental", attempt="a1", checkpoint_version=1, refresh=0)
    ledger.record(PipelinePlace(project.layout, pipeline.name), line, origin)


def test_an_empty_lake_has_no_alerts(project: Project) -> None:
    assert rules(project, orders()) == set()


def test_batches_of_one_run_are_added_up_and_the_larger_quarantine_share_of_rows_or_files_counts(
    project: Project,
) -> None:
    pipeline = orders()
    record(project, pipeline, "bronze", 0, "r1", read=100, written=100, seconds=3.0)
    record(project, pipeline, "bronze", 1, "r2", read=60, written=60, seconds=1.5)
    record(
        project, pipeline, "bronze", 2, "r2", read=40, written=36, quarantined=4, seconds=2.5,
        files_listed=10, files_opened=9, files_quarantined=1,
    )  # fmt: skip
    first, last = reading(project, pipeline, "bronze").runs
    assert (first.rows, first.seconds, first.quarantined_share) == (100, 3.0, 0.0)
    assert (last.rows, last.seconds, last.quarantined_share) == (100, 4.0, 0.1)
    # The runs of this test are immediate, so no arrival rate can be computed.
    assert rules(project, pipeline, pendulum.now("UTC")) == {("bronze", "quarantine")}


def test_spark_progress_gives_the_duration_of_a_run(project: Project) -> None:
    pipeline = orders()
    record(project, pipeline, "silver", 0, "r1", read=10, written=10, seconds=1.0)
    started = NOW - timedelta(minutes=5)
    line = QueryProgress(
        flow="silver", app_id="a", batch_id=0, run_key="r1", attempt="a1", mode="incremental", started_at=started,
        input_rows=10, input_rows_per_second=None, processed_rows_per_second=5.0, trigger_ms=2000, duration_ms={},
        start_offset=None, end_offset=None,
        offsets_behind=None, recorded_at=NOW,
    )  # fmt: skip
    metrics.append(PipelinePlace(project.layout, "orders").ops("progress"), [line])
    (run,) = reading(project, pipeline, "silver").runs
    assert (run.started_at, run.seconds) == (started, 2.0)


def test_rules_use_plans_lag_and_quarantine(project: Project) -> None:
    pipeline = dataclasses.replace(orders(), schedule="@hourly", thresholds=Thresholds(lag_rows=0, missed_runs=1))
    plans.record_failure(PipelinePlace(project.layout, "orders"))
    project.land("1.csv", "order_id,amount\nA-1,1.0\n")
    append(FlowPlace(project.layout, "orders", "silver").quarantine, [quarantined("r", ["x"], {}, "secret")])
    later = pendulum.now("UTC").add(hours=2, minutes=5)
    assert rules(project, pipeline, later) >= {("bronze", "lag"), ("silver", "quarantine_age"), ("gold", "missed")}


def test_the_newest_event_is_read_only_if_the_freshness_rule_is_enabled(project: Project) -> None:
    fresh = Thresholds(freshness_hours=24)
    pipeline = changed(orders(), "silver", thresholds=fresh)
    assert reading(project, pipeline, "silver").newest_event is None
    for day in (3, 4):
        project.table("silver.orders", [{"order_id": "A", "day": datetime(2026, 1, day).date()}])  # noqa: DTZ001
    assert reading(project, pipeline, "silver").newest_event == datetime(2026, 1, 4, tzinfo=UTC)
    assert reading(project, orders(), "silver").newest_event is None, "the rule is not enabled"
    timed = changed(
        pipeline, "gold", thresholds=fresh, target=with_fields(pipeline.flow("gold").target, event_time="at")
    )
    project.table("gold.orders", [{"at": datetime(2026, 1, 5, 7, tzinfo=UTC)}])
    assert reading(project, timed, "gold").newest_event == datetime(2026, 1, 5, 7, tzinfo=UTC)


def test_an_event_in_the_future_does_not_make_old_data_fresh(project: Project) -> None:
    pipeline = changed(orders(), "silver", thresholds=Thresholds(freshness_hours=24))
    days = [NOW.subtract(days=3).date(), datetime(2099, 1, 1, tzinfo=UTC).date()]
    project.table("silver.orders", [{"order_id": "A", "day": day} for day in days])
    assert ("silver", "freshness") in rules(project, pipeline)


def test_a_pipeline_that_is_never_planned_is_missed_once_it_has_been_watched_long_enough(project: Project) -> None:
    pipeline = dataclasses.replace(orders(), schedule="@hourly")
    later = pendulum.now("UTC").add(hours=5)
    assert rules(project, pipeline, later) == set(), "it is not watched yet"
    plans.record_watched(PipelinePlace(project.layout, "orders"))
    assert rules(project, pipeline) == set()
    assert rules(project, pipeline, later) == {(flow, "missed") for flow in ("bronze", "silver", "gold")}
    plans.record_failure(PipelinePlace(project.layout, "orders"))
    assert rules(project, pipeline) == set()


def test_a_flow_that_was_switched_off_because_its_source_is_gone_is_not_late(project: Project) -> None:
    pipeline = dataclasses.replace(orders(), schedule="@hourly")
    plans.record_watched(PipelinePlace(project.layout, "orders"))
    landing = project.folder / "landing" / "orders"
    landing.rmdir()
    landing.write_text("a file where a folder was")
    overrides.switch(
        FlowPlace(project.layout, "orders", "bronze"), on=False, by="ada", reason="the supplier has closed"
    )
    late = rules(project, pipeline, pendulum.now("UTC").add(hours=5))
    assert late == {("bronze", "unreadable"), ("silver", "missed"), ("gold", "missed")}


def test_a_pipeline_that_follows_a_table_and_does_not_run_is_late_although_it_has_no_plan(project: Project) -> None:
    hourly = dataclasses.replace(orders(), schedule="@hourly")
    flow = dataclasses.replace(orders(topic="report").flow("gold"), source=ChangeFeed("bronze.orders"))
    report = Pipeline(name="report", schedule=AfterTables("bronze.orders"), flows=(flow,))
    of_all = {"orders": hourly, "report": report}
    declared = dataclasses.replace(
        resolved(report), flows=(dataclasses.replace(resolved(report).flow("gold"), declared=of_all),), declared=of_all
    )
    table = project.table("bronze.orders", [{"order_id": "A"}])
    project.checkpoint(report, flow).plan(0, delta_offset(1, table_id=table)).commit(0)
    project.table("bronze.orders", [{"order_id": "B"}])

    def alerts(now: datetime) -> dict[str, str]:
        (evaluated,) = evaluation.evaluate_pipelines(project.environment, [("report", declared)], now)
        return {alert.rule: alert.message for findings in evaluated.findings for alert in findings.alerts}

    now = pendulum.now("UTC")
    assert alerts(now.add(hours=1, minutes=59)) == {}
    assert set(alerts(now.add(hours=2, minutes=1))) == {"lag_age"}


HOLD = """
import fcntl, os, sys
lock = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
print("locked", flush=True)
sys.stdin.read()
"""


def test_a_batch_of_a_job_that_runs_for_hours_is_long_from_the_start_of_its_job_and_crashed_when_the_job_is_killed(
    project: Project,
) -> None:
    pipeline = dataclasses.replace(orders(), schedule="@hourly")
    silver, layout = pipeline.flow("silver"), project.layout
    table = project.table("bronze.orders", [{"order_id": "A"}])
    # The batch was planned in January.
    project.checkpoint(pipeline, silver).plan(0, delta_offset(1, table_id=table))
    assert ("silver", "long_batch") not in rules(project, pipeline), "no job works on it"
    done = FlowReport(flow="bronze", target="bronze.orders", checkpoint_version=1, state="done")
    begun = FlowReport(flow="silver", target="silver.orders", checkpoint_version=1, state="running")
    report = RunReport(dag_id="orders", run_key="r", attempt=fresh_id("a"), started_at=now(), flows=[done, begun])
    report.write(AttemptPlace(layout, "orders", "r", report.attempt).report)
    resource = lease.checkpoint_resource("orders", "silver")
    layout.lease(resource).parent.mkdir(parents=True)
    command = [sys.executable, "-c", HOLD, str(layout.lease(resource))]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as job:
        assert job.stdout is not None
        assert job.stdout.readline() == "locked\n"
        lease.write_owner(layout, resource, what="a job", pid=job.pid)
        start = pendulum.now("UTC")
        assert ("silver", "long_batch") not in rules(project, pipeline, start.add(hours=2, minutes=50))
        later = rules(project, pipeline, start.add(hours=3, minutes=1))
        assert ("silver", "long_batch") in later
        assert ("silver", "failed") not in later
        job.kill()
    later = rules(project, pipeline, start.add(hours=3, minutes=1))
    assert ("silver", "long_batch") not in later
    assert ("silver", "failed") in later
