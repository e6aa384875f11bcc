"""The Airflow server with fake components; tests/live tests a real one."""

from __future__ import annotations

import json
import os
import shlex
import stat
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from devstack import airflow_home
from devstack.airflow_server import AirflowServer
from devstack.service import Service, stop
from tidegate.errors import AirflowUnavailableError, SetupError

pytestmark = pytest.mark.slow


def test_a_server_that_was_never_started_is_not_healthy_and_its_error_names_the_command(tmp_path: Path) -> None:
    server = AirflowServer(tmp_path)
    assert server.running() == {}
    assert not server.healthy()
    with pytest.raises(SetupError, match="make up"):
        _ = server.password
    assert list(tmp_path.iterdir()) == [], "queries create no files"


def test_no_answer_is_a_transient_error(tmp_path: Path) -> None:
    (tmp_path / ".airflow").mkdir()
    (tmp_path / ".airflow/passwords.json").write_text(json.dumps({"admin": "secret"}))
    with pytest.raises(AirflowUnavailableError) as caught:
        AirflowServer(tmp_path).dags()
    assert caught.value.transient
    assert "secret" not in caught.value.message
    with pytest.raises(AirflowUnavailableError):
        AirflowServer(tmp_path).files()


def test_the_password_is_created_once_and_readable_only_by_its_owner(tmp_path: Path) -> None:
    (tmp_path / ".airflow").mkdir()
    server = AirflowServer(tmp_path)
    server._make_password()
    first = server.password
    server._make_password()
    assert server.password == first
    assert len(first) >= 12
    assert stat.S_IMODE((tmp_path / ".airflow/passwords.json").stat().st_mode) == 0o600


def test_an_empty_password_file_is_replaced(tmp_path: Path) -> None:
    (tmp_path / ".airflow").mkdir()
    (tmp_path / ".airflow/passwords.json").touch()
    server = AirflowServer(tmp_path)
    server._make_password()
    assert len(server.password) >= 12
    assert [path.name for path in (tmp_path / ".airflow").iterdir()] == ["passwords.json"]


def test_stopping_a_server_that_does_not_run_does_nothing(tmp_path: Path) -> None:
    assert AirflowServer(tmp_path).stop() == 0


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[AirflowServer]:
    """A server whose components only sleep, in an environment without variables of Airflow."""
    for name in [name for name in os.environ if name.startswith("AIRFLOW")]:
        monkeypatch.delenv(name)
    home = tmp_path / ".airflow"
    monkeypatch.setattr(airflow_home, "ensure", lambda _: home.mkdir(exist_ok=True))
    fake = AirflowServer(tmp_path)
    sleep = (sys.executable, "-c", "import time; time.sleep(600)")
    fake.services = {
        name: Service(name=name, command=sleep, folder=home / "services") for name in ("api-server", "scheduler")
    }
    yield fake
    fake.stop()


LAKE = {"TIDEGATE_LAKE": "/lake"}
CONNECTION = "AIRFLOW_CONN_SPARK_DEFAULT"


def test_running_components_are_not_restarted_with_the_same_variables(server: AirflowServer) -> None:
    assert server.changed(LAKE) == [], "nothing runs"
    assert len(server.start(LAKE)) == 2
    before = server.running()
    assert server.changed(LAKE) == []
    assert server.start(LAKE) == []
    assert server.running() == before


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        (CONNECTION, '{"conn_type": "spark", "host": "spark://cluster:7077"}'),
        ("AIRFLOW_CONN_TIDEGATE_ALERTS", '{"conn_type": "http", "password": "hunter2"}'),
        ("AIRFLOW__METRICS__STATSD_ON", "True"),
    ],
)
def test_another_connection_or_setting_in_the_shell_restarts_the_components(
    server: AirflowServer, monkeypatch: pytest.MonkeyPatch, variable: str, value: str
) -> None:
    server.start(LAKE)
    before = server.running()
    monkeypatch.setenv(variable, value)
    assert server.changed(LAKE) == [variable]
    assert len(server.start(LAKE)) == 2
    assert not set(server.running().values()) & set(before.values())
    assert server.changed(LAKE) == []
    monkeypatch.delenv(variable)
    assert server.changed(LAKE) == [variable], "a removed variable is a change too"
    assert server.changed({"TIDEGATE_LAKE": "/other"}) == sorted([variable, "TIDEGATE_LAKE"])


def test_a_damaged_record_of_the_variables_restarts_the_components(server: AirflowServer, tmp_path: Path) -> None:
    server.start(LAKE)
    (tmp_path / ".airflow/services/variables.json").write_text('{"TIDEGATE_LA')
    assert "TIDEGATE_LAKE" in server.changed(LAKE)
    assert len(server.start(LAKE)) == 2
    assert server.changed(LAKE) == []


def test_no_file_contains_the_password_of_a_connection(
    server: AirflowServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_TIDEGATE_ALERTS", '{"password": "hunter2"}')
    server.start(LAKE)
    for name in ("services/variables.json", "env"):
        file = tmp_path / ".airflow" / name
        assert "hunter2" not in file.read_text()
        assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_shell_that_sources_the_projects_variables_does_not_cause_a_restart(
    server: AirflowServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.start(LAKE)
    command = f"source {shlex.quote(str(tmp_path / '.airflow/env'))} && env -0"
    output = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True).stdout
    shell = dict(line.split("=", 1) for line in output.split("\0") if line)
    assert shell["AIRFLOW_HOME"] == str(tmp_path / ".airflow")
    assert shell["TIDEGATE_LAKE"] == "/lake"
    assert shell["AIRFLOW__API__BASE_URL"] == server.url
    assert json.loads(shell[CONNECTION])["host"] == "local[2]"
    for name, value in shell.items():
        if name.startswith("AIRFLOW"):
            monkeypatch.setenv(name, value)
    assert server.changed(LAKE) == [], "`make up` from such a shell restarts nothing"


def test_a_component_that_ends_while_the_others_are_awaited_is_started_on_the_same_port(
    server: AirflowServer,
) -> None:
    server.start(LAKE)
    url, before = server.url, server.running()
    stop([server.services["api-server"]], grace=1)
    assert [service.name for service in server.start_ended(LAKE)] == ["api-server"]
    assert server.url == url
    assert server.running()["scheduler"] == before["scheduler"]


def test_the_heartbeat_of_the_process_before_does_not_count(
    server: AirflowServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    health = {
        "metadatabase": {"status": "healthy"},
        "scheduler": {"status": "healthy", "latest_scheduler_heartbeat": "2026-03-01T12:00:00.5+00:00"},
        "dag_processor": {"status": "healthy", "latest_dag_processor_heartbeat": "2026-03-01T12:00:00.5+00:00"},
    }
    monkeypatch.setattr(server, "_request", lambda *_, **__: health)
    noon = datetime(2026, 3, 1, 12, tzinfo=UTC)
    assert server.healthy()
    assert server.healthy({"scheduler": noon, "dag-processor": noon, "api-server": noon})
    for killed in ("scheduler", "dag-processor"):
        assert not server.healthy({killed: noon + timedelta(seconds=1)})
    health["scheduler"]["status"] = "unhealthy"
    assert not server.healthy()
