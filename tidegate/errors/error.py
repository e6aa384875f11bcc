"""The root of the error tree, the exit codes, and the two errors that belong to no area."""

from __future__ import annotations

import os
from typing import Any, ClassVar

EX_USAGE = os.EX_USAGE
EX_DATAERR = os.EX_DATAERR
EX_SOFTWARE = os.EX_SOFTWARE
EX_TEMPFAIL = os.EX_TEMPFAIL
EX_CONFIG = os.EX_CONFIG
EX_DIFFERS = 3
"""A verification found a difference. No code of ``sysexits.h``, which begin at 64."""


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
