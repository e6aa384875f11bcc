"""What differs between the versions of Airflow from 3.1 on: no other module asks for a version, or imports what moved.

=====================================  ==========  ====================================================================================
what                                   since       before
=====================================  ==========  ====================================================================================
retry policies                         3.3         the task decides when it fails: with an error that a retry would not end it raises
                                                   ``AirflowFailException``; others are retried with doubled delays
``rerun_with_latest_version``          3.3         whoever clears a run of a versioned bundle chooses to run the latest version
metrics without a class                3.3         ``Stats``
Params of a task without the DAG's     3.2         a question to a person would have those of the DAG as fields
names in ``airflow.sdk``               3.2         in ``airflow.exceptions``, ``airflow.timetables`` and the standard provider
=====================================  ==========  ====================================================================================
"""

from __future__ import annotations

import enum
import inspect
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import DAG, BaseOperator

if TYPE_CHECKING:
    from airflow.sdk import (
        CronDataIntervalTimetable,
        CronTriggerTimetable,
        RetryAction,
        RetryDecision,
        RetryPolicy,
        SkipMixin,
    )
    from airflow.sdk.exceptions import (
        AirflowException,
        AirflowFailException,  # noqa: TID251  # raised where no retry policy can say the same
        AirflowNotFoundException,
        AirflowSkipException,
    )
    from airflow.sdk.observability import stats
else:
    try:
        from airflow.sdk import CronDataIntervalTimetable, CronTriggerTimetable, SkipMixin
        from airflow.sdk.exceptions import (
            AirflowException,
            AirflowFailException,  # noqa: TID251
            AirflowNotFoundException,
            AirflowSkipException,
        )
    except ImportError:
        from airflow.exceptions import (
            AirflowException,
            AirflowFailException,
            AirflowNotFoundException,
            AirflowSkipException,
        )
        from airflow.providers.standard.utils.skipmixin import SkipMixin
        from airflow.timetables.interval import CronDataIntervalTimetable
        from airflow.timetables.trigger import CronTriggerTimetable
    try:
        from airflow.sdk.observability import stats

        if not hasattr(stats, "gauge"):
            stats = stats.Stats
    except ImportError:
        from airflow.stats import Stats

        stats = Stats
    try:
        from airflow.sdk import RetryAction, RetryDecision, RetryPolicy
    except ImportError:

        class RetryAction(enum.Enum):
            """As that of Airflow 3.3."""

            RETRY = "retry"
            FAIL = "fail"
            DEFAULT = "default"

        @dataclass(frozen=True)
        class RetryDecision:
            """As that of Airflow 3.3."""

            action: RetryAction = RetryAction.DEFAULT
            retry_delay: timedelta | None = None
            reason: str | None = None

            @classmethod
            def fail(cls, reason=None):
                """Do not retry."""
                return cls(RetryAction.FAIL, reason=reason)

            @classmethod
            def retry(cls, delay=None, reason=None):
                """Retry; the task's own delay applies."""
                return cls(RetryAction.RETRY, delay, reason)

            @classmethod
            def default(cls):
                """The task's own retries apply."""
                return cls()

        class RetryPolicy:
            """As that of Airflow 3.3; here the task asks it (`ends`)."""


__all__ = [
    "AirflowException",
    "AirflowFailException",
    "AirflowNotFoundException",
    "AirflowSkipException",
    "CronDataIntervalTimetable",
    "CronTriggerTimetable",
    "RetryAction",
    "RetryDecision",
    "RetryPolicy",
    "SkipMixin",
    "stats",
]

_OF_TASKS = inspect.signature(BaseOperator.__init__).parameters
HAS_RETRY_POLICIES = "retry_policy" in _OF_TASKS
"""Whether Airflow asks a policy after a failed try."""
LATEST_VERSION: dict[str, Any] = (
    {"rerun_with_latest_version": True} if "rerun_with_latest_version" in inspect.signature(DAG).parameters else {}
)
"""The argument of a DAG whose cleared runs use the current declaration."""


def own_params(params: Any) -> Any:
    """Of the Params of a task that has none itself, those that are not of its DAG: before Airflow 3.2 they are not told apart."""
    return params if hasattr(type(params), "filter_params_by_source") else type(params)()


def newest(events: Any, limit: int) -> Any:
    """The newest events of an Asset, the newest first; before Airflow 3.2 all of them are read."""
    return events.ascending(False).limit(limit) if hasattr(events, "ascending") else list(events)[::-1][:limit]


def retries(policy: RetryPolicy, longest_delay: timedelta) -> dict[str, Any]:
    """The arguments of a task, or the default ones of a DAG, by which a policy decides about retries.

    Args:
        policy: Asked after a failed try.
        longest_delay: Between tries. Without policies the delay of the task is doubled, as the policy does after transient errors.
    """
    if HAS_RETRY_POLICIES:
        return {"retry_policy": policy}
    # A flag in 3.1, a factor in 3.2.
    doubled = True if "bool" in str(_OF_TASKS["retry_exponential_backoff"].annotation) else 2.0
    return {"retry_exponential_backoff": doubled, "max_retry_delay": longest_delay}


def ends(task: Any, failure: Any, context: Any) -> bool:
    """Whether a task must say itself that it is not retried, because Airflow does not ask its policy.

    Args:
        task: A task, whose attribute ``policy``, if it has one, is its policy.
        failure: A `tidegate.airflow.failure.TaskFailure`.
        context: Of the task.
    """
    if HAS_RETRY_POLICIES:
        return False
    policy = getattr(task, "policy", None)
    if policy is None or not failure.retry:
        return not failure.retry
    ti = context["ti"]
    return policy.evaluate(failure, ti.try_number, ti.max_tries, context).action is RetryAction.FAIL
