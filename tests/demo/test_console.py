"""The output of `make status` while Airflow's API returns 500, as it does while another component has SQLite locked."""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from rich.console import Console

from demo import console
from devstack.airflow_server import AirflowServer
from devstack.ports import LOOPBACK
from devstack.service import Service
from tidegate.environment import Environment

pytestmark = pytest.mark.slow

ANSWERS = {
    "/auth/token": {"access_token": "t"},
    "/api/v2/dags": {"dags": [{"dag_id": "orders", "is_paused": True, "relative_fileloc": "pipelines.py"}]},
    "/api/v2/monitor/health": {"metadatabase": {"status": "healthy"}},
    "/api/v2/importErrors": {"import_errors": [{"filename": "bad.py", "stack_trace": "Traceback\nNameError: x"}]},
}


@pytest.fixture
def busy(tmp_path: Path) -> Iterator[Callable[[int], list[int]]]:
    """A function that starts a fake API server, which fails the given number of requests first; returns its status codes."""
    servers = []

    def start(failures: int) -> list[int]:
        codes: list[int] = []

        class Api(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                codes.append(500 if len(codes) < failures else 200)
                self.send_response(codes[-1])
                self.end_headers()
                self.wfile.write(json.dumps(ANSWERS[self.path.partition("?")[0]]).encode())

            do_POST = do_GET  # noqa: N815  # named by http.server

            def log_message(self, *_: object) -> None:
                pass

        server = ThreadingHTTPServer((LOOPBACK, 0), Api)
        servers.append(server)
        Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        home = tmp_path / ".airflow"
        (home / "services").mkdir(parents=True)
        (home / "services" / "port").write_text(str(server.server_port))
        (home / "passwords.json").write_text('{"admin": "secret"}')
        return codes

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def listed(project: Path) -> str:
    output = io.StringIO()
    console._list_pipelines(console.Services(project, Console(file=output, width=200)))
    return output.getvalue()


def test_before_the_first_start_the_status_says_how_to_start_and_names_no_file(tmp_path: Path) -> None:
    (tmp_path / "jars.lock.json").write_text('{"broker": {"jars": []}}')
    output = io.StringIO()
    console.status(console.Services(tmp_path, Console(file=output, width=200)))
    assert output.getvalue().splitlines() == [
        "Airflow       does not run; `make up` starts everything",
        "Kafka broker  does not run",
        "Feeder        does not run",
    ]


def test_pipelines_are_listed_once_the_api_responds(
    busy: Callable[[int], list[int]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    codes = busy(3)
    assert listed(tmp_path) == (
        "Pipelines     orders (paused)\n              dags/bad.py does not load: NameError: x\n"
    )
    assert codes.count(500) == 3


def test_without_a_response_the_error_is_printed(
    busy: Callable[[int], list[int]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(console, "_ANSWER_SECONDS", 0.2)
    busy(10**6)
    output = listed(tmp_path)
    assert "Pipelines     not known: Airflow at http://127.0.0.1:" in output
    assert "answers 500" in output


def test_a_component_that_was_about_to_end_is_started_again_while_the_others_are_awaited(
    busy: Callable[[int], list[int]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "dags").mkdir()
    airflow = AirflowServer(tmp_path)
    sleep = (sys.executable, "-c", "import time; time.sleep(600)")
    airflow.services = {
        name: Service(name=name, command=sleep, folder=tmp_path / "services") for name in ("api-server", "scheduler")
    }
    monkeypatch.setattr(console.Services, "airflow", airflow)
    services = console.Services(tmp_path, Console(file=io.StringIO()))
    try:
        airflow.services["scheduler"].start(dict(os.environ), tmp_path)
        before = airflow.running()
        codes = busy(2)
        console._wait_until_ready(services, Environment.read({"TIDEGATE_PROJECT": str(tmp_path)}), [])
        assert airflow.running().keys() == {"api-server", "scheduler"}
        assert airflow.running()["scheduler"] == before["scheduler"]
        assert codes.count(500) == 2
    finally:
        airflow.stop()
