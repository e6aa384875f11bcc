"""The project's own Airflow home, ``.airflow/``: git-ignored, readable only by its owner, not the user's own Airflow."""

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

from tidegate.advice import Command, OutsideAct
from tidegate.errors import SetupError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_MIGRATED = "migrated.txt"
_DATABASE = "airflow.db"
_BUSY_SECONDS = 30
"""How long a component waits for the lock of another one. By default five seconds; then scheduler and DAG processor end."""
_SPARK_CONNECTION = {"conn_type": "spark", "host": "local[2]", "extra": {"deploy-mode": "client"}}


def folder(project_root: Path) -> Path:
    """The folder of the home, separate from the user's own."""
    return project_root / ".airflow"


def environment(project_root: Path, environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """The complete environment of the project's Airflow processes.

    Args:
        environ: The environment to extend; this process's by default. Its limits and its Spark connection are kept;
            home, database, DAGs, plugins and the listen address are always the project's.

    Returns:
        A new mapping, for ``subprocess`` or ``os.environ.update``.
    """
    root = project_root.absolute()
    base = dict(os.environ if environ is None else environ)
    # It takes precedence over AIRFLOW_HOME, so the configuration of another Airflow would apply.
    base.pop("AIRFLOW_CONFIG", None)
    return (
        _defaults()
        | base
        | _fixed(root)
        | {
            # Airflow starts `airflow` and `spark-submit` by name, Spark's workers start `python3`.
            "PATH": os.pathsep.join([_bin_folder(), base.get("PATH", os.defpath)]),
        }
    )


def write_shell_file(project_root: Path, variables: Mapping[str, str]) -> Path:
    """Write ``.airflow/env``: in a shell that sources it, `airflow` and `tidegate` are those of this project.

    Otherwise `airflow` would use the user's own home, without the project's DAGs. The file contains only the default
    Spark connection, and no other variable of the current shell.

    Args:
        variables: The variables that Airflow is started with in addition to `environment`.

    Returns:
        The file.
    """
    root = project_root.absolute()
    lines = [
        "# Written by `make up`. In a shell that sources this file, `airflow` and `tidegate` are those of this project.",
        "unset AIRFLOW_CONFIG",
        f'export PATH={shlex.quote(_bin_folder())}:"$PATH"',
        *(f"export {name}={shlex.quote(value)}" for name, value in sorted((_fixed(root) | dict(variables)).items())),
        # The shell's own values of these take precedence, as in `environment`.
        *(
            f'[ -n "${{{name}+set}}" ] || export {name}={shlex.quote(value)}'
            for name, value in sorted(_defaults().items())
            if name not in variables
        ),
    ]
    path = folder(root) / "env"
    path.touch(mode=0o600)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def _defaults() -> dict[str, str]:
    return {
        # Without this connection, the Spark provider submits to YARN.
        "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps(_SPARK_CONNECTION),
        # Each worker is a process; Airflow's default is 32.
        "AIRFLOW__CORE__PARALLELISM": "4",
        # New pipelines run without being unpaused first; a pipeline that a person pauses stays paused.
        "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
        "AIRFLOW__DAG_PROCESSOR__REFRESH_INTERVAL": "10",
        # After a scheduler was killed, its tasks wait for this check; Airflow's default is five minutes.
        "AIRFLOW__SCHEDULER__ORPHANED_TASKS_CHECK_INTERVAL": "30",
        # Longer than an API server needs to start again on a busy machine: otherwise the scheduler gives up tasks that still run.
        "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "120",
        # A task tries for about a minute to reach the API server: longer than it takes to start. By default about ten seconds.
        "AIRFLOW__WORKERS__EXECUTION_API_RETRIES": "15",
        "AIRFLOW__WORKERS__EXECUTION_API_RETRY_WAIT_MAX": "10",
    }


def _fixed(root: Path) -> dict[str, str]:
    return {
        "AIRFLOW_HOME": str(folder(root)),
        "AIRFLOW__CORE__DAGS_FOLDER": str(root / "dags"),
        "AIRFLOW__CORE__PLUGINS_FOLDER": str(root / "plugins"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        # Overrides the shell's variable: the database of another Airflow must not be migrated.
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{folder(root) / _DATABASE}?timeout={_BUSY_SECONDS}",
        "AIRFLOW__API__HOST": "127.0.0.1",
    }


def _bin_folder() -> str:
    """The folder with the commands of this Python environment."""
    return str(Path(sys.executable).parent)


def is_ready(project_root: Path) -> bool:
    """Whether the home exists, with a database of the installed version of Airflow.

    Raises:
        SetupError: Airflow is not installed.
    """
    home = folder(project_root)
    try:
        migrated = (home / _MIGRATED).read_text(encoding="utf-8").strip()
    except OSError:
        return False
    return (home / _DATABASE).exists() and migrated == _installed_version()


def ensure(project_root: Path) -> bool:
    """Create the home and its database, once per version of Airflow.

    Returns:
        Whether the home was created or its database migrated.

    Raises:
        SetupError: Airflow is not installed, or the migration failed.
    """
    if is_ready(project_root):
        return False
    home, version = folder(project_root), _installed_version()
    with _owner_only():
        home.mkdir(parents=True, exist_ok=True)
        # The folder may exist with wider permissions.
        home.chmod(0o700)
        migration = subprocess.run(
            [sys.executable, "-m", "airflow", "db", "migrate"],
            env=environment(project_root),
            cwd=project_root,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if migration.returncode:
            output = "\n".join((migration.stdout + migration.stderr).splitlines()[-20:])
            raise SetupError(
                f"Airflow's database in {home} could not be migrated. The end of the log:\n{output}",
                OutsideAct("remove the cause, and start again"),
            )
        (home / _MIGRATED).write_text(f"{version}\n", encoding="utf-8")
    return True


def _installed_version() -> str:
    try:
        return importlib.metadata.version("apache-airflow-core")
    except importlib.metadata.PackageNotFoundError as error:
        raise SetupError(
            "Airflow is not installed in this Python environment",
            Command.make("setup", says="run `{}`"),
        ) from error


@contextlib.contextmanager
def _owner_only() -> Iterator[None]:
    # Airflow creates its database, passwords and secrets with the umask of the process: 0644 by default.
    before = os.umask(0o077)
    try:
        yield
    finally:
        os.umask(before)
