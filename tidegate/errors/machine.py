"""What this machine lacks, and what its operating system refused."""

from __future__ import annotations

from tidegate.advice import Advice
from tidegate.errors.error import EX_CONFIG, EX_TEMPFAIL, TidegateError


class SetupError(TidegateError):
    """A prerequisite of this machine is missing or has the wrong version (Java, jars, an Airflow home)."""

    exit_code = EX_CONFIG


class MissingJavaError(SetupError):
    """Java is not installed on this machine, or is too old."""


class AirflowUnavailableError(SetupError):
    """The API server of the project's Airflow does not respond, or not yet."""

    transient = True
    exit_code = EX_TEMPFAIL


class MachineError(TidegateError):
    """The operating system refused something, and refuses it again until a person acts: a permission, a path, a kind of file.

    Args:
        problem: What was refused.
        advice: What to do about it.
        path: The file or folder, as far as it is known.
        operation: What was to be done to it: ``write``, ``rename``, …
        error: The name of the system's error, for example ``EACCES``.
    """

    exit_code = EX_CONFIG

    def __init__(
        self, problem: str, advice: Advice | None = None, *, path: str = "", operation: str = "", error: str = ""
    ) -> None:
        super().__init__(problem, advice)
        self.path = path
        self.operation = operation
        self.error = error


class MachineUnavailableError(MachineError):
    """The operating system refused something that it may do later: memory or open files ran out, or storage does not answer."""

    transient = True
    exit_code = EX_TEMPFAIL


class LakeUnwritableError(MachineUnavailableError):
    """A file system rejects writes, because it is full or read-only. What was committed is unchanged."""
