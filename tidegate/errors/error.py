"""The root of the error tree, and the two errors that belong to no area."""

from __future__ import annotations

from typing import Any, ClassVar, Self

from tidegate.advice import Advice, with_advice
from tidegate.errors.exit_codes import EX_CONFIG as EX_CONFIG
from tidegate.errors.exit_codes import EX_DATAERR as EX_DATAERR
from tidegate.errors.exit_codes import EX_DIFFERS as EX_DIFFERS
from tidegate.errors.exit_codes import EX_SOFTWARE as EX_SOFTWARE
from tidegate.errors.exit_codes import EX_TEMPFAIL as EX_TEMPFAIL
from tidegate.errors.exit_codes import EX_USAGE as EX_USAGE


class TidegateError(Exception):
    """The base class of all errors. Terminal unless a subclass sets ``transient``.

    Args:
        problem: What is wrong, in one sentence: without a full stop if the advice is to follow as a clause.
        advice: What to do about it.
    """

    transient: ClassVar[bool] = False
    exit_code: ClassVar[int] = EX_SOFTWARE

    def __init__(self, problem: str, advice: Advice | None = None) -> None:
        self.say(problem, advice)
        super().__init__(self.message)

    def say(self, problem: str, advice: Advice | None) -> None:
        """Set the message."""
        self.problem = problem
        self.advice = advice
        self.message = with_advice(problem, advice)
        self.args = (self.message,)

    def naming(self, flow: str) -> Self:
        """The error, with the name of its flow in front unless its message has it."""
        if repr(flow) not in self.problem:
            self.say(f"flow {flow!r}: {self.problem}", self.advice)
        return self

    def attributes(self) -> dict[str, Any]:
        """The public attributes of the error, without those that make its message."""
        made = ("message", "problem", "advice")
        return {name: value for name, value in vars(self).items() if not name.startswith("_") and name not in made}


class UnexpectedError(TidegateError):
    """An exception that is not a `TidegateError`. For a job, ``failure-<flow>.txt`` beside the run report has the traceback."""


class StoppedError(TidegateError):
    """A signal stopped the command.

    Args:
        number: Of the signal; the exit code is 128 + ``number``.
    """

    def __init__(self, number: int) -> None:
        super().__init__("stopped. Every commit is atomic: the next run finishes the pending batch.")
        self.exit_code = 128 + number  # type: ignore[misc]  # of this signal, not of the class
