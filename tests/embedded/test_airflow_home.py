"""The project's own Airflow home."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tidegate.embedded import airflow_home
from tidegate.errors import SetupError


def _playing(monkeypatch: pytest.MonkeyPatch, home: Path, *, code: int = 0, says: str = "") -> list[dict[str, Any]]:
    """Puts a quick `airflow` in place of the real one; returns what it was called with."""
    calls: list[dict[str, Any]] = []

    def run(command: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
        calls.append({"command": command, **options})
        if code == 0:
            (home / ".airflow" / "airflow.db").write_text("a database")
        return subprocess.CompletedProcess(command, code, stdout=says, stderr="")

    monkeypatch.setattr(airflow_home.subprocess, "run", run)
    return calls


def test_home_dags_and_plugins_are_the_projects_own_whatever_this_shell_says(tmp_path: Path) -> None:
    shell = {
        "AIRFLOW_HOME": "/home/somebody/airflow",
        "AIRFLOW_CONFIG": "/home/somebody/airflow.cfg",
        "AIRFLOW__CORE__DAGS_FOLDER": "/dags",
        "AIRFLOW__CORE__PLUGINS_FOLDER": "/plugins",
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": "postgresql://production",
    }
    made = airflow_home.environment(tmp_path, shell)
    assert made["AIRFLOW_HOME"] == str(tmp_path / ".airflow")
    assert made["AIRFLOW__CORE__DAGS_FOLDER"] == str(tmp_path / "dags")
    assert made["AIRFLOW__CORE__PLUGINS_FOLDER"] == str(tmp_path / "plugins")
    assert made["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"] == f"sqlite:///{tmp_path}/.airflow/airflow.db"
    assert "AIRFLOW_CONFIG" not in made


def test_it_listens_on_loopback_only_whatever_this_shell_says(tmp_path: Path) -> None:
    assert airflow_home.environment(tmp_path, {"AIRFLOW__API__HOST": "0.0.0.0"})["AIRFLOW__API__HOST"] == "127.0.0.1"


def test_a_shell_keeps_what_it_says_of_limits_and_connection_and_takes_all_else(tmp_path: Path) -> None:
    folder = tmp_path / "it's a project"
    (folder / ".airflow").mkdir(parents=True)
    made = airflow_home.write_shell_file(folder, {"TIDEGATE_LAKE": "/a lake"})
    shell = {
        "PATH": os.defpath,
        "AIRFLOW_HOME": "/home/somebody/airflow",
        "AIRFLOW_CONFIG": "/home/somebody/airflow.cfg",
        "AIRFLOW__CORE__PARALLELISM": "9",
    }
    command = ["sh", "-c", '. "$0" && env -0', str(made)]
    told = subprocess.run(command, env=shell, capture_output=True, text=True, check=True).stdout
    found = dict(line.split("=", 1) for line in told.split("\0") if "=" in line)
    expected = airflow_home.environment(folder, shell) | {"TIDEGATE_LAKE": "/a lake"}
    assert {name: found.get(name) for name in expected} == expected
    assert "AIRFLOW_CONFIG" not in found
    assert found["AIRFLOW__CORE__PARALLELISM"] == "9"
    assert stat.S_IMODE(made.stat().st_mode) == 0o600


def test_limits_and_connection_are_defaults_that_a_person_may_change(tmp_path: Path) -> None:
    made = airflow_home.environment(tmp_path, {})
    assert made["AIRFLOW__CORE__PARALLELISM"] == "4"
    assert made["AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION"] == "False"
    assert made["AIRFLOW__DAG_PROCESSOR__REFRESH_INTERVAL"] == "10"
    assert made["AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT"] == "60"
    assert json.loads(made["AIRFLOW_CONN_SPARK_DEFAULT"]) == {
        "conn_type": "spark",
        "host": "local[2]",
        "extra": {"deploy-mode": "client"},
    }
    chosen = {"AIRFLOW__CORE__PARALLELISM": "16", "AIRFLOW_CONN_SPARK_DEFAULT": "spark://cluster:7077"}
    assert chosen.items() <= airflow_home.environment(tmp_path, chosen).items()


def test_the_environments_commands_come_first_on_the_path_and_the_rest_is_passed_on(tmp_path: Path) -> None:
    made = airflow_home.environment(tmp_path, {"PATH": "/usr/bin", "LANG": "C.UTF-8"})
    assert made["PATH"].split(os.pathsep) == [str(Path(sys.executable).parent), "/usr/bin"]
    assert made["LANG"] == "C.UTF-8"


def test_the_database_is_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = _playing(monkeypatch, tmp_path)
    assert not airflow_home.is_ready(tmp_path)
    assert airflow_home.ensure(tmp_path)
    assert airflow_home.is_ready(tmp_path)
    assert not airflow_home.ensure(tmp_path)
    assert [call["command"][1:] for call in calls] == [["-m", "airflow", "db", "migrate"]]
    assert calls[0]["env"]["AIRFLOW_HOME"] == str(tmp_path / ".airflow")


def test_another_version_of_airflow_migrates_it_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = _playing(monkeypatch, tmp_path)
    airflow_home.ensure(tmp_path)
    monkeypatch.setattr(airflow_home.importlib.metadata, "version", lambda _: "99.0.0")
    assert airflow_home.ensure(tmp_path)
    assert len(calls) == 2


def test_a_lost_database_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _playing(monkeypatch, tmp_path)
    airflow_home.ensure(tmp_path)
    (tmp_path / ".airflow" / "airflow.db").unlink()
    assert not airflow_home.is_ready(tmp_path)


def test_a_failure_shows_the_end_of_the_log_and_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _playing(monkeypatch, tmp_path, code=1, says="\n".join(f"line {number}" for number in range(100)))
    with pytest.raises(SetupError, match="line 99") as caught:
        airflow_home.ensure(tmp_path)
    assert "line 50" not in caught.value.message
    assert not airflow_home.is_ready(tmp_path)


def test_the_mask_of_this_process_is_as_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _playing(monkeypatch, tmp_path)
    before = os.umask(0o022)
    try:
        airflow_home.ensure(tmp_path)
        assert os.umask(0o022) == 0o022
    finally:
        os.umask(before)


@pytest.mark.airflow
def test_nobody_else_can_read_what_airflow_writes(tmp_path: Path) -> None:
    (tmp_path / ".airflow").mkdir(mode=0o755)
    airflow_home.ensure(tmp_path)
    home = tmp_path / ".airflow"
    assert {"airflow.db", "airflow.cfg"} <= {path.name for path in home.iterdir()}
    open_to_others = [path for path in (home, *home.rglob("*")) if stat.S_IMODE(path.stat().st_mode) & 0o077]
    assert open_to_others == []
