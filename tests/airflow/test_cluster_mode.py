"""A DAG whose driver YARN starts on a node: a resource manager and two node managers, all on loopback.

Where `make cluster-servers` has put no servers of YARN into the cache, nothing is run.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from demo import flights_feed
from tests.airflow.later_tries import LaterTries, mistakes
from tests.yarn import NODES, Yarn, yarn
from tidegate.airflow import yarn as resource_manager
from tidegate.airflow.cluster import FORGOTTEN, End
from tidegate.lake.layout import Layout

pytestmark = [pytest.mark.nightly, pytest.mark.airflow, pytest.mark.jvm, pytest.mark.timeout(1800)]


def driver_logs(cluster: Yarn) -> list[str]:
    """What the drivers of all applications have printed on their nodes."""
    texts = [path.read_text() for node in NODES for path in (cluster.folder / node / "log").glob("*/*/std*")]
    return [text for text in texts if "tidegate bronze: started" in text]


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Yarn]:
    """A YARN to which the connection of Airflow submits drivers."""
    with yarn(tmp_path / "cluster") as started:
        # A node has little memory.
        for name, value in {**started.variables, "TIDEGATE_DRIVER_MEMORY": "1g"}.items():
            monkeypatch.setenv(name, value)
        connection = {
            "conn_type": "spark",
            "host": "yarn",
            "extra": {"deploy-mode": "cluster", "yarn_resourcemanager_webapp_address": started.web},
        }
        monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(connection))
        yield started


def test_a_driver_runs_on_a_node_and_its_result_is_that_of_the_tasks(
    runs: Any, project_dir: Path, cluster: Yarn
) -> None:
    from dags.flights import dag

    layout = Layout.local(project_dir / ".data/lake", project_dir / ".data/landing")
    for day in (1, 2):
        flights_feed.land_day(Path(layout.landing_root), date(2013, 1, day))
    run = runs.start(dag)
    assert runs.states(run) == dict.fromkeys(("plan", "run", "bronze", "silver", "gold"), "success")
    assert list(cluster.applications().values()) == ["FINISHED"]
    (log,) = driver_logs(cluster)
    assert "tidegate gold: done" in log
    assert mistakes(layout) == []
    # One that the resource manager has forgotten, or never knew.
    manager = resource_manager.Yarn(cluster.web)
    assert manager.end("application_1_0001") == End(state=FORGOTTEN)
    manager.kill("application_1_0001")


def test_a_later_try_waits_for_the_driver_of_an_earlier_one_unless_it_was_cancelled_or_cleared(
    project_dir: Path, cluster: Yarn
) -> None:
    tries = LaterTries(project_dir, lambda: list(cluster.applications()))
    tries.expect_to_wait_for_the_driver()
    assert list(cluster.applications().values()) == ["FINISHED"]
    tries.expect_to_replace_a_driver_that_is_cancelled_or_cleared()
    cluster.wait_until_idle()
    assert sorted(cluster.applications().values()) == ["FINISHED", "FINISHED", "FINISHED", "KILLED"]
    assert mistakes(tries.layout) == []
