"""Airflow on this machine: its four components on the project's own home, on loopback, behind a password.

``airflow standalone`` runs the same four, but serves the logs of its tasks to the whole network (two ports on all
addresses, whatever its settings say), leaves children behind when it ends, and starts none of the four again that was
killed. Here each component is a `Service`: `AirflowServer.start` starts those that do not run.
"""

from __future__ import annotations

import contextlib
import hashlib
import http.client
import json
import os
import secrets
import sys
import urllib.request
from typing import TYPE_CHECKING, Any

from tidegate.embedded import airflow_home, places
from tidegate.embedded.ports import LOOPBACK, free_port, is_free
from tidegate.embedded.service import Service, stop
from tidegate.errors import NoAnswerError, SetupError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

USER = "admin"
PORT = 8080
"""Taken when it is free; else the one that it had before, or any."""
_COMPONENTS = {
    "api-server": (),
    "dag-processor": (),
    # Without the option they would serve logs on all addresses; the API server reads them from the disk.
    "scheduler": ("--skip-serve-logs",),
    "triggerer": ("--skip-serve-logs",),
}
_STOP_SECONDS = 8.0
"""More than a task gives its Spark application to end."""
_ANSWER_SECONDS = 5.0


class AirflowServer:
    """The Airflow of one project.

    Args:
        project_root: The root of the project: its home is ``.airflow``, its DAGs lie in ``dags``.
    """

    def __init__(self, project_root: Path) -> None:
        self._root = project_root.absolute()
        self._home = places.airflow_home(self._root)
        self._folder = self._home / "services"
        self.services = {
            name: Service(name=name, command=(sys.executable, "-m", "airflow", name, *options), folder=self._folder)
            for name, options in _COMPONENTS.items()
        }

    # ------------------------------------------------------------------------------------------------ start and stop

    def start(self, variables: Mapping[str, str]) -> list[Service]:
        """Start the components that do not run, and return those; does not wait until they are ready.

        Args:
            variables: For every task, over this process's own environment: where the lake is, for example. Components
                that were started with others are started anew (`changed`).

        Raises:
            SetupError: Airflow is not installed, or its database cannot be made.
        """
        airflow_home.ensure(self._root)
        self._make_password()
        if self.changed(variables):
            self.stop()
        if self.services["api-server"].leader is None and not is_free(self._port or PORT):
            # All others know its address, so all of them get the new one.
            self.stop()
        if not self.running():
            self._write("port", str(next(filter(is_free, (PORT, self._port or PORT)), None) or free_port()))
        self._write("given.json", json.dumps(self._given(variables)))
        airflow_home.write_shell_file(self._root, self._address() | dict(variables))
        environment = airflow_home.environment(self._root) | self._address() | dict(variables)
        asleep = [service for service in self.services.values() if service.leader is None]
        for service in asleep:
            service.start(environment, cwd=self._root)
        return asleep

    def changed(self, variables: Mapping[str, str]) -> list[str]:
        """Names of the variables that what runs was started without, or with another value; none when nothing runs.

        Args:
            variables: As for `start`; Airflow's own variables of this process, connections included, are asked too.
        """
        if not self.running():
            return []
        try:
            before = json.loads(_text(self._folder / "given.json"))
        except ValueError:
            # Nothing, or half of it: the disk was full. Nobody can tell what runs, so all of it counts as changed.
            before = {}
        now = self._given(variables)
        return sorted(name for name in before.keys() | now.keys() if before.get(name) != now.get(name))

    def stop(self) -> int:
        """Stop the components, their tasks and the Spark applications of those; returns how many processes there were.

        The API server goes last, so that tasks can still report their end.
        """
        others = [service for name, service in self.services.items() if name != "api-server"]
        return stop(others, grace=_STOP_SECONDS) + stop([self.services["api-server"]], grace=_STOP_SECONDS)

    def running(self) -> dict[str, int]:
        """The process ids of the components that run."""
        return {name: leader.pid for name, service in self.services.items() if (leader := service.leader) is not None}

    # --------------------------------------------------------------------------------------------------------- access

    @property
    def url(self) -> str:
        """Where a browser finds it."""
        return f"http://{LOOPBACK}:{self._port or PORT}"

    @property
    def password(self) -> str:
        """The password of the user ``admin``.

        Raises:
            SetupError: It was never started.
        """
        try:
            return str(json.loads(self._password_file.read_text(encoding="utf-8"))[USER])
        except (OSError, ValueError, KeyError) as error:
            raise SetupError(f"There is no password in {self._password_file}: run `make up`.") from error

    def healthy(self) -> bool:
        """Whether every component says that it works."""
        try:
            told = self._ask("/api/v2/monitor/health", token=None)
        except NoAnswerError:
            return False
        return all(part.get("status") == "healthy" for part in told.values())

    def files(self) -> dict[str, str]:
        """Files of the DAG folder that Airflow has read: relative to the folder, each with its error or an empty text.

        Raises:
            NoAnswerError: The API server does not answer.
        """
        errors = self._ask("/api/v2/importErrors?limit=1000", token=self.token())["import_errors"]
        dags = self._dags()
        found = {dag["relative_fileloc"]: "" for dag in dags}
        return found | {error["filename"]: error["stack_trace"].rstrip().rpartition("\n")[2] for error in errors}

    def dags(self) -> dict[str, bool]:
        """Every DAG that Airflow lists, and whether it is paused.

        Raises:
            NoAnswerError: The API server does not answer.
        """
        return {dag["dag_id"]: dag["is_paused"] for dag in self._dags()}

    def token(self) -> str:
        """A token for the REST API, of the user ``admin``.

        Raises:
            NoAnswerError: The API server does not answer.
        """
        login = {"username": USER, "password": self.password}
        return str(self._ask("/auth/token", token=None, body=login)["access_token"])

    # -------------------------------------------------------------------------------------------------------- private

    def _dags(self) -> list[dict[str, Any]]:
        listed: list[dict[str, Any]] = self._ask("/api/v2/dags?limit=1000&exclude_stale=true", token=self.token())[
            "dags"
        ]
        return listed

    @property
    def _port(self) -> int | None:
        told = _text(self._folder / "port")
        return int(told) if told.isdigit() else None

    @property
    def _password_file(self) -> Path:
        return self._home / "passwords.json"

    def _make_password(self) -> None:
        # Made here and not by Airflow, which would print it into its log. An empty file is what a crash left.
        with contextlib.suppress(SetupError):
            if self.password:
                return
        draft = self._password_file.with_suffix(".new")
        draft.unlink(missing_ok=True)
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump({USER: secrets.token_urlsafe(12)}, file)
        draft.replace(self._password_file)

    def _given(self, variables: Mapping[str, str]) -> dict[str, str]:
        """A digest of each variable that a start hands over and that is not ours to set."""
        whole = airflow_home.environment(self._root) | dict(variables)
        ours = self._address()
        # Connections hold passwords. With this key, nobody can try out short ones on the digests alone.
        key = hashlib.sha256(self.password.encode()).digest()
        return {
            name: hashlib.blake2b(value.encode(errors="surrogateescape"), key=key, digest_size=16).hexdigest()
            for name, value in sorted(whole.items())
            if (name.startswith("AIRFLOW") or name in variables) and name not in ours
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

    def _ask(self, path: str, *, token: str | None, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        if self._port is None:
            # Whatever answers at the usual port is somebody else's.
            raise NoAnswerError("This project's Airflow was never started; start it with `make up`.")
        headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {token}"} if token else {})
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data=data, headers=headers)
        try:
            # Never through a proxy that this shell names.
            with _OPENER.open(request, timeout=_ANSWER_SECONDS) as answer:
                told: dict[str, Any] = json.load(answer)
                return told
        except (OSError, ValueError, http.client.HTTPException) as error:
            raise NoAnswerError(f"Airflow at {self.url} does not answer: {error}") from error


_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except OSError:
        return ""
