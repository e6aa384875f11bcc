"""How an application is submitted and ended: by spark-submit of the jobs' environment, whose process lives as long as the driver.

`Submission` is what a task needs of any way to submit. This module has the one in which the driver runs on this machine; where it runs on
a cluster, `tidegate.airflow.cluster_submission` follows it.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from tidegate.airflow.failure import TaskFailure
from tidegate.airflow.spark_connection import SparkConnection
from tidegate.errors import EX_CONFIG
from tidegate.processes import end_group
from tidegate.runtime import job_environment

GRACE_SECONDS = 3.5
"""Time for Spark to exit after SIGTERM. Airflow kills the task's process 5 s after it asked it to stop."""
KILL_SECONDS = 0.5
"""Time for processes to disappear after SIGKILL; normally milliseconds."""
_SECRETS = ("AIRFLOW__", "AIRFLOW_CONN_", "AIRFLOW_VAR_", "_AIRFLOW", "__AIRFLOW")


@dataclass(frozen=True, kw_only=True)
class Application:
    """What is submitted."""

    name: str
    script: Path | str
    """A file, or its URI as spark-submit takes it."""
    arguments: Sequence[str]
    conf: Mapping[str, str]
    """Settings of Spark that only work before the driver's JVM starts."""
    variables: Mapping[str, str]
    """Environment variables in addition to those of the task."""
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    """More of them, which are shown nowhere: for a driver on this machine."""
    python: Path
    """The Python of the environment in which it runs."""


class ApplicationError(Exception):
    """An application that did not end well.

    Args:
        code: Its exit code; None if it has none.
    """

    def __init__(self, message: str, code: int | None = None) -> None:
        super().__init__(message)
        self.code = code


class Submission(Protocol):
    """One way to run an application, once."""

    @property
    def application(self) -> str | None:
        """The name by which a cluster that runs the driver knows the application; None before it has one, and without such a cluster."""

    def run(self, application: Application) -> None:
        """Submit it and wait for its end; nothing of it is left on this machine when this returns or raises.

        Raises:
            ApplicationError: It did not end with 0.
            SetupError: The environment of the jobs cannot run it.
        """

    def kill(self) -> None:
        """End it, from a signal handler while `run` waits. Does nothing before and after."""


class ClientSubmission:
    """Runs spark-submit in a process group of its own, which ends with the task, without Airflow's secrets.

    For local masters, a standalone cluster, and the client mode of YARN and of Kubernetes.
    """

    def __init__(self, connection: SparkConnection, log: Any) -> None:
        self._connection = connection
        self._log = log
        self._process: subprocess.Popen[str] | None = None
        self._killed = False

    @property
    def application(self) -> str | None:
        """As `Submission.application`: the driver ends with `run`."""
        return None

    def run(self, application: Application) -> None:
        """As `Submission.run`; the output of the application goes to the log line by line."""
        with _keytab_file(self._connection) as keytab:
            command = self.command(application, keytab)
            self._log.info("Spark-Submit cmd: %s", shlex.join(command))
            self._process = subprocess.Popen(
                command,
                env=variables(os.environ, application),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                encoding="utf-8",
                errors="replace",
                start_new_session=True,
            )
            try:
                if self._killed:
                    # Before there was a process.
                    self._end()
                assert self._process.stdout is not None
                for line in self._process.stdout:
                    self.read(line.rstrip())
                code = self._process.wait()
            finally:
                # Also for Ctrl-C in a terminal and for timeouts.
                self._end()
                if self._process.stdout is not None:
                    self._process.stdout.close()
        if code:
            raise ApplicationError(f"spark-submit ended with exit code {code}", code)

    def read(self, line: str) -> None:
        """Take a line of the output."""
        self._log.info("%s", line)

    def kill(self) -> None:
        """SIGTERM, then SIGKILL, to the whole process group."""
        self._killed = True
        if self._process is not None:
            # No wait here: this interrupts the one of `run`, which holds the lock of the process.
            end_group(self._process.pid, grace=GRACE_SECONDS, kill_seconds=KILL_SECONDS)

    def command(self, application: Application, keytab: Path | None = None) -> list[str]:
        """The words of the command.

        Raises:
            SetupError: The environment of the jobs has no Spark.
        """
        connection = self._connection
        conf = dict(application.conf)
        if connection.namespace and connection.master.startswith("k8s"):
            conf["spark.kubernetes.namespace"] = connection.namespace
        options = {
            "--name": application.name,
            "--keytab": str(keytab) if keytab else None,
            "--principal": connection.principal,
            "--queue": connection.queue,
            "--deploy-mode": connection.deploy_mode,
        }
        return [
            program(connection, application.python),
            *("--master", connection.master),
            *(word for name, value in conf.items() for word in ("--conf", f"{name}={value}")),
            *(word for name, value in options.items() if value for word in (name, value)),
            str(application.script),
            *application.arguments,
        ]

    def _end(self) -> None:
        if self._process is not None:
            end_group(self._process.pid, grace=GRACE_SECONDS, kill_seconds=KILL_SECONDS)
            self._process.wait()


def program(connection: SparkConnection, python: Path) -> str:
    """The program that submits: that of the jobs' environment, or one of another name on the ``PATH``.

    Raises:
        SetupError: The environment has no Spark.
        TaskFailure: There is no program of the other name.
    """
    name = connection.program
    if name == "spark-submit":
        return str(job_environment.of(python).spark_submit)
    # Distributions of Spark and Hadoop install the other names.
    path = shutil.which(name)
    if path is None:
        raise TaskFailure(
            f"connection {connection.conn_id!r}: its extra 'spark-binary' is {name!r}, but no folder of the PATH has this program; "
            "install it where Airflow runs, or remove the extra",
            exit_code=EX_CONFIG,
        )
    return path


def variables(inherited: Mapping[str, str], application: Application) -> dict[str, str]:
    """The environment variables of an application: without Airflow's secrets, and the commands of the jobs' environment come first."""
    own = without_secrets(inherited) | dict(application.variables) | dict(application.secrets)
    return own | {"PATH": os.pathsep.join([str(application.python.parent), own.get("PATH", os.defpath)])}


def without_secrets(inherited: Mapping[str, str]) -> dict[str, str]:
    """Environment variables without Airflow's configuration, connections and variables."""
    return {name: value for name, value in inherited.items() if not name.startswith(_SECRETS)}


@contextlib.contextmanager
def _keytab_file(connection: SparkConnection) -> Iterator[Path | None]:
    """A file with the keytab that only its owner can read, as long as the application runs."""
    if connection.keytab is None:
        yield None
        return
    with tempfile.NamedTemporaryFile(prefix="tidegate-keytab-") as file:
        file.write(connection.keytab)
        file.flush()
        yield Path(file.name)
