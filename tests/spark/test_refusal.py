"""A refused batch leaves the target untouched and waits; an expectation that raises is an error, never a verdict."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import pytest

from demo import flights_feed
from tests.deployment import Deployment
from tidegate import registry
from tidegate.checkpoints import checkpoint, progress, refusal
from tidegate.status import lag

pytestmark = pytest.mark.jvm

CRITICAL = {
    "type": "expect_column_values_to_be_between",
    "kwargs": {"column": "dep_delay", "min_value": -5, "max_value": 5, "mostly": 0.9},
    "severity": "critical",
}
LENIENT = {**CRITICAL, "kwargs": {**CRITICAL["kwargs"], "mostly": 0.1}}  # type: ignore[dict-item]
CANARY = "N0CANARY"


@pytest.fixture
def flights(deployment: Deployment, spark: Any) -> Deployment:
    records = [{**record, "tailnum": CANARY} for record in flights_feed.days()[date(2013, 1, 1)]]
    deployment.land("one.csv", flights_feed._csv(records[:100]))
    deployment.edit_suite("flights/silver", [LENIENT])
    assert [flow.state for flow in deployment.run().flows] == ["done", "done", "done"]
    deployment.land("two.csv", flights_feed._csv(records[100:300]))
    deployment.edit_suite("flights/silver", [CRITICAL])
    return deployment


def test_a_refused_batch_leaves_the_target_untouched_and_waits(flights: Deployment) -> None:
    before = flights.table("silver.flights")
    gold = flights.table("gold.daily_delay")
    quarantined = flights.quarantined("silver").num_rows

    report = flights.run()

    silver = report.flow("silver")
    assert (silver.state, report.flow("gold").state) == ("refused", "skipped")
    (verdict,) = silver.verdicts
    assert verdict.outcome == "refused"
    assert verdict.refusing()[0].rule == "between(dep_delay)"
    assert silver.error is not None
    assert silver.error["kind"] == "GateRefusedError"
    assert flights.table("silver.flights").sort_by("flight_id").equals(before.sort_by("flight_id"))
    assert flights.table("gold.daily_delay").equals(gold)
    assert flights.quarantined("silver").num_rows == quarantined
    state = progress.read(flights.layout.checkpoint("flights", "silver", 1, 0))
    assert (state.last_planned, state.last_committed) == (1, 0), "the offsets are not committed"


def test_plan_does_not_try_it_again_until_the_suite_or_the_code_changed(flights: Deployment) -> None:
    flights.run()
    pipeline = registry.load("flights")

    waiting = lag.plan(flights.environment, pipeline, pipeline.flows)
    assert not waiting.work
    assert any("refused" in reason for reason in waiting.reasons)
    flights.edit_suite("flights/silver", [LENIENT])

    assert lag.plan(flights.environment, pipeline, pipeline.flows).work


def test_after_the_suite_is_mended_the_same_batch_passes_once(flights: Deployment) -> None:
    flights.run()
    flights.run()
    flights.edit_suite("flights/silver", [LENIENT])

    report = flights.run()

    assert [flow.state for flow in report.flows] == ["idle", "done", "done"]
    (batch,) = report.flow("silver").batches
    assert (batch.batch_id, batch.read, batch.imbalance()) == (1, 200, 0)
    assert flights.table("silver.flights").num_rows + flights.quarantined("silver").num_rows == 300
    outcomes = [
        line["outcome"]
        for line in sorted(
            flights.rows(flights.layout.ops("flights", "verdicts")).to_pylist(), key=lambda v: v["recorded_at"]
        )
    ]
    assert outcomes == ["split", "refused", "refused", "split"], "every attempt has its own line"


def test_a_refused_batch_that_is_taken_out_goes_to_quarantine_whole_and_the_flow_goes_on(flights: Deployment) -> None:
    flights.run()
    before = flights.table("silver.flights").num_rows
    pipeline = registry.load("flights")
    ref = checkpoint.current(flights.layout, pipeline, pipeline.flow("silver"))
    assert (
        refusal.take(
            flights.layout, ref, registry.load("flights").flow("silver"), by="ada", reason="the feed of another airport"
        )
        == 1
    )
    decided = lag.plan(flights.environment, pipeline, pipeline.flows)
    assert decided.work
    assert any("goes to quarantine whole" in reason for reason in decided.reasons)
    later = flights_feed.days()[date(2013, 1, 1)][300:]
    punctual = [record for record in later if record["dep_delay"] in ("0", "-1", "1")][:10]
    flights.land("three.csv", flights_feed._csv(punctual))

    report = flights.run()

    assert report.flow("silver").error is None
    batches = {batch.batch_id: batch for batch in report.flow("silver").batches}
    assert (batches[1].read, batches[1].quarantined, batches[1].written, batches[1].imbalance()) == (200, 200, 0, 0)
    assert batches[1].rules["refused_batch"] == 200
    assert 0 < batches[1].rules["between(dep_delay)"] < 200
    assert flights.table("silver.flights").num_rows == before + len(punctual) == before + batches[2].written
    taken = [row for row in flights.quarantined("silver").to_pylist() if row["_batch_id"] == 1]
    assert {(row["state"], row["changed_by"], row["reason"]) for row in taken} == {
        ("open", "ada", "the feed of another airport")
    }
    assert refusal.taken(flights.layout, ref, 1) is None, "the decision ends with its batch"
    assert refusal.waiting(flights.layout, ref) is None


def test_an_expectation_that_raises_is_an_error_and_never_a_verdict(flights: Deployment) -> None:
    flights.edit_suite(
        "flights/silver",
        [
            {
                "type": "expect_column_values_to_be_between",
                "kwargs": {"column": "no_such_column", "min_value": 0},
                "severity": "info",
            }
        ],
    )

    report = flights.run()

    silver = report.flow("silver")
    assert (silver.state, silver.verdicts) == ("failed", [])
    assert silver.error is not None
    assert silver.error["kind"] == "SpecError"
    assert "no_such_column" in silver.error["message"]


def test_rows_can_be_judged_by_a_query(flights: Deployment) -> None:
    flights.edit_suite(
        "flights/silver",
        [
            {
                "type": "unexpected_rows_expectation",
                "kwargs": {"unexpected_rows_query": "SELECT * FROM {batch} WHERE dep_delay > 100"},
                "severity": "critical",
            }
        ],
    )

    report = flights.run()

    late = [
        r
        for r in flights_feed.days()[date(2013, 1, 1)][100:300]
        if r["dep_delay"] != "NA" and int(r["dep_delay"]) > 100
    ]
    assert report.flow("silver").state == ("refused" if late else "done")
    flights.edit_suite(
        "flights/silver",
        [
            {
                "type": "unexpected_rows_expectation",
                "kwargs": {"unexpected_rows_query": "SELECT * FROM {batch} WHERE distance < 0"},
                "severity": "critical",
            }
        ],
    )
    assert flights.run().flow("silver").state == "done"


def test_reports_and_docs_hold_no_value_of_the_data(flights: Deployment) -> None:
    flights.run()

    lake = flights.environment.lake
    told = [
        path for folder in ("docs", "reports", "checkpoints") for path in (lake / folder).rglob("*") if path.is_file()
    ]
    assert any(path.suffix == ".html" for path in told)
    assert [path for path in told if CANARY in path.read_text(errors="replace")] == []


def test_a_suite_that_is_not_valid_ends_the_run_before_anything_is_read(flights: Deployment) -> None:
    from tidegate.errors import SpecError

    path: Path = flights.environment.project / "expectations" / "flights" / "silver.json"
    path.write_text("{not json")

    with pytest.raises(SpecError, match=r"flights/silver"):
        flights.run()
