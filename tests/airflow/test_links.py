"""Links that Airflow shows on tasks: stored when a task ends, whatever its colour."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tidegate.layout import Layout

pytestmark = pytest.mark.airflow


def test_tasks_lead_to_their_reports_and_to_the_spark_history(
    runs: Any, database: Path, places: Path, spark_submit: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dags.flights import dag

    monkeypatch.setenv("TIDEGATE_SPARK_HISTORY", "http://spark:18080/")
    landing = places / ".data/landing"
    (landing / "flights").mkdir()
    (landing / "flights/2013-01-01.csv").write_text("year,month,day\n2013,1,1\n")
    site = Layout(places / ".data/lake", landing).docs("flights")
    site.mkdir(parents=True)
    (site / "index.html").write_text("reports")
    spark_submit("report.application = 'local-17'; report.flows[1].state = 'refused'; report.write(path)")
    run = runs.start(dag)
    assert runs.states(run)["silver"] == "failed"
    assert runs.xcom(run, "run", "_link_HistoryLink") == "http://spark:18080/history/local-17/jobs/"
    for task in ("bronze", "silver"):
        reports = "/plugin/tidegate/tidegate/pipelines/flights/docs/index.html"
        assert runs.xcom(run, task, "_link_ReportsLink") == reports


def test_the_scheduler_knows_the_links_of_a_dag(database: Path) -> None:
    from airflow.serialization.serialized_objects import DagSerialization

    from dags.flights import dag

    known = DagSerialization.deserialize_dag(DagSerialization.serialize_dag(dag))
    assert known.get_task("silver").extra_links == ["Data quality reports"]
    assert known.get_task("run").extra_links == ["Spark history"]
