"""A run on a cluster that gets no executor ends; one that waits for nothing, or has one, goes on."""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.spark.driver.executor_wait import ExecutorWait


@dataclass
class Application:
    """What a cluster has given, and what waits for it."""

    seconds: float = 0
    executors: int = 0
    jobs: int = 0
    cancelled: int = 0

    def cancel(self) -> None:
        self.cancelled += 1
        self.jobs = 0

    def wait(self, limit: float = 60) -> ExecutorWait:
        return ExecutorWait(
            limit,
            executors=lambda: self.executors,
            jobs=lambda: self.jobs,
            cancel=self.cancel,
            clock=lambda: self.seconds,
        )

    def after(self, seconds: float, wait: ExecutorWait) -> int:
        """How often jobs were cancelled so many seconds later."""
        self.seconds += seconds
        wait.check()
        return self.cancelled


def test_jobs_are_cancelled_when_they_have_waited_for_the_limit() -> None:
    application = Application(jobs=1)
    wait = application.wait()
    assert application.after(59, wait) == 0
    assert not wait.expired
    assert application.after(1, wait) == 1
    assert "flow 'silver': the cluster has given the run no executor for 60 seconds" in str(wait.error("flow 'silver'"))


def test_jobs_of_later_flows_are_cancelled_at_once_until_there_is_an_executor() -> None:
    application = Application(jobs=1)
    wait = application.wait()
    assert application.after(60, wait) == 1
    application.after(10, wait)
    application.jobs = 1
    assert application.after(1, wait) == 2
    application.jobs, application.executors = 1, 1
    assert application.after(1000, wait) == 2
    assert not wait.expired
    application.executors = 0
    assert application.after(59, wait) == 2
    assert application.after(1, wait) == 3


def test_without_jobs_no_time_counts() -> None:
    application = Application()
    wait = application.wait()
    assert application.after(1000, wait) == 0
    application.jobs = 1
    assert application.after(59, wait) == 0


def test_an_executor_that_is_lost_late_begins_the_count() -> None:
    application = Application(jobs=1, executors=1)
    wait = application.wait()
    assert application.after(1000, wait) == 0
    application.executors = 0
    assert application.after(30, wait) == 0
    assert application.after(30, wait) == 1
