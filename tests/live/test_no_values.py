"""No data value gets into Airflow: not into its database, its logs, or the question of a schema approval."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from airflow_client.client.api.dag_run_api import DagRunApi

from tests.live.project import CANARY, CANARY_FIELD
from tests.waiting import wait_until

if TYPE_CHECKING:
    from tests.live_airflow import Live

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.live,
    pytest.mark.jvm,
    pytest.mark.kafka,
    pytest.mark.airflow,
    pytest.mark.timeout(2400),
]


def contains_any(text: str) -> bool:
    return any(canary.lower() in text.lower() for canary in (CANARY, CANARY_FIELD))


def tables_containing(database: Path) -> set[str]:
    """The tables of Airflow's database that contain a canary."""
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as db:
        names = [name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        assert db.execute("SELECT count(*) FROM xcom WHERE dag_id = 'people'").fetchone()[0] > 0
        return {name for name in names if any(contains_any(str(row)) for row in db.execute(f'SELECT * FROM "{name}"'))}


def question_text(database: Path) -> str:
    """The text of the only question that waits for a person."""
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as db:
        ((body,),) = db.execute("SELECT body FROM hitl_detail").fetchall()
        return str(body)


def files_containing(home: Path) -> list[Path]:
    """Files that contain a canary; files that Airflow moves or removes meanwhile are ignored."""
    matches = []
    for folder, _, names in os.walk(home):
        for path in (Path(folder, name) for name in names):
            with suppress(FileNotFoundError):
                if path.is_file() and contains_any(path.read_bytes().decode("latin-1")):
                    matches.append(path)
    return matches


def test_canaries_in_values_and_in_field_names_stay_out_of_airflow(steady: Live, people_run: str) -> None:
    states = steady.end(people_run, "people")
    assert states == {"plan": "success", "run": "success", "bronze": "success", "silver": "failed"}
    assert files_containing(Path(steady.layout.landing("people"))) != [], "the search finds canaries"

    wait_until(lambda: len(steady.runs("schema_approval")) == 1, "a run of schema_approval")
    (question,) = DagRunApi(steady.client).get_dag_runs("schema_approval").dag_runs
    wait_until(
        lambda: steady.states(question.dag_run_id, "schema_approval")["ask"] == "awaiting_input",
        "it waits for an answer",
    )
    assert set(question.conf or {}) == {"pipeline", "flow", "schema_change_id"}
    home = steady.project / ".airflow"
    assert "- new field name#" in question_text(home / "airflow.db")

    logs = {path.parent.name for path in (home / "logs").rglob("*.log") if "dag_id=people" in str(path)}
    assert logs == {f"task_id={task}" for task in states}, "logs of every task"
    assert files_containing(home) == []
    assert tables_containing(home / "airflow.db") == set()
