"""References to secrets: a file, an environment variable, or a connection of Airflow. Nothing but a reference is ever shown or stored."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from tidegate.advice import Edit, OutsideAct
from tidegate.environment.settings import CONNECTION
from tidegate.errors import SetupError
from tidegate.store.credentials import in_airflow


def resolve(name: str, reference: str) -> str:
    """The secret that a reference names.

    Args:
        name: The setting, for messages.
        reference: ``env:<variable>``, ``file:<path>`` or ``airflow-connection:<id>``.

    Raises:
        SetupError: There is none.
        AirflowUnavailableError: As `in_airflow`.
    """
    # Editors end a file with a line break, which is in no password.
    secret = exact(name, reference).removesuffix("\n").removesuffix("\r")
    if not secret:
        raise SetupError(f"{name} is {reference}, which is empty", OutsideAct("check who writes it"))
    return secret


def exact(name: str, reference: str) -> str:
    """What a reference names, with a line break at its end. Arguments and errors as of `resolve`."""
    kind, _, what = reference.partition(":")
    return _KINDS[kind](name, what)


def _of_environment(name: str, variable: str) -> str:
    value = os.environ.get(variable)
    if not value:
        raise SetupError(
            f"{name} is in the variable {variable}, which is not set",
            Edit("set it for the processes of the platform", "setting"),
        )
    return value


def _of_file(name: str, path: str) -> str:
    try:
        return Path(path).read_bytes().decode()
    except (OSError, UnicodeDecodeError) as error:
        raise SetupError(
            f"{name} is in the file {path}, which cannot be read ({type(error).__name__})",
            OutsideAct("check who writes the file, and that this process may read it"),
        ) from None


def _of_connection(name: str, connection: str) -> str:
    word: str = in_airflow("password", name, connection)
    return word


_KINDS: dict[str, Callable[[str, str], str]] = {
    "env": _of_environment,
    "file": _of_file,
    CONNECTION: _of_connection,
}
