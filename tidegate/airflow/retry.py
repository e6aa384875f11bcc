"""When Airflow may run the application again: the run report of this attempt says so.

Airflow asks the policy in the task's own process, after a try has failed and before it decides. It is not asked after
a SIGKILL of that process; then the plain retries of the task apply.
"""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import Any

from airflow.sdk import Context, RetryDecision, RetryPolicy

from tidegate.airflow.attempt import report_of_attempt
from tidegate.report import RunReport

FIRST_DELAY = timedelta(seconds=30)
LONGEST_DELAY = timedelta(minutes=10)

log = logging.getLogger(__name__)


class ReportRetryPolicy(RetryPolicy):
    """Retries what heals by waiting, fails at once what needs a person, leaves crashes to the task's own retries."""

    def evaluate(
        self, exception: BaseException, try_number: int, max_tries: int, context: Context | None = None
    ) -> RetryDecision:
        """Decide by this attempt's report. Never raises.

        Args:
            exception: What ended the try; only its report counts, because a failed spark-submit says little.
            try_number: The try that failed, from 1.
            max_tries: How many tries the task has; Airflow itself keeps to it.
            context: The task's context.
        """
        try:
            report = report_of_attempt(context) if context is not None else None
            return decide(report, try_number)
        except Exception:
            log.exception("The run report could not be read; the task's own retries apply.")
            return RetryDecision.default()

    def serialize(self) -> dict[str, Any]:
        """Nothing to remember: the policy has no settings."""
        return {}

    @classmethod
    def deserialize(cls, data: dict[str, Any]) -> ReportRetryPolicy:
        """The reverse of `serialize`."""
        return cls()


def decide(report: RunReport | None, try_number: int) -> RetryDecision:
    """What a report says about trying again.

    Args:
        report: The report of the attempt that failed; None when the job wrote none, so it crashed.
        try_number: The try that failed, from 1.
    """
    if report is None:
        return RetryDecision.default()
    # An error of the whole application outweighs what single flows met before it.
    errors = [report.error] if report.error else [flow.error for flow in report.flows if flow.error]
    transient = next((error for error in errors if error["transient"]), None)
    if transient is not None:
        return RetryDecision.retry(_delay(try_number), reason=_told(transient))
    if report.error:
        return RetryDecision.fail(reason=_told(report.error))
    return RetryDecision.default()


def _delay(try_number: int) -> timedelta:
    # The exponent is bounded first: a task that was cleared often has a high number, and timedelta overflows.
    doublings = min(max(try_number - 1, 0), 10)
    return min(FIRST_DELAY * (1 << doublings), LONGEST_DELAY)


def _told(error: dict[str, Any]) -> str:
    return f"{error['kind']}: {error['message']}"
