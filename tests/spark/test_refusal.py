"""A refused batch does not change the target and waits until its suite is fixed or a person takes the batch out."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from demo import flights_feed
from tests import places
from tests.deployment import Deployment
from tidegate.checkpoints import progress, refusal
from tidegate.lake.place import PipelinePlace, Place
from tidegate.pages.site import export
from tidegate.project import registry, resolution
from tidegate.reports.report import RunReport
from tidegate.status.plan import decide
from tidegate.store import Address

pytestmark = pytest.mark.jvm

CRITICAL = {
    "type": "expect_column_values_to_be_between",
    "kwargs": {"column": "dep_delay", "min_value": -5, "max_value": 5, "mostly": 0.9},
    "severity": "critical",
}
LENIENT = {**CRITICAL, "kwargs": {**CRITICAL["kwargs"], "mostly": 0.1}}  # type: ignore[dict-item]
CANARY = "N0CANARY"


def canaries() -> list[dict[str, Any]]:
    return [{**record, "tailnum": CANARY} for record in flights_feed.days()[date(2013, 1, 1)]]


def one_batch_written_and_the_next_refused(deployment: Deployment) -> None:
    deployment.land("one.csv", flights_feed.as_csv(canaries()[:100]))
    deployment.edit_suite("flights/silver", [LENIENT])
    assert [flow.state for flow in deployment.run(flows=["bronze", "silver"]).flows] == ["done", "done"]
    deployment.land("two.csv", flights_feed.as_csv(canaries()[100:300]))
    deployment.edit_suite("flights/silver", [CRITICAL])
    deployment.run()


@pytest.fixture
def flights(start_state: Callable[[Callable[[Deployment], None]], Deployment]) -> Deployment:
    return start_state(one_batch_written_and_the_next_refused)


def last_report(flights: Deployment) -> RunReport:
    """The report of the last run."""
    reports = [
        RunReport.read(Address.local(path)) for path in flights.environment.lake.glob("reports/flights/*/*/report.json")
    ]
    return max((report for report in reports if report is not None), key=lambda report: report.started_at)


def outcomes(flights: Deployment) -> list[str]:
    lines = flights.rows(PipelinePlace(flights.layout, "flights").ops("verdicts")).to_pylist()
    return [line["outcome"] for line in sorted(lines, key=lambda line: line["recorded_at"])]


def test_a_refused_batch_does_not_change_the_target_and_waits(flights: Deployment) -> None:
    report = last_report(flights)

    silver = report.flow("silver")
    assert (silver.state, report.flow("gold").state) == ("refused", "skipped")
    (verdict,) = silver.verdicts
    assert verdict.outcome == "refused"
    assert verdict.refusing()[0].rule == "between(dep_delay)"
    assert silver.error is not None
    assert silver.error.kind == "GateRefusedError"
    (line,) = (line for line in flights.ledger() if line["flow"] == "silver")
    assert line["batch_id"] == 0
    commits = Path(flights.layout.table("silver.flights") / "_delta_log").glob("*.json")
    assert [int(commit.stem) for commit in commits] == [line["target_version"]] == [0]
    assert flights.table("silver.flights").num_rows == line["written"]
    assert flights.quarantined("silver").num_rows == line["quarantined"]
    assert not flights.layout.table("gold.daily_delay").exists()
    state = progress.read(Place(flights.layout, "flights", "silver", 1, 0).checkpoint)
    assert (state.last_planned, state.last_committed) == (1, 0), "the offsets are not committed"


def test_plan_finds_no_work_until_the_suite_or_the_code_changes(flights: Deployment) -> None:
    pipeline = resolution.load("flights", flights.environment.project)

    waiting = decide(flights.environment, pipeline, pipeline.pipeline.flows)
    assert not waiting.work
    assert any("refused" in reason for reason in waiting.reasons)
    flights.edit_suite("flights/silver", [LENIENT])

    assert decide(flights.environment, pipeline, pipeline.pipeline.flows).work


@pytest.mark.nightly
def test_after_the_suite_is_fixed_the_same_batch_passes_once(flights: Deployment) -> None:
    flights.edit_suite("flights/silver", [LENIENT])

    silver = flights.run(flows=["silver"]).flow("silver")

    assert silver.state == "done"
    (batch,) = silver.batches
    assert (batch.batch_id, batch.read, batch.imbalance()) == (1, 200, 0)
    assert flights.table("silver.flights").num_rows + flights.quarantined("silver").num_rows == 300
    assert outcomes(flights) == ["split", "refused", "split"], "every attempt has its own line"


@pytest.mark.nightly
def test_all_rows_of_a_batch_that_is_taken_out_are_quarantined_and_the_flow_continues(flights: Deployment) -> None:
    before = flights.table("silver.flights").num_rows
    pipeline = registry.load("flights")
    silver = pipeline.flow("silver")
    place = places.current(flights.layout, pipeline, silver)
    assert refusal.decide(place, silver, by="ada", reason="the feed of another airport") == 1
    resolved = resolution.load("flights", flights.environment.project)
    plan = decide(flights.environment, resolved, pipeline.flows)
    assert plan.work
    assert any("goes to quarantine whole" in reason for reason in plan.reasons)
    later = flights_feed.days()[date(2013, 1, 1)][300:]
    punctual = [record for record in later if record["dep_delay"] in ("0", "-1", "1")][:10]
    flights.land("three.csv", flights_feed.as_csv(punctual))

    report = flights.run(flows=["bronze", "silver"])

    assert report.flow("silver").error is None
    batches = {batch.batch_id: batch for batch in report.flow("silver").batches}
    assert (batches[1].read, batches[1].quarantined, batches[1].written, batches[1].imbalance()) == (200, 200, 0, 0)
    assert batches[1].rules["refused_batch"] == 200
    assert 0 < batches[1].rules["between(dep_delay)"] < 200
    assert flights.table("silver.flights").num_rows == before + len(punctual) == before + batches[2].written
    taken_out = [row for row in flights.quarantined("silver").to_pylist() if row["_batch_id"] == 1]
    assert {(row["state"], row["changed_by"], row["reason"]) for row in taken_out} == {
        ("open", "ada", "the feed of another airport")
    }
    assert refusal.decision(place, 1) is None, "the decision is cleared with its batch"
    assert refusal.waiting_batch(place) is None


def test_reports_and_docs_contain_no_value_of_the_data(flights: Deployment) -> None:
    lake = flights.environment.lake
    export(flights.layout, registry.load("flights"), PipelinePlace(flights.layout, "flights").docs)
    files = [
        path for folder in ("docs", "reports", "checkpoints") for path in (lake / folder).rglob("*") if path.is_file()
    ]
    assert any(path.suffix == ".html" for path in files)
    assert CANARY in str(flights.table("silver.flights")["tailnum"].to_pylist())
    assert [path for path in files if CANARY in path.read_text(errors="replace")] == []


def test_an_invalid_suite_fails_its_flow_and_no_other_flow_that_does_not_follow_it(
    deployment: Deployment, spark: Any
) -> None:
    path: Path = deployment.environment.project / "expectations" / "flights" / "silver.json"
    path.write_text("{not json")
    deployment.land("one.csv", flights_feed.as_csv(canaries()[:1]))

    report = deployment.run()

    assert [(flow.flow, flow.state) for flow in report.flows] == [
        ("bronze", "done"),
        ("silver", "failed"),
        ("gold", "skipped"),
    ]
    error = report.flow("silver").error
    assert error is not None and error.kind == "SpecError"
    assert "pipelines/flights.py, flow 'silver'" in error.message and "flights/silver" in error.message
    assert not deployment.layout.table("silver.flights").exists()
