"""The retry policy decides by the report of the attempt that failed."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from airflow.sdk import RetryAction

from tidegate.airflow.retry import LONGEST_DELAY, FailureRetryPolicy, ReportRetryPolicy, decide
from tidegate.errors import LeaseHeldError, SourceUnavailableError, SpecError
from tidegate.reports.report import ErrorReport, FlowReport, RunReport

pytestmark = pytest.mark.airflow

NO_BROKER = ErrorReport.of(SourceUnavailableError("the broker does not answer"))
WRONG_SUITE = ErrorReport.of(SpecError("the suite has no such rule"))


def _report(error: ErrorReport | None = None, *flow_errors: ErrorReport) -> RunReport:
    flows = [
        FlowReport(flow=f"flow{n}", target="silver.x", checkpoint_version=1, state="failed", error=flow_error)
        for n, flow_error in enumerate(flow_errors)
    ]
    return RunReport(dag_id="flights", run_key="k", attempt="a", started_at="", error=error, flows=flows)


def test_a_transient_error_is_retried_with_its_reason() -> None:
    decision = decide(_report(ErrorReport.of(LeaseHeldError("table silver.x", "pid 7"))), 1)
    assert decision.action is RetryAction.RETRY
    assert decision.reason is not None
    assert "LeaseHeldError" in decision.reason


def test_a_transient_error_of_one_flow_is_retried() -> None:
    assert decide(_report(None, WRONG_SUITE, NO_BROKER), 1).action is RetryAction.RETRY


def test_a_terminal_error_of_the_application_fails_at_once() -> None:
    decision = decide(_report(WRONG_SUITE), 1)
    assert decision.action is RetryAction.FAIL
    assert decision.reason == "SpecError: the suite has no such rule"


def test_a_terminal_error_of_the_application_takes_precedence_over_a_flows_error() -> None:
    assert decide(_report(WRONG_SUITE, NO_BROKER), 1).action is RetryAction.FAIL


def test_without_a_report_the_tasks_own_retries_apply() -> None:
    assert decide(None, 1).action is RetryAction.DEFAULT


def test_after_a_crash_the_tasks_own_retries_apply() -> None:
    assert decide(_report(), 1).action is RetryAction.DEFAULT


def test_delays_double_up_to_the_longest() -> None:
    delays = [decide(_report(NO_BROKER), number).retry_delay for number in (1, 2, 3, 20, 10_000)]
    assert delays == [*(timedelta(seconds=s) for s in (30, 60, 120)), LONGEST_DELAY, LONGEST_DELAY]


def test_the_policy_never_raises(caplog: pytest.LogCaptureFixture) -> None:
    broken: Any = {"ti": None}
    decision = ReportRetryPolicy().evaluate(RuntimeError("x"), 1, 3, broken)
    assert decision.action is RetryAction.DEFAULT


@pytest.mark.parametrize("policy", [FailureRetryPolicy, ReportRetryPolicy])
def test_airflow_can_serialize_the_policies(policy: type[FailureRetryPolicy]) -> None:
    assert type(policy.deserialize(policy().serialize())) is policy
