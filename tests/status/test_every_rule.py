"""Every alert rule opens and resolves with files of a real lake, written without a JVM."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pendulum
import pytest

from tests import places
from tests.cli.project import Project, append, orders, quarantined, state_progress, stateful_orders
from tests.resolved import resolved
from tests.spark_files import delta_offset
from tidegate.alerting.alerts import Findings, evaluate
from tidegate.alerting.rules import RULES
from tidegate.checkpoints import refusal, rewrite
from tidegate.errors.refusals import GateRefusal
from tidegate.lake.place import AttemptPlace, FlowPlace, PipelinePlace
from tidegate.ops import ledger, metrics
from tidegate.ops.metrics import QueryProgress
from tidegate.project import fingerprints
from tidegate.quarantine import decision
from tidegate.quarantine.selection import Selection
from tidegate.reports.impact import Impact
from tidegate.reports.ledger_line import LedgerLine
from tidegate.reports.report import ErrorReport, FlowReport, FlowState, RunReport
from tidegate.spec import Pipeline
from tidegate.spec.limits import Thresholds
from tidegate.status.evaluation import evaluate_pipelines
from tidegate.status.reading import Reading

pytestmark = pytest.mark.slow

NOW = pendulum.now("UTC")
HOURLY = dataclasses.replace(orders(), schedule="@hourly")


@dataclasses.dataclass(frozen=True)
class Step:
    """A state of the lake in which the rule is evaluated."""

    flow: str
    pipeline: Pipeline = HOURLY
    reading: Reading | None = None
    """Only for a source that has no files."""


Steps = Iterator[Step]
CASES: dict[str, Callable[[Project], Steps]] = {}
"""Rule to a generator: at its first step the rule is true, at its second one it is not."""


def case(function: Callable[[Project], Steps]) -> Callable[[Project], Steps]:
    CASES[function.__name__.removesuffix("_")] = function
    return function


def ago(hours: float) -> datetime:
    return NOW - timedelta(hours=hours)


def limited(**limits: Any) -> Pipeline:
    return dataclasses.replace(HOURLY, thresholds=Thresholds(**limits))


def planned(project: Project, *lines: tuple[float, int], flow: str = "bronze", **fields: Any) -> None:
    """Plans as `plan` records them: hours ago, and the rows that waited."""
    path = Path(PipelinePlace(project.layout, "orders").plans)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        for hours, rows in lines:
            entry = {"behind": rows, "rows": rows, "first_offsets": {}, **fields}
            file.write(json.dumps({"at": ago(hours).isoformat(), "flows": {flow: entry}}) + "\n")


def ran(project: Project, hours: float, rows: int, seconds: float, flow: str = "silver", **counts: Any) -> None:
    """One run of the flow with one batch: a ledger line and Spark's progress."""

    number = round(1_000_000 - hours * 100)
    key = f"r{number}"
    written = rows - sum(counts.values())
    record = LedgerLine(
        flow=flow, batch_id=number, app_id=f"orders/{flow}/v1/0", kind="append", read=rows, written=written, **counts
    )
    origin = ledger.RunOrigin(run_key=key, mode="incremental", attempt="a1", checkpoint_version=1, refresh=0)
    ledger.record(PipelinePlace(project.layout, HOURLY.name), record, origin)
    progress = QueryProgress(
        flow=flow, app_id="a", batch_id=number, run_key=key, attempt="a1", mode="incremental",
        started_at=ago(hours), input_rows=rows, input_rows_per_second=None, processed_rows_per_second=None,
        trigger_ms=round(seconds * 1000), duration_ms={}, start_offset=None, end_offset=None, offsets_behind=None,
        recorded_at=NOW,
    )  # fmt: skip
    metrics.append(PipelinePlace(project.layout, "orders").ops("progress"), [progress])


def ended(project: Project, number: int, state: FlowState, **fields: Any) -> None:
    """The report of one attempt at one run, with one flow in this state."""
    at = f"2026010{number}T000000"
    report = RunReport(
        dag_id="orders",
        run_key=f"run-{number}",
        attempt=f"a{at}-0",
        started_at=NOW.to_iso8601_string(),
        ended_at=NOW.to_iso8601_string(),
        flows=[FlowReport(flow="silver", target="silver.orders", checkpoint_version=1, state=state, **fields)],
    )
    report.write(AttemptPlace(project.layout, "orders", report.run_key, report.attempt).report)


def read_all(project: Project, *files: Path) -> None:
    """Commit the files as read, as a batch of bronze does."""
    bronze = project.checkpoint(HOURLY, HOURLY.flow("bronze"))
    bronze.listed(0, *files).plan(0, {"logOffset": 0}).commit(0)


@case
def unreadable(project: Project) -> Steps:
    landing = project.folder / "landing" / "orders"
    landing.rmdir()
    landing.write_text("a file where a folder was")
    yield Step("bronze")
    landing.unlink()
    landing.mkdir()
    yield Step("bronze")


@case
def failed(project: Project) -> Steps:
    # A failed increment is over when there is nothing to do.
    project.land("1.csv", "order_id,amount\nA-1,1.0\n")
    ended(project, 1, "done")
    ended(project, 2, "failed", error=ErrorReport.of(ValueError("the text of a row")))
    yield Step("silver")
    ended(project, 3, "idle")
    yield Step("silver")


@case
def refused(project: Project) -> Steps:
    project.suite("orders/silver")
    flow = HOURLY.flow("silver")
    table = project.table("bronze.orders", [{"order_id": "A"}])
    project.checkpoint(HOURLY, flow).plan(0, delta_offset(1, table_id=table))
    resolved_flow = resolved(HOURLY, project.folder).flow("silver")
    assert resolved_flow.suite is not None
    by_gate = GateRefusal(
        batch_id=0,
        suite_fingerprint=fingerprints.suite_fingerprint(resolved_flow.suite),
        code_fingerprint=resolved_flow.code_fingerprint(),
    )
    refusal.record(places.current(project.layout, HOURLY, flow), by_gate)
    yield Step("silver")
    resolved_flow.suite.write_text(json.dumps({"name": "orders/silver", "expectations": []}))
    yield Step("silver")


@case
def refused_rewrite(project: Project) -> Steps:
    place = places.current(project.layout, HOURLY, HOURLY.flow("silver"))
    loss = Impact(before=355, after=0, deleted=355, changed=0, added=0, read=427, quarantined=427)
    judged = rewrite.JudgedRewrite(
        what="backfill 0", app_id=place.windows_app_id, impact=loss, reasons=(loss.phrase("deleted"),)
    )
    rewrite.record(place, judged)
    yield Step("silver")
    rewrite.clear(place)
    yield Step("silver")


@case
def missed(project: Project) -> Steps:
    planned(project, (4.1, 1))
    yield Step("bronze")
    planned(project, (0, 1))
    yield Step("bronze")


@case
def no_input(project: Project) -> Steps:
    planned(project, (5, 7), (4, 0), (3, 0), (2, 0), (1, 0), (0, 0))
    yield Step("bronze")
    planned(project, (0, 7))
    yield Step("bronze")


@case
def no_input_hours(project: Project) -> Steps:
    planned(project, (30, 7), (1, 0), (0, 0))
    yield Step("bronze", limited(no_input_hours=24))
    project.land("1.csv", "order_id,amount\nA-1,1.0\n")
    yield Step("bronze", limited(no_input_hours=24))


@case
def slow(project: Project) -> Steps:
    ran(project, 3, 36_000, 100)
    ran(project, 2, 36_000, 4_600)
    yield Step("silver")
    ran(project, 1, 36_000, 100)
    yield Step("silver")


@case
def rate_drop(project: Project) -> Steps:
    for hours in (7, 6, 5, 4, 3):
        ran(project, hours, 1_000, 10)
    ran(project, 2, 1_000, 30)
    yield Step("silver")
    ran(project, 1, 1_000, 11)
    yield Step("silver")


@case
def long_batch(project: Project) -> Steps:
    ran(project, 6, 10, 3 * 3600 + 1)
    yield Step("silver")
    ran(project, 1, 10, 3)
    yield Step("silver")


@case
def long(project: Project) -> Steps:
    ran(project, 6, 10, 61)
    yield Step("silver", limited(run_seconds=60))
    ran(project, 1, 10, 3)
    yield Step("silver", limited(run_seconds=60))


@case
def lag_(project: Project) -> Steps:
    file = project.land("1.csv", "order_id,amount\nA-1,1.0\nA-2,1.0\n")
    yield Step("bronze", limited(lag_rows=1))
    read_all(project, file)
    yield Step("bronze", limited(lag_rows=1))


@case
def lag_age(project: Project) -> Steps:
    file = project.land("1.csv", "order_id,amount\nA-1,1.0\n")
    planned(project, (3, 0), (2.1, 1), (1, 1), (0, 1))
    yield Step("bronze")
    read_all(project, file)
    yield Step("bronze")


@case
def lag_growing(project: Project) -> Steps:
    planned(project, (5, 1), (4, 2), (3, 3), (2, 4), (1, 5), (0, 6))
    yield Step("bronze")
    planned(project, (0, 3))
    yield Step("bronze")


@case
def expiring(project: Project) -> Steps:
    """The lag has the form that a broker's answer has (tests/status/test_lag_of_topics.py measures it on a broker)."""
    for hours, first in ((3, 0), (2, 10), (1, 20)):
        planned(project, (hours, 1), first_offsets={"0": first})
    bronze = Reading.of(project.environment, resolved(HOURLY).flow("bronze"), NOW).measure()
    for unread in ({"0": 59}, {}):
        backlog = dataclasses.replace(bronze.backlog, first_offsets={"0": 30}, unread=unread)
        yield Step("bronze", reading=bronze.given(backlog=backlog))


def kept(project: Project, number: int, **fields: Any) -> None:
    """Spark's progress of one batch of the stateful flow."""
    line = state_progress(number, started_at=ago(1 - number / 10), recorded_at=NOW, **fields)
    metrics.append(PipelinePlace(project.layout, "orders").ops("progress"), [line])


def stateful(**limits: Any) -> Pipeline:
    return dataclasses.replace(stateful_orders(), schedule="@hourly", thresholds=Thresholds(**limits))


@case
def state(project: Project) -> Steps:
    kept(project, 0, state_rows=101)
    yield Step("silver", stateful(state_rows=100))
    kept(project, 1, state_rows=100)
    yield Step("silver", stateful(state_rows=100))


@case
def rewritten(project: Project) -> Steps:
    file = project.land("1.csv", "order_id,amount\nA-1,1.0\n")
    read_all(project, file)
    read_at = file.stat().st_mtime_ns
    file.write_text("order_id,amount\nA-1,2.0\n")
    os.utime(file, ns=(read_at + 10**9, read_at + 10**9))
    yield Step("bronze")
    os.utime(file, ns=(read_at, read_at))
    yield Step("bronze")


@case
def late(project: Project) -> Steps:
    ran(project, 2, 100, 1, flow="parsed", late=1)
    yield Step("parsed", stateful())
    ran(project, 1, 100, 1, flow="parsed")
    yield Step("parsed", stateful())


@case
def state_growth(project: Project) -> Steps:
    kept(project, 0, state_rows=1_000)
    kept(project, 1, state_rows=1_101)
    yield Step("silver", stateful())
    kept(project, 2, state_rows=1_211)
    yield Step("silver", stateful())


@case
def state_size(project: Project) -> Steps:
    kept(project, 0, state_bytes=5_000)
    yield Step("silver", stateful(state_bytes=4_999))
    kept(project, 1, state_bytes=0)
    yield Step("silver", stateful(state_bytes=4_999))


@case
def watermark(project: Project) -> Steps:
    kept(project, 0, watermark=ago(5))
    yield Step("silver", stateful(watermark_hours=4))
    kept(project, 1, watermark=ago(3))
    yield Step("silver", stateful(watermark_hours=4))


@case
def quarantine(project: Project) -> Steps:
    ran(project, 2, 100, 1, quarantined=6)
    yield Step("silver")
    ran(project, 1, 100, 1, quarantined=5)
    yield Step("silver")


@case
def quarantine_rows(project: Project) -> Steps:
    append(
        FlowPlace(project.layout, "orders", "silver").quarantine, [quarantined(id, ["x"], {}, "") for id in ("r", "s")]
    )
    yield Step("silver", limited(quarantine_rows=1))
    decision.waive(FlowPlace(project.layout, "orders", "silver"), Selection(), by="ada", reason="a test")
    yield Step("silver", limited(quarantine_rows=1))


@case
def quarantine_age(project: Project) -> Steps:
    append(FlowPlace(project.layout, "orders", "silver").quarantine, [quarantined("r", ["x"], {}, "")])
    yield Step("silver")
    decision.waive(FlowPlace(project.layout, "orders", "silver"), Selection(), by="ada", reason="a test")
    yield Step("silver")


@case
def freshness(project: Project) -> Steps:
    project.table("silver.orders", [{"order_id": "A", "day": ago(72).date()}])
    yield Step("silver", limited(freshness_hours=48))
    project.table("silver.orders", [{"order_id": "A", "day": ago(0).date()}])
    yield Step("silver", limited(freshness_hours=48))


def evaluated(project: Project, step: Step) -> Findings:
    """The findings about the flow, as the DAG `alerts` gets them."""
    declared = resolved(step.pipeline, project.folder)
    if step.reading is not None:
        return evaluate(step.pipeline.thresholds, step.reading)
    (result,) = evaluate_pipelines(project.environment, [("orders", declared)], NOW)
    return next(findings for findings in result.findings if findings.flow == step.flow)


@pytest.mark.parametrize("rule", RULES)
def test_every_rule_opens_and_resolves_with_real_files(rule: str, tmp_path: Path) -> None:
    project = Project.make(tmp_path / "project")
    (project.folder / "landing" / "orders").mkdir()
    opens, resolves = [evaluated(project, step) for step in CASES[rule](project)]
    (alert,) = [alert for alert in opens.alerts if alert.rule == rule]
    assert ". Next: " in alert.message
    assert "orders/gold" in alert.message, "the flows downstream are named"
    assert rule not in {alert.rule for alert in resolves.alerts}
    assert rule not in resolves.undecided
    assert rule not in resolves.not_evaluated
