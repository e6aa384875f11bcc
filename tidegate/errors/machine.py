"""What this machine lacks."""

from __future__ import annotations

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
