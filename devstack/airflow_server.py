"""Airflow on this machine: its four components with the project's own home, on loopback, with a password.

``airflow standalone`` runs the same four components, but serves the logs of tasks on all network addresses (two ports,
regardless of the configuration), leaves child processes behind when it ends, and does not restart a component that was
killed. Here each component is a `Service`: `AirflowServer.start` starts those that do not run, and a watch, this module as a
program, starts those again that end.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from devstack import airflow_home
from devstack.ports import LOOPBACK, free_port, is_free
from devstack.service import Service, keep_running, stop
from tidegate.advice import Command, OutsideAct
from tidegate.errors import AirflowUnavailableError, SetupError

if TYPE_CHECKING:
    from collections.abc import Mapping

USER = "admin"
PORT = 8080
"""The preferred port. If it is in use, the previous port or any free one is used."""
_COMPONENTS = {
    "api-server": (),
    "dag-processor": (),
    # Without the option they serve logs on all addresses; the API server reads the logs from disk.
    "scheduler": ("--skip-serve-logs",),
    "triggerer": ("--skip-serve-logs",),
}
_STOP_SECONDS = 8.0
"""More than a task waits for its Spark application to end."""
_ANSWER_SECONDS = 5.0


class AirflowServer:
    """The Airflow of one project, with the home ``.airflow`` and the DAGs in ``dags``."""

    def __init__(self, project_root: Path) -> None:
        self._root = project_root.absolute()
        self._home = airflow_home.folder(self._root)
        self._folder = self._home / "services"
        self.services = {
            name: Service(name=name, command=(sys.executable, "-m", "airflow", name, *options), folder=self._folder)
            for name, options in _COMPONENTS.items()
        }
        self.watch = Service(
            name="watch", command=(sys.executable, "-m", __name__, str(self._root)), folder=self._folder
        )
        """Starts components again that end, and writes a line into its log."""

    # ------------------------------------------------------------------------------------------------ start and stop

    def start(self, variables: Mapping[str, str]) -> list[Service]:
        """Start the components that do not run, without waiting until they are ready, and return them.

        Stops the watch, which `start_watch` starts again: both would start the same component.

        Args:
            variables: Environment variables of every task that override those of this process, for example the location
                of the lake. Components that were started with other values are restarted (`changed`).

        Raises:
            SetupError: Airflow is not installed, or its database cannot be migrated.
        """
        airflow_home.ensure(self._root)
        self._make_password()
        stop([self.watch], grace=_STOP_SECONDS)
        if self.changed(variables):
            self.stop()
        if self.services["api-server"].leader is None and not is_free(self._port or PORT):
            # The API server gets another port, which all components have to know.
            self.stop()
        if not self.running():
            self._write("port", str(next(filter(is_free, (PORT, self._port or PORT)), None) or free_port()))
        self._write("variables.json", json.dumps(self._digests(variables)))
        airflow_home.write_shell_file(self._root, self._address() | dict(variables))
        return self.start_ended(variables)

    def start_ended(self, variables: Mapping[str, str]) -> list[Service]:
        """Start the components that do not run, on the present port, and return them; arguments as for `start`."""
        ended = [service for service in self.services.values() if service.leader is None]
        for service in ended:
            service.start(self._environment(variables), cwd=self._root)
        return ended

    def start_watch(self, variables: Mapping[str, str]) -> None:
        """Start the watch, once all components are ready; arguments as for `start`."""
        # The root of the code, which may be another folder than the project.
        self.watch.start(self._environment(variables), cwd=Path(__file__).resolve().parents[__name__.count(".")])

    def changed(self, variables: Mapping[str, str]) -> list[str]:
        """Names of the variables that the running components do not have, or have with other values.

        Args:
            variables: As for `start`; Airflow's own variables of this process, including connections, are compared too.
        """
        if not self.running():
            return []
        try:
            before = json.loads(_text(self._folder / "variables.json"))
        except ValueError:
            # Missing, or incomplete because the disk was full: all variables count as changed.
            before = {}
        now = self._digests(variables)
        return sorted(name for name in before.keys() | now.keys() if before.get(name) != now.get(name))

    def stop(self) -> int:
        """Stop the components, their tasks and the tasks' Spark applications; returns the number of processes.

        The API server is stopped last, so that tasks can still report their end.
        """
        others = [service for name, service in self.services.items() if name != "api-server"]
        stop([self.watch], grace=_STOP_SECONDS)
        return stop(others, grace=_STOP_SECONDS) + stop([self.services["api-server"]], grace=_STOP_SECONDS)

    def running(self) -> dict[str, int]:
        """The process ids of the components that run."""
        return {name: leader.pid for name, service in self.services.items() if (leader := service.leader) is not None}

    # --------------------------------------------------------------------------------------------------------- access

    @property
    def url(self) -> str:
        """The address of the web interface."""
        return f"http://{LOOPBACK}:{self._port or PORT}"

    @property
    def password(self) -> str:
        """The password of the user ``admin``.

        Raises:
            SetupError: Airflow was never started.
        """
        try:
            return str(json.loads(self._password_file.read_text(encoding="utf-8"))[USER])
        except (OSError, ValueError, KeyError) as error:
            raise SetupError(
                f"There is no password in {self._password_file}",
                Command.make("up", says="run `{}`"),
            ) from error

    def healthy(self, started: Mapping[str, datetime] | None = None) -> bool:
        """Whether every component reports that it is healthy.

        Args:
            started: Component to the time of its start: the last heartbeat of the process before it does not count.
        """
        try:
            components = self._request("/api/v2/monitor/health", token=None)
        except AirflowUnavailableError:
            return False
        if not all(component.get("status") == "healthy" for component in components.values()):
            return False
        for name, moment in (started or {}).items():
            key = name.replace("-", "_")
            # The API server has no heartbeat: it has just answered.
            heartbeat = components.get(key, {}).get(f"latest_{key}_heartbeat")
            if heartbeat is not None and datetime.fromisoformat(heartbeat) < moment:
                return False
        return True

    def files(self) -> dict[str, str]:
        """The DAG files that Airflow has parsed, relative to the DAG folder, each with its import error or an empty text.

        Raises:
            AirflowUnavailableError: The API server does not answer.
        """
        errors = self._request("/api/v2/importErrors?limit=1000", token=self.token())["import_errors"]
        dags = self._dags()
        parsed = {dag["relative_fileloc"]: "" for dag in dags}
        return parsed | {error["filename"]: error["stack_trace"].rstrip().rpartition("\n")[2] for error in errors}

    def dags(self) -> dict[str, bool]:
        """The ids of all DAGs, and whether each is paused.

        Raises:
            AirflowUnavailableError: The API server does not answer.
        """
        return {dag["dag_id"]: dag["is_paused"] for dag in self._dags()}

    def token(self) -> str:
        """A token of the user ``admin`` for the REST API.

        Raises:
            AirflowUnavailableError: The API server does not answer.
        """
        login = {"username": USER, "password": self.password}
        return str(self._request("/auth/token", token=None, body=login)["access_token"])

    # -------------------------------------------------------------------------------------------------------- private

    def _dags(self) -> list[dict[str, Any]]:
        listed: list[dict[str, Any]] = self._request("/api/v2/dags?limit=1000&exclude_stale=true", token=self.token())[
            "dags"
        ]
        return listed

    @property
    def _port(self) -> int | None:
        text = _text(self._folder / "port")
        return int(text) if text.isdigit() else None

    @property
    def _password_file(self) -> Path:
        return self._home / "passwords.json"

    def _environment(self, variables: Mapping[str, str]) -> dict[str, str]:
        return airflow_home.environment(self._root) | self._address() | dict(variables)

    def _make_password(self) -> None:
        # Airflow would generate a password too, but prints it into its log. After a crash the file may be empty.
        with contextlib.suppress(SetupError):
            if self.password:
                return
        draft = self._password_file.with_suffix(".new")
        draft.unlink(missing_ok=True)
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump({USER: secrets.token_urlsafe(12)}, file)
        draft.replace(self._password_file)

    def _digests(self, variables: Mapping[str, str]) -> dict[str, str]:
        """A digest of each of Airflow's variables and of ``variables``, except those that this class sets."""
        environment = airflow_home.environment(self._root) | dict(variables)
        own = self._address()
        # Connections contain passwords. The key prevents guessing short ones from the digests.
        key = hashlib.sha256(self.password.encode()).digest()
        return {
            name: hashlib.blake2b(value.encode(errors="surrogateescape"), key=key, digest_size=16).hexdigest()
            for name, value in sorted(environment.items())
            if (name.startswith("AIRFLOW") or name in variables) and name not in own
        }

    def _address(self) -> dict[str, str]:
        return {
            "AIRFLOW__API__PORT": str(self._port),
            "AIRFLOW__API__BASE_URL": self.url,
            "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{self.url}/execution/",
            "AIRFLOW__CORE__EXECUTOR": "LocalExecutor",
            "AIRFLOW__CORE__AUTH_MANAGER": (
                "airflow.api_fastapi.auth.managers.simple.simple_auth_manager.SimpleAuthManager"
            ),
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "False",
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": f"{USER}:admin",
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(self._password_file),
        }

    def _write(self, name: str, text: str) -> None:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = self._folder / name
        path.touch(mode=0o600)
        path.write_text(text, encoding="utf-8")

    def _request(self, path: str, *, token: str | None, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        if self._port is None:
            # A server at the default port belongs to another project.
            raise AirflowUnavailableError(
                "This project's Airflow was never started",
                Command.make("up", says="start it with `{}`"),
            )
        import httpx

        try:
            response = httpx.request(
                "GET" if body is None else "POST",
                self.url + path,
                json=body,
                headers={"Authorization": f"Bearer {token}"} if token else {},
                timeout=_ANSWER_SECONDS,
                trust_env=False,  # no proxies of the environment
            )
            if not response.is_success:
                raise AirflowUnavailableError(
                    f"Airflow at {self.url} answers {response.status_code}",
                    OutsideAct("try again when it is ready"),
                )
            content: dict[str, Any] = response.json()
            return content
        except (httpx.RequestError, ValueError) as error:
            raise AirflowUnavailableError(
                f"Airflow at {self.url} does not answer: {error}",
                Command.make("up", says="start it with `{}`"),
            ) from error


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except OSError:
        return ""


def main(project_root: Path) -> None:
    """Start components again that end, until this process is stopped."""
    for line in keep_running(AirflowServer(project_root).services.values(), os.environ, project_root):
        if line:
            print(f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ} {line}", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
