"""No value of the data gets into Airflow: its database, its logs, and the question that it asks a person."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from airflow_client.client.api.dag_run_api import DagRunApi

from tests.live.project import CANARY, CANARY_FIELD
from tests.patience import until

if TYPE_CHECKING:
    from tests.live_airflow import Live

pytestmark = [pytest.mark.live, pytest.mark.jvm, pytest.mark.kafka, pytest.mark.airflow, pytest.mark.timeout(2400)]


def quotes(text: str) -> bool:
    return any(canary.lower() in text.lower() for canary in (CANARY, CANARY_FIELD))


def tables_quoting(database: Path) -> set[str]:
    """The tables of Airflow in which a canary stands."""
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as db:
        names = [name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        assert db.execute("SELECT count(*) FROM xcom WHERE dag_id = 'people'").fetchone()[0] > 0
        return {name for name in names if any(quotes(str(row)) for row in db.execute(f'SELECT * FROM "{name}"'))}


def files_quoting(home: Path) -> list[Path]:
    """Files with a canary; one that Airflow moves or removes meanwhile is none."""
    found = []
    for place, _, names in os.walk(home):
        for path in (Path(place, name) for name in names):
            with suppress(FileNotFoundError):
                if path.is_file() and quotes(path.read_bytes().decode("latin-1")):
                    found.append(path)
    return found


def test_canaries_in_values_and_in_a_fields_name_stay_out_of_airflow(live: Live, people_run: str) -> None:
    states = live.end(people_run, "people")
    assert states == {"plan": "success", "run": "success", "bronze": "success", "silver": "failed"}
    assert files_quoting(live.layout.landing("people")) != [], "a canary that is there is found"

    until(lambda: len(live.runs("schema_approval")) == 1, "a run that asks a person")
    (question,) = DagRunApi(live.client).get_dag_runs("schema_approval").dag_runs
    until(lambda: live.states(question.dag_run_id, "schema_approval")["ask"] == "awaiting_input", "it waits for one")
    (change,) = question.conf["changes"]
    assert change.startswith("new field name#")

    home = live.project / ".airflow"
    logs = {path.parent.name for path in (home / "logs").rglob("*.log") if "dag_id=people" in str(path)}
    assert logs == {f"task_id={task}" for task in states}, "every task's"
    assert files_quoting(home) == []
    assert tables_quoting(home / "airflow.db") == set()
