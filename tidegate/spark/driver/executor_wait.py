"""Ends the jobs of an application that waits too long for executors: its cluster has no room, or its master has forgotten it.

Spark itself waits for ever, and meanwhile the run keeps the leases of its flows. Examples: executors larger than any worker, a standalone
master that was restarted without ``spark.deploy.recoveryMode``.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from py4j.protocol import Py4JError
from pyspark import SparkContext

from tidegate.advice import Edit, Either, OutsideAct
from tidegate.environment import Environment
from tidegate.errors import MachineUnavailableError

DEFAULT_SECONDS = 600


class ExecutorWait:
    """How long an application has had jobs and no executor.

    When it was too long, the jobs are cancelled, and those of the next flows as well, until there is an executor.
    """

    def __init__(
        self,
        limit: float,
        *,
        executors: Callable[[], int],
        jobs: Callable[[], int],
        cancel: Callable[[], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Begin to count.

        Args:
            limit: In seconds.
            executors: How many there are now.
            jobs: How many run or wait now.
            cancel: Cancels them.
            clock: In seconds.
        """
        self._limit, self._clock = limit, clock
        self._executors, self._jobs, self._cancel = executors, jobs, cancel
        self._begin = clock()
        self.expired = False

    def check(self) -> None:
        """Cancel the jobs if they have waited too long."""
        if self._executors():
            self._begin, self.expired = self._clock(), False
        elif not self._jobs():
            if not self.expired:
                self._begin = self._clock()
        elif self._clock() - self._begin >= self._limit:
            self.expired = True
            self._cancel()

    def error(self, what: str) -> MachineUnavailableError:
        """The error of a job that was cancelled.

        Args:
            what: Names the work in the message, for example ``flow 'silver'``.
        """
        return MachineUnavailableError(
            f"{what}: the cluster has given the run no executor for {self._limit:.0f} seconds",
            Either(
                OutsideAct("see in the log of its master why (no room, or it was restarted), then run again"),
                Edit("request less memory or fewer cores for an executor, or raise spark.executor_wait", "setting"),
            ),
        )


_wait: ExecutorWait | None = None
"""That of this application."""


def start(context: SparkContext, environment: Environment) -> None:
    """Check from now on, until the JVM ends."""
    global _wait
    if _wait is not None:
        return
    scala, tracker = context._jsc.sc(), context.statusTracker()
    seconds = int(dict(environment.resource_settings).get("spark.executor_wait", DEFAULT_SECONDS))
    _wait = ExecutorWait(
        seconds,
        # One of them is the driver.
        executors=lambda: len(scala.statusTracker().getExecutorInfos()) - 1,
        jobs=lambda: len(tracker.getActiveJobsIds()),
        cancel=context.cancelAllJobs,
    )
    threading.Thread(target=_repeat, args=(_wait, min(10.0, seconds / 10)), name="executor wait", daemon=True).start()


def _repeat(wait: ExecutorWait, pause: float) -> None:
    while True:
        time.sleep(pause)
        try:
            wait.check()
        except (OSError, Py4JError):
            # The JVM has ended.
            return


def cancelled(what: str) -> MachineUnavailableError | None:
    """The error of a job that was cancelled because no executor came; None if this application has some."""
    return _wait.error(what) if _wait is not None and _wait.expired else None
