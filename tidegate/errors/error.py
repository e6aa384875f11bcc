"""The root of the error tree, and the two errors that belong to no area."""

from __future__ import annotations

from typing import Any, ClassVar

from tidegate.errors.exit_codes import EX_CONFIG as EX_CONFIG
from tidegate.errors.exit_codes import EX_DATAERR as EX_DATAERR
from tidegate.errors.exit_codes import EX_DIFFERS as EX_DIFFERS
from tidegate.errors.exit_codes import EX_SOFTWARE as EX_SOFTWARE
from tidegate.errors.exit_codes import EX_TEMPFAIL as EX_TEMPFAIL
from tidegate.errors.exit_codes import EX_USAGE as EX_USAGE


class TidegateError(Exception):
    """The base class of all errors. Terminal unless a subclass sets ``transient``.

    Args:
        message: What is wrong and what to do about it, in one or two sentences.
    """

    transient: ClassVar[bool] = False
    exit_code: ClassVar[int] = EX_SOFTWARE

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message

    def attributes(self) -> dict[str, Any]:
        """The public attributes of the error, without the message."""
        return {name: value for name, value in vars(self).items() if not name.startswith("_") and name != "message"}


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
