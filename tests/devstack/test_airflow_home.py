"""The project's own Airflow home."""

from __future__ import annotations

import importlib.metadata
import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from devstack import airflow_home
from tidegate.errors import SetupError


def _fake_airflow(
    monkeypatch: pytest.MonkeyPatch, home: Path, *, code: int = 0, output: str = ""
) -> list[dict[str, Any]]:
    """Replace the `airflow` command; returns the list of its calls."""
    calls: list[dict[str, Any]] = []

    def run(command: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
        calls.append({"command": command, **options})
        if code == 0:
            (home / ".airflow" / "airflow.db").write_text("a database")
        return subprocess.CompletedProcess(command, code, stdout=output, stderr="")

    monkeypatch.setattr(subprocess, "run", run)
    return calls


def test_home_dags_and_plugins_are_the_projects_own_whatever_the_shell_sets(tmp_path: Path) -> None:
    shell = {
        "AIRFLOW_HOME": "/home/somebody/airflow",
        "AIRFLOW_CONFIG": "/home/somebody/airflow.cfg",
        "AIRFLOW__CORE__DAGS_FOLDER": "/dags",
        "AIRFLOW__CORE__PLUGINS_FOLDER": "/plugins",
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": "postgresql://production",
    }
    environment = airflow_home.environment(tmp_path, shell)
    assert environment["AIRFLOW_HOME"] == str(tmp_path / ".airflow")
    assert environment["AIRFLOW__CORE__DAGS_FOLDER"] == str(tmp_path / "dags")
    assert environment["AIRFLOW__CORE__PLUGINS_FOLDER"] == str(tmp_path / "plugins")
    assert environment["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"] == f"sqlite:///{tmp_path}/.airflow/airflow.db?timeout=30"
    assert "AIRFLOW_CONFIG" not in environment


def test_it_listens_on_loopback_only_whatever_the_shell_sets(tmp_path: Path) -> None:
    assert airflow_home.environment(tmp_path, {"AIRFLOW__API__HOST": "0.0.0.0"})["AIRFLOW__API__HOST"] == "127.0.0.1"


def test_a_shell_that_sources_the_file_keeps_its_limits_and_its_connection(tmp_path: Path) -> None:
    folder = tmp_path / "it's a project"
    (folder / ".airflow").mkdir(parents=True)
    file = airflow_home.write_shell_file(folder, {"TIDEGATE_LAKE": "/a lake"})
    shell = {
        "PATH": os.defpath,
        "AIRFLOW_HOME": "/home/somebody/airflow",
        "AIRFLOW_CONFIG": "/home/somebody/airflow.cfg",
        "AIRFLOW__CORE__PARALLELISM": "9",
    }
    command = ["sh", "-c", '. "$0" && env -0', str(file)]
    output = subprocess.run(command, env=shell, capture_output=True, text=True, check=True).stdout
    variables = dict(line.split("=", 1) for line in output.split("\0") if "=" in line)
    expected = airflow_home.environment(folder, shell) | {"TIDEGATE_LAKE": "/a lake"}
    assert {name: variables.get(name) for name in expected} == expected
    assert "AIRFLOW_CONFIG" not in variables
    assert variables["AIRFLOW__CORE__PARALLELISM"] == "9"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_limits_and_connection_are_defaults_that_the_environment_overrides(tmp_path: Path) -> None:
    environment = airflow_home.environment(tmp_path, {})
    assert environment["AIRFLOW__CORE__PARALLELISM"] == "4"
    assert environment["AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION"] == "False"
    assert environment["AIRFLOW__DAG_PROCESSOR__REFRESH_INTERVAL"] == "10"
    assert environment["AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT"] == "120"
    assert json.loads(environment["AIRFLOW_CONN_SPARK_DEFAULT"]) == {
        "conn_type": "spark",
        "host": "local[2]",
        "extra": {"deploy-mode": "client"},
    }
    chosen = {"AIRFLOW__CORE__PARALLELISM": "16", "AIRFLOW_CONN_SPARK_DEFAULT": "spark://cluster:7077"}
    assert chosen.items() <= airflow_home.environment(tmp_path, chosen).items()


def test_the_commands_of_this_python_come_first_on_the_path_and_other_variables_are_kept(tmp_path: Path) -> None:
    environment = airflow_home.environment(tmp_path, {"PATH": "/usr/bin", "LANG": "C.UTF-8"})
    assert environment["PATH"].split(os.pathsep) == [str(Path(sys.executable).parent), "/usr/bin"]
    assert environment["LANG"] == "C.UTF-8"


def test_the_database_is_created_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = _fake_airflow(monkeypatch, tmp_path)
    assert not airflow_home.is_ready(tmp_path)
    assert airflow_home.ensure(tmp_path)
    assert airflow_home.is_ready(tmp_path)
    assert not airflow_home.ensure(tmp_path)
    assert [call["command"][1:] for call in calls] == [["-m", "airflow", "db", "migrate"]]
    assert calls[0]["env"]["AIRFLOW_HOME"] == str(tmp_path / ".airflow")


def test_another_version_of_airflow_migrates_the_database_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = _fake_airflow(monkeypatch, tmp_path)
    airflow_home.ensure(tmp_path)
    monkeypatch.setattr(importlib.metadata, "version", lambda _: "99.0.0")
    assert airflow_home.ensure(tmp_path)
    assert len(calls) == 2


def test_a_home_without_its_database_is_not_ready(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _fake_airflow(monkeypatch, tmp_path)
    airflow_home.ensure(tmp_path)
    (tmp_path / ".airflow" / "airflow.db").unlink()
    assert not airflow_home.is_ready(tmp_path)


def test_a_failed_migration_shows_the_end_of_its_log_and_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _fake_airflow(monkeypatch, tmp_path, code=1, output="\n".join(f"line {number}" for number in range(100)))
    with pytest.raises(SetupError, match="line 99") as caught:
        airflow_home.ensure(tmp_path)
    assert "line 50" not in caught.value.message
    assert not airflow_home.is_ready(tmp_path)


def test_the_umask_of_this_process_is_restored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _fake_airflow(monkeypatch, tmp_path)
    before = os.umask(0o022)
    try:
        airflow_home.ensure(tmp_path)
        assert os.umask(0o022) == 0o022
    finally:
        os.umask(before)


@pytest.mark.airflow
def test_the_files_of_airflow_are_readable_only_by_their_owner(tmp_path: Path) -> None:
    (tmp_path / ".airflow").mkdir(mode=0o755)
    airflow_home.ensure(tmp_path)
    home = tmp_path / ".airflow"
    assert {"airflow.db", "airflow.cfg"} <= {path.name for path in home.iterdir()}
    open_to_others = [path for path in (home, *home.rglob("*")) if stat.S_IMODE(path.stat().st_mode) & 0o077]
    assert open_to_others == []


@pytest.mark.slow
def test_a_component_waits_for_the_lock_of_another_one(tmp_path: Path) -> None:
    import sqlalchemy

    (tmp_path / ".airflow").mkdir()
    url = airflow_home.environment(tmp_path)["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"]
    with sqlalchemy.create_engine(url).connect() as connection:
        assert connection.exec_driver_sql("PRAGMA busy_timeout").scalar() == 30_000
