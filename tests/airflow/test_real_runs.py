"""Both DAGs through Airflow with real Spark, real files and a real broker, with a refused flow and its clearing."""

from __future__ import annotations

import json
import shutil
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from demo import clicks_feed, flights_feed
from tidegate.embedded.broker import Broker
from tidegate.embedded.jars import class_path
from tidegate.layout import Layout, run_key
from tidegate.report import RunReport

PROJECT = Path(__file__).parents[2]

pytestmark = [pytest.mark.airflow, pytest.mark.jvm, pytest.mark.timeout(600)]

GREEN = dict.fromkeys(("plan", "run", "bronze", "silver", "gold"), "success")
IDLE = {"plan": "success"} | dict.fromkeys(("run", "bronze", "silver", "gold"), "skipped")


def _layout(project: Path) -> Layout:
    return Layout(project / ".data/lake", project / ".data/landing")


def _rows(project: Path, table: str) -> int:
    from deltalake import DeltaTable

    return int(DeltaTable(str(_layout(project).table(table))).count())


def test_flights_is_refused_mended_cleared_and_idle(runs: Any, places: Path, database: Path) -> None:
    from dags.flights import dag

    suite = places / "expectations/flights/silver.json"
    allowed = suite.read_text()
    strict = json.loads(allowed)
    origin = next(e for e in strict["expectations"] if e["kwargs"].get("column") == "origin")
    origin["kwargs"]["value_set"] = ["CDG"]
    suite.write_text(json.dumps(strict))
    landed = sum(flights_feed.land_day(places / ".data/landing", date(2013, 1, day)).rows for day in (1, 2))

    run = runs.start(dag)
    assert runs.states(run) == GREEN | {"silver": "failed", "gold": "upstream_failed"}
    assert _rows(places, "bronze.flights") == landed
    assert not _layout(places).table("silver.flights").exists() or _rows(places, "silver.flights") == 0
    assert runs.events("bronze.flights")[-1]["rows"] == landed
    told = {name: len(runs.events(name)) for name in ("silver.flights", "gold.daily_delay")}
    refused = runs.xcom(run, "run", "attempt")

    waiting = runs.start(dag)
    assert runs.states(waiting) == IDLE, "the same suite would say the same"
    assert "refused" in runs.xcom(waiting, "plan", "reason")

    suite.write_text(allowed)
    assert runs.clear(dag, run, "silver") == ["gold", "run", "silver"]
    run = runs.go_on(dag, run)
    assert runs.states(run) == GREEN
    report = _report(places, run, runs)
    assert report.attempt != refused
    assert report.flow("bronze").state == "idle"
    silver = report.flow("silver")
    assert silver.total("read") == landed
    assert _rows(places, "silver.flights") == silver.total("written") > 0
    assert {name: len(runs.events(name)) - before for name, before in told.items()} == {
        "silver.flights": 1,
        "gold.daily_delay": 1,
    }
    assert runs.events("gold.daily_delay")[-1]["rows"] == _rows(places, "gold.daily_delay")

    assert runs.states(runs.start(dag)) == IDLE
    assert _quoting(database, _tail_number(places)) == [], "Airflow's database and logs hold no value of the data"


def _tail_number(project: Path) -> str:
    """A value of a row that is in the landing zone and in silver."""
    from deltalake import DeltaTable

    silver = DeltaTable(str(_layout(project).table("silver.flights"))).to_pyarrow_table(columns=["tailnum"])
    tail = next(str(value) for value in silver["tailnum"].to_pylist() if value)
    assert _quoting(project / ".data/landing", tail) != []
    return tail


def _quoting(folder: Path, value: str) -> list[Path]:
    """The files below a folder in which a text stands."""
    return [path for path in folder.rglob("*") if path.is_file() and value.encode() in path.read_bytes()]


@pytest.mark.kafka
def test_clickstream_runs_and_is_idle_afterwards(
    runs: Any, places: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dags.clickstream import dag

    with Broker(tmp_path / "broker", class_path=class_path(PROJECT, "broker")) as broker:
        monkeypatch.setenv("TIDEGATE_KAFKA", broker.bootstrap)
        broker.create_topic(clicks_feed.TOPIC, clicks_feed.PARTITIONS)
        messages = clicks_feed.wave_one(views=300)
        clicks_feed.produce(broker.bootstrap, messages)
        run = runs.start(dag)
        assert runs.states(run) == GREEN
        assert _rows(places, "bronze.clicks") == len(messages)
        assert runs.events("bronze.clicks")[-1]["rows"] == len(messages)
        assert _report(places, run, runs).flow("silver").total("quarantined") > 0
        assert runs.states(runs.start(dag)) == IDLE


def test_a_suite_that_is_not_there_ends_the_application_and_nothing_is_tried_again(runs: Any, places: Path) -> None:
    from dags.flights import dag

    shutil.rmtree(places / "expectations/flights")
    flights_feed.land_day(places / ".data/landing", date(2013, 1, 1))
    run = runs.start(dag)
    assert runs.states(run)["run"] == "failed"
    error = _report(places, run, runs).error
    assert error is not None
    assert not error["transient"]
    attempts = list(_layout(places).reports("flights").glob(f"{run_key(run.run_id)}/*/report.json"))
    assert len(attempts) == 1


def _report(project: Path, run: Any, runs: Any) -> RunReport:
    attempt = runs.xcom(run, "run", "attempt")
    report = RunReport.read(_layout(project).report(run.dag_id, run_key(run.run_id), attempt))
    assert report is not None
    return report
