"""What the server says before anything runs; a live one is tested in tests/live."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from tidegate.embedded.airflow_server import AirflowServer, NoAnswerError
from tidegate.errors import SetupError


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


def test_the_password_is_made_once_for_its_owner_alone(tmp_path: Path) -> None:
    (tmp_path / ".airflow").mkdir()
    server = AirflowServer(tmp_path)
    server._make_password()
    first = server.password
    server._make_password()
    assert server.password == first
    assert len(first) >= 12
    assert stat.S_IMODE((tmp_path / ".airflow/passwords.json").stat().st_mode) == 0o600


def test_stopping_what_does_not_run_stops_nothing(tmp_path: Path) -> None:
    assert AirflowServer(tmp_path).stop() == 0
