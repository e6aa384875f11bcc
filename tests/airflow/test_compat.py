"""What the platform does where Airflow has no retry policies. On those versions themselves: test_versions.py."""

from __future__ import annotations

from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from tidegate.airflow import compat
from tidegate.airflow.compat import AirflowFailException, RetryDecision
from tidegate.airflow.failure import TaskFailure, plain_failures
from tidegate.airflow.retry import FailureRetryPolicy

pytestmark = pytest.mark.airflow


class Decided(FailureRetryPolicy):
    """Decides what it was made with."""

    def __init__(self, decision: RetryDecision) -> None:
        self.decision = decision

    def evaluate(self, *_: Any, **__: Any) -> RetryDecision:
        """The decision."""
        return self.decision


class Task:
    """An operator that fails."""

    log = SimpleNamespace(error=lambda *_, **__: None)

    def __init__(self, failure: TaskFailure, policy: FailureRetryPolicy | None) -> None:
        self.failure, self.policy = failure, policy

    @plain_failures
    def execute(self, context: Any) -> None:
        raise self.failure


CONTEXT = {"ti": SimpleNamespace(try_number=1, max_tries=3)}


@pytest.mark.parametrize(
    ("retry", "policy", "raised"),
    [
        (False, None, AirflowFailException),
        (True, None, TaskFailure),
        (False, Decided(RetryDecision.default()), AirflowFailException),
        (True, Decided(RetryDecision.fail()), AirflowFailException),
        (True, Decided(RetryDecision.retry(timedelta(seconds=1))), TaskFailure),
        (True, Decided(RetryDecision.default()), TaskFailure),
    ],
)
def test_without_policies_the_task_ends_with_an_error_that_a_retry_would_not_end(
    monkeypatch: pytest.MonkeyPatch,
    retry: bool,
    policy: FailureRetryPolicy | None,
    raised: type[BaseException],
) -> None:
    task = Task(TaskFailure("what happened", retry=retry), policy)
    with pytest.raises(TaskFailure):
        task.execute(CONTEXT)
    monkeypatch.setattr(compat, "HAS_RETRY_POLICIES", False)
    with pytest.raises(raised, match="what happened"):
        task.execute(CONTEXT)


def test_without_policies_delays_are_doubled(monkeypatch: pytest.MonkeyPatch) -> None:
    policy = FailureRetryPolicy()
    assert compat.retries(policy, timedelta(minutes=10)) == {"retry_policy": policy}
    monkeypatch.setattr(compat, "HAS_RETRY_POLICIES", False)
    arguments = compat.retries(policy, timedelta(minutes=10))
    assert arguments["retry_exponential_backoff"] and arguments["max_retry_delay"] == timedelta(minutes=10)
