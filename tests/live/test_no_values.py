"""No value of the data gets into Airflow: its database, its logs, and the question that it asks a person."""

from __future__ import annotations

import json
import os
import sqlite3
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from airflow_client.client.api.dag_run_api import DagRunApi

from tests.live_airflow import until

if TYPE_CHECKING:
    from tests.live_airflow import Live

pytestmark = [pytest.mark.live, pytest.mark.jvm, pytest.mark.airflow, pytest.mark.timeout(600)]

CANARY = "canary4711"
PERSON = "Canaria Smith"
"""A canary in the name of a field."""
RECORDS = [
    {"id": f"{CANARY}-good", "age": 41, "at": "2026-01-01"},
    {"id": f"{CANARY}-type", "age": CANARY, "at": "2026-01-01"},
    {"id": f"{CANARY}-more", "age": 42, "at": "2026-01-01", PERSON: CANARY},
]


def shown(text: str) -> bool:
    return any(canary.lower() in text.lower() for canary in (CANARY, PERSON))


def tables_quoting(database: Path) -> set[str]:
    """The tables of Airflow in which a canary stands."""
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as db:
        names = [name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        assert db.execute("SELECT count(*) FROM xcom WHERE dag_id = 'people'").fetchone()[0] > 0
        return {name for name in names if any(shown(str(row)) for row in db.execute(f'SELECT * FROM "{name}"'))}


def files_quoting(home: Path) -> list[Path]:
    """Files with a canary; one that Airflow moves or removes meanwhile is none."""
    found = []
    for place, _, names in os.walk(home):
        for path in (Path(place, name) for name in names):
            with suppress(FileNotFoundError):
                if path.is_file() and shown(path.read_bytes().decode("latin-1")):
                    found.append(path)
    return found


def test_canaries_in_values_and_in_a_fields_name_stay_out_of_airflow(live: Live) -> None:
    landed = "".join(f"{json.dumps(record)}\n" for record in RECORDS)
    (live.layout.landing("people") / "people.json").write_text(landed)
    run = live.trigger("people")
    assert live.end(run, "people") == {"plan": "success", "run": "success", "bronze": "success", "silver": "failed"}

    until(lambda: len(live.runs("schema_approval")) == 1, 60)
    (asked,) = DagRunApi(live.client).get_dag_runs("schema_approval").dag_runs
    until(lambda: live.states(asked.dag_run_id, "schema_approval")["ask"] == "awaiting_input", 120)
    (change,) = asked.conf["changes"]
    assert change.startswith("new field name#")

    home = live.project / ".airflow"
    logs = [path for path in (home / "logs").rglob("*.log") if "dag_id=people" in str(path)]
    assert len(logs) == 4, "every task's"
    assert files_quoting(home) == []
    assert tables_quoting(home / "airflow.db") == set()
