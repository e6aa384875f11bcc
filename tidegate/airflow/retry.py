"""Retry policies: what a task has said about its failure decides, and of `run` the report of the failed attempt.

Airflow evaluates a policy in the task's process after a failed try. If that process was killed or never started, for example
because the API server did not answer, the policy is not evaluated and the task's own retries apply.
"""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import Any

from airflow.sdk import Context

from tidegate.airflow.attempt import report_of_attempt
from tidegate.airflow.compat import RetryDecision, RetryPolicy
from tidegate.airflow.failure import TaskFailure
from tidegate.reports.report import RunReport

RETRIES = 3
"""Of tasks that start no application. Their own failures are not retried unless they are transient; the retries are for an
Airflow that cannot be reached."""
RETRY_DELAY = timedelta(seconds=30)
"""Delay between tries where no policy decides, for example after a crash."""
FIRST_DELAY = timedelta(seconds=30)
LONGEST_DELAY = timedelta(minutes=10)

log = logging.getLogger(__name__)


class FailureRetryPolicy(RetryPolicy):
    """Fails at once after a `TaskFailure` that must not be retried; otherwise the task's own retries apply."""

    def evaluate(
        self, exception: BaseException, try_number: int, max_tries: int, context: Context | None = None
    ) -> RetryDecision:
        """Decide by the exception; the other arguments are ignored."""
        if isinstance(exception, TaskFailure) and not exception.retry:
            return RetryDecision.fail()
        return RetryDecision.default()

    def serialize(self) -> dict[str, Any]:
        """Empty: the policy has no settings."""
        return {}

    @classmethod
    def deserialize(cls, data: dict[str, Any]) -> FailureRetryPolicy:
        """The reverse of `serialize`."""
        return cls()


class ReportRetryPolicy(FailureRetryPolicy):
    """Retries transient errors, fails at once on others, and leaves crashes to the task's own retries."""

    def evaluate(
        self, exception: BaseException, try_number: int, max_tries: int, context: Context | None = None
    ) -> RetryDecision:
        """Decide by the report of the failed attempt, unless the application was not started. Never raises.

        Args:
            exception: A failed spark-submit does not give the cause; the report does.
            try_number: The try that failed, from 1.
            max_tries: Ignored; Airflow enforces it.
        """
        if isinstance(exception, TaskFailure) and not exception.retry:
            return RetryDecision.fail()
        try:
            report = report_of_attempt(context) if context is not None else None
            return decide(report, try_number)
        except Exception:
            log.exception("The run report could not be read; the task's own retries apply.")
            return RetryDecision.default()


def decide(report: RunReport | None, try_number: int) -> RetryDecision:
    """The decision for the report of a failed attempt.

    Args:
        report: None when the job crashed before it wrote one.
        try_number: The try that failed, from 1.
    """
    if report is None:
        return RetryDecision.default()
    # An error of the whole application takes precedence over errors of single flows.
    errors = [report.error] if report.error else [flow.error for flow in report.flows if flow.error]
    transient = next((error for error in errors if error.transient), None)
    if transient is not None:
        return RetryDecision.retry(_delay(try_number), reason=str(transient))
    if report.error:
        return RetryDecision.fail(reason=str(report.error))
    return RetryDecision.default()


def _delay(try_number: int) -> timedelta:
    # The exponent is limited first: the try number of a task that was cleared often is high, and timedelta would overflow.
    doublings = min(max(try_number - 1, 0), 10)
    return min(FIRST_DELAY * (1 << doublings), LONGEST_DELAY)
