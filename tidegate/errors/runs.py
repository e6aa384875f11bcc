"""Runs whose driver ends before its work is done, because somebody decided so."""

from __future__ import annotations

import signal

from tidegate.advice import OutsideAct
from tidegate.errors.error import EX_TEMPFAIL, TidegateError


class RunCancelledError(TidegateError):
    """A person, or Airflow for one, has cancelled the run whose driver is on a cluster. What was committed stays.

    Args:
        by: Who.
        what: By whom, when and why.
    """

    exit_code = 128 + signal.SIGTERM

    def __init__(self, by: str, what: str) -> None:
        super().__init__(
            f"the run was {what}. Every commit is atomic: the next run finishes the pending batch",
            OutsideAct("clear the task to run it again, or wait for the next run"),
        )
        self.by = by


class RunReplacedError(TidegateError):
    """Another attempt runs the run on a cluster, so this one ends before its next write; one that has just started does nothing.

    Args:
        attempt: The attempt that ends.
        recorded: The one that is recorded; None if the record is gone.
    """

    transient = True
    exit_code = EX_TEMPFAIL

    def __init__(self, attempt: str, recorded: str | None) -> None:
        now = "no attempt" if recorded is None else f"attempt {recorded}" if recorded != attempt else "another driver"
        super().__init__(
            f"attempt {attempt} ends: {now} is recorded for the run",
            OutsideAct("wait for the attempt that is recorded; a later try of the task does that by itself"),
        )
        self.attempt = attempt
        self.recorded = recorded
