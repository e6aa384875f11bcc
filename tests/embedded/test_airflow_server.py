"""What the server says before anything runs; a live one is tested in tests/live."""

from __future__ import annotations

import json
import os
import shlex
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tidegate.embedded import airflow_home
from tidegate.embedded.airflow_server import AirflowServer
from tidegate.embedded.service import Service
from tidegate.errors import NoAnswerError, SetupError


def test_one_that_was_never_started_is_not_healthy_and_says_how_to_start_it(tmp_path: Path) -> None:
    server = AirflowServer(tmp_path)
    assert server.running() == {}
    assert not server.healthy()
    with pytest.raises(SetupError, match="make up"):
        _ = server.password
    assert list(tmp_path.iterdir()) == [], "asking makes nothing"


def test_no_answer_is_an_error_that_heals_by_waiting(tmp_path: Path) -> None:
    (tmp_path / ".airflow").mkdir()
    (tmp_path / ".airflow/passwords.json").write_text(json.dumps({"admin": "secret"}))
    with pytest.raises(NoAnswerError) as caught:
        AirflowServer(tmp_path).dags()
    assert caught.value.transient
    assert "secret" not in caught.value.message
    with pytest.raises(NoAnswerError):
        AirflowServer(tmp_path).files()


def test_the_password_is_made_once_for_its_owner_alone(tmp_path: Path) -> None:
    (tmp_path / ".airflow").mkdir()
    server = AirflowServer(tmp_path)
    server._make_password()
    first = server.password
    server._make_password()
    assert server.password == first
    assert len(first) >= 12
    assert stat.S_IMODE((tmp_path / ".airflow/passwords.json").stat().st_mode) == 0o600


def test_a_password_file_that_a_crash_left_empty_is_made_anew(tmp_path: Path) -> None:
    (tmp_path / ".airflow").mkdir()
    (tmp_path / ".airflow/passwords.json").touch()
    server = AirflowServer(tmp_path)
    server._make_password()
    assert len(server.password) >= 12
    assert [path.name for path in (tmp_path / ".airflow").iterdir()] == ["passwords.json"]


def test_stopping_what_does_not_run_stops_nothing(tmp_path: Path) -> None:
    assert AirflowServer(tmp_path).stop() == 0


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[AirflowServer]:
    """One whose components only sleep; a shell that knows nothing of Airflow starts it."""
    for name in [name for name in os.environ if name.startswith("AIRFLOW")]:
        monkeypatch.delenv(name)
    home = tmp_path / ".airflow"
    monkeypatch.setattr(airflow_home, "ensure", lambda _: home.mkdir(exist_ok=True))
    made = AirflowServer(tmp_path)
    asleep = (sys.executable, "-c", "import time; time.sleep(600)")
    made.services = {
        name: Service(name=name, command=asleep, folder=home / "services") for name in ("api-server", "scheduler")
    }
    yield made
    made.stop()


LAKE = {"TIDEGATE_LAKE": "/lake"}
CONNECTION = "AIRFLOW_CONN_SPARK_DEFAULT"


def test_what_runs_is_left_alone_while_it_is_given_the_same(server: AirflowServer) -> None:
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
def test_another_connection_or_setting_in_the_shell_starts_it_anew(
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
    assert server.changed(LAKE) == [variable], "what is taken away counts too"
    assert server.changed({"TIDEGATE_LAKE": "/other"}) == sorted([variable, "TIDEGATE_LAKE"])


def test_where_nobody_can_tell_what_it_was_given_it_is_started_anew(server: AirflowServer, tmp_path: Path) -> None:
    server.start(LAKE)
    (tmp_path / ".airflow/services/given.json").write_text('{"TIDEGATE_LA')
    assert "TIDEGATE_LAKE" in server.changed(LAKE)
    assert len(server.start(LAKE)) == 2
    assert server.changed(LAKE) == []


def test_nothing_that_is_kept_of_a_connection_tells_its_password(
    server: AirflowServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_TIDEGATE_ALERTS", '{"password": "hunter2"}')
    server.start(LAKE)
    for name in ("services/given.json", "env"):
        kept = tmp_path / ".airflow" / name
        assert "hunter2" not in kept.read_text()
        assert stat.S_IMODE(kept.stat().st_mode) == 0o600


def test_a_shell_that_takes_the_projects_variables_gives_back_what_was_given(
    server: AirflowServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.start(LAKE)
    ask = f"source {shlex.quote(str(tmp_path / '.airflow/env'))} && env -0"
    told = subprocess.run(["bash", "-c", ask], capture_output=True, text=True, check=True).stdout
    shell = dict(line.split("=", 1) for line in told.split("\0") if line)
    assert shell["AIRFLOW_HOME"] == str(tmp_path / ".airflow")
    assert shell["TIDEGATE_LAKE"] == "/lake"
    assert shell["AIRFLOW__API__BASE_URL"] == server.url
    assert json.loads(shell[CONNECTION])["host"] == "local[2]"
    for name, value in shell.items():
        if name.startswith("AIRFLOW"):
            monkeypatch.setenv(name, value)
    assert server.changed(LAKE) == [], "so `make up` from such a shell starts nothing anew"
