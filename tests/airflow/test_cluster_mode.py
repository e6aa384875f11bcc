"""A DAG whose driver YARN starts on a node: a resource manager and two node managers, all on loopback.

Where `make cluster-servers` has put no servers of YARN into the cache, nothing is run.
"""

from __future__ import annotations

import contextlib
import json
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from demo import checks, flights_feed, recompute
from pipelines.flights import pipeline
from tests.yarn import NODES, Yarn, yarn
from tidegate.lake.layout import Layout

pytestmark = [pytest.mark.nightly, pytest.mark.airflow, pytest.mark.jvm, pytest.mark.timeout(1800)]


def driver_logs(cluster: Yarn) -> list[str]:
    """What the drivers of all applications have printed on their nodes."""
    texts = [path.read_text() for node in NODES for path in (cluster.folder / node / "log").glob("*/*/std*")]
    return [text for text in texts if "tidegate bronze: started" in text]


def test_a_driver_runs_on_a_node_and_its_result_is_that_of_the_tasks(
    runs: Any, project_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dags.flights import dag

    layout = Layout.local(project_dir / ".data/lake", project_dir / ".data/landing")
    for day in (1, 2):
        flights_feed.land_day(Path(layout.landing_root), date(2013, 1, day))
    with yarn(tmp_path / "cluster") as cluster:
        # A node has little memory.
        for name, value in {**cluster.variables, "TIDEGATE_DRIVER_MEMORY": "1g"}.items():
            monkeypatch.setenv(name, value)
        connection = {
            "conn_type": "spark",
            "host": "yarn",
            "extra": {"deploy-mode": "cluster", "yarn_resourcemanager_webapp_address": cluster.web},
        }
        monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(connection))
        run = runs.start(dag)
        assert runs.states(run) == dict.fromkeys(("plan", "run", "bronze", "silver", "gold"), "success")
        assert list(cluster.applications().values()) == ["FINISHED"]
        (log,) = driver_logs(cluster)
        assert "tidegate gold: done" in log
    with contextlib.closing(recompute.flights(Path(layout.landing_root))) as answer:
        compared = [checks.balance(layout, pipeline), *checks.exactly_once(layout, pipeline, answer)]
    assert [check for check in compared if not check.passed] == []
