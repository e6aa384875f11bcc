"""The project's own Airflow home, ``.airflow/``: git-ignored, owner-readable, never the user's own Airflow."""

from __future__ import annotations

import contextlib
import importlib.metadata
import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tidegate.embedded import places
from tidegate.errors import SetupError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_MIGRATED = "migrated.txt"
_DATABASE = "airflow.db"
_SPARK_CONNECTION = {"conn_type": "spark", "host": "local[2]", "extra": {"deploy-mode": "client"}}


def environment(project_root: Path, environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """What every Airflow process of this project runs with: the whole environment, not only what differs.

    Args:
        project_root: The root of the project.
        environ: What to start from; this process's environment by default. What it sets of the limits and of the
            connection stays; home, database, DAGs, plugins and the address to listen on are always the project's.

    Returns:
        A new mapping, for ``subprocess`` or ``os.environ.update``.
    """
    root = project_root.absolute()
    given = dict(os.environ if environ is None else environ)
    # It would beat the home, and with it the configuration of another Airflow would rule this one.
    given.pop("AIRFLOW_CONFIG", None)
    return (
        _defaults()
        | given
        | _fixed(root)
        | {
            # Airflow starts `airflow` and `spark-submit` by name, Spark's workers start `python3`.
            "PATH": os.pathsep.join([_commands(), given.get("PATH", os.defpath)]),
        }
    )


def write_shell_file(project_root: Path, variables: Mapping[str, str]) -> Path:
    """Writes ``.airflow/env``: in a shell that sources it, `airflow` and `tidegate` are those of this project.

    Without it `airflow` would work on the user's own home and find none of the DAGs. The file holds no connection but
    the default one, and none of what the writing shell was given.

    Args:
        project_root: The root of the project.
        variables: What its Airflow is started with beside `environment`.

    Returns:
        The file.
    """
    root = project_root.absolute()
    lines = [
        "# Written by `make up`. In a shell that sources this file, `airflow` and `tidegate` are those of this project.",
        "unset AIRFLOW_CONFIG",
        f'export PATH={shlex.quote(_commands())}:"$PATH"',
        *(f"export {name}={shlex.quote(value)}" for name, value in sorted((_fixed(root) | dict(variables)).items())),
        # What the shell says of these stays, as it does in Airflow.
        *(
            f'[ -n "${{{name}+set}}" ] || export {name}={shlex.quote(value)}'
            for name, value in sorted(_defaults().items())
            if name not in variables
        ),
    ]
    path = places.airflow_home(root) / "env"
    path.touch(mode=0o600)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def _defaults() -> dict[str, str]:
    return {
        # Without this connection the Spark provider silently submits to YARN.
        "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps(_SPARK_CONNECTION),
        # Each worker is a process: 32 by default.
        "AIRFLOW__CORE__PARALLELISM": "4",
        # A pipeline runs as soon as it is there; one that a person pauses stays paused.
        "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
        "AIRFLOW__DAG_PROCESSOR__REFRESH_INTERVAL": "10",
        # Tasks of a scheduler that was killed wait for this look of the next one: five minutes by default.
        "AIRFLOW__SCHEDULER__ORPHANED_TASKS_CHECK_INTERVAL": "30",
        "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "60",
    }


def _fixed(root: Path) -> dict[str, str]:
    return {
        "AIRFLOW_HOME": str(places.airflow_home(root)),
        "AIRFLOW__CORE__DAGS_FOLDER": str(root / "dags"),
        "AIRFLOW__CORE__PLUGINS_FOLDER": str(root / "plugins"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        # Also when this shell belongs to another Airflow: its database must never be migrated from here.
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{places.airflow_home(root) / _DATABASE}",
        "AIRFLOW__API__HOST": "127.0.0.1",
    }


def _commands() -> str:
    """The folder of the commands of this Python environment."""
    return str(Path(sys.executable).parent)


def is_ready(project_root: Path) -> bool:
    """Whether the home is there, with a database of the installed Airflow.

    Raises:
        SetupError: Airflow is not installed.
    """
    home = places.airflow_home(project_root)
    try:
        migrated = (home / _MIGRATED).read_text(encoding="utf-8").strip()
    except OSError:
        return False
    return (home / _DATABASE).exists() and migrated == _installed_version()


def ensure(project_root: Path) -> bool:
    """Makes the home and its database, once for each version of Airflow.

    Args:
        project_root: The root of the project.

    Returns:
        Whether anything had to be done.

    Raises:
        SetupError: Airflow is not installed, or the database could not be made; the message holds the end of the log.
    """
    if is_ready(project_root):
        return False
    home, version = places.airflow_home(project_root), _installed_version()
    with _owner_only():
        home.mkdir(parents=True, exist_ok=True)
        # A folder that somebody made before with a wider mask.
        home.chmod(0o700)
        done = subprocess.run(
            [sys.executable, "-m", "airflow", "db", "migrate"],
            env=environment(project_root),
            cwd=project_root,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            end = "\n".join((done.stdout + done.stderr).splitlines()[-20:])
            raise SetupError(f"Airflow's database in {home} could not be made. The end of its log:\n{end}")
        (home / _MIGRATED).write_text(f"{version}\n", encoding="utf-8")
    return True


def _installed_version() -> str:
    try:
        return importlib.metadata.version("apache-airflow-core")
    except importlib.metadata.PackageNotFoundError as error:
        raise SetupError("Airflow is not installed in this Python environment: run `make setup`.") from error


@contextlib.contextmanager
def _owner_only() -> Iterator[None]:
    # Airflow writes its database, its password and its secrets with the mask of the process: 0644 otherwise.
    before = os.umask(0o077)
    try:
        yield
    finally:
        os.umask(before)
