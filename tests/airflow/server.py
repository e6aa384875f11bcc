"""A real Airflow API server without a scheduler: its pages, its login and the project's plugin."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import httpx

from devstack.ports import free_port
from tests.waiting import wait_until
from tidegate.processes import end_group

USERS = {"admin": "admin", "viewer": "viewer"}
"""User name, which is also the password, to role."""


@contextlib.contextmanager
def serving(home: Path, variables: Mapping[str, str]) -> Iterator[str]:
    """Start the server; yields its URL.

    Args:
        home: An Airflow home whose database contains the project's DAGs.
        variables: Added to this process's environment.
    """
    passwords = home / "passwords.json"
    passwords.write_text(json.dumps({name: name for name in USERS}))
    port = free_port()
    environment = os.environ | {
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": ",".join(f"{name}:{role}" for name, role in USERS.items()),
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(passwords),
        "AIRFLOW__API__BASE_URL": f"http://127.0.0.1:{port}",
        **variables,
    }
    log = home / "api-server.log"
    command = [sys.executable, "-m", "airflow", "api-server", "--host", "127.0.0.1", "--port", str(port)]
    with log.open("wb") as output:
        server = subprocess.Popen(command, env=environment, stdout=output, stderr=output, start_new_session=True)
    try:
        _wait(f"http://127.0.0.1:{port}/api/v2/version", server, log)
        yield f"http://127.0.0.1:{port}"
    finally:
        end_group(server.pid, grace=20)
        server.wait()


def _wait(url: str, server: subprocess.Popen[bytes], log: Path) -> None:
    def answers_or_ended() -> bool:
        with contextlib.suppress(httpx.RequestError):
            return httpx.get(url, trust_env=False).is_success
        return server.poll() is not None

    wait_until(answers_or_ended, "the API server answers")
    assert server.poll() is None, f"the API server did not start:\n{log.read_text(errors='replace')[-4000:]}"
