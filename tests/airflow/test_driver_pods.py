"""A DAG whose driver a real Kubernetes starts in a pod, and whose task waits without a slot.

Where `make cluster-servers` has put no servers of Kubernetes into the cache, nothing is run.
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
from tests.kubernetes import NAMESPACE, Kubernetes, kubernetes
from tests.waiting import wait_until
from tidegate.lake.layout import Layout

pytestmark = [pytest.mark.nightly, pytest.mark.airflow, pytest.mark.jvm, pytest.mark.timeout(1800)]


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Kubernetes]:
    """A Kubernetes on which the connection of Airflow lets drivers start."""
    with kubernetes(tmp_path / "cluster") as started:
        for name, value in started.variables_of_pods.items():
            monkeypatch.setenv(name, value)
        extra = {"deploy-mode": "cluster", "namespace": NAMESPACE}
        connection = {"conn_type": "spark", "host": f"k8s://{started.url}", "extra": extra}
        monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(connection))
        yield started


def test_one_pod_is_a_run_and_its_result_is_that_of_the_tasks(
    runs: Any, project_dir: Path, cluster: Kubernetes
) -> None:
    from dags.flights import dag

    layout = Layout.local(project_dir / ".data/lake", project_dir / ".data/landing")
    for day in (1, 2):
        flights_feed.land_day(Path(layout.landing_root), date(2013, 1, day))
    run = runs.start(dag)
    assert runs.states(run) == dict.fromkeys(("plan", "run", "bronze", "silver", "gold"), "success")
    assert list(cluster.drivers().values()) == ["Succeeded"]
    (pod,) = cluster.pods()
    assert "tidegate gold: done" in cluster.output_of(pod)
    assert mistakes(layout) == []


def test_a_later_try_waits_for_the_pod_of_an_earlier_one_unless_it_was_cancelled_or_cleared(
    project_dir: Path, cluster: Kubernetes
) -> None:
    tries = LaterTries(project_dir, lambda: list(cluster.drivers()))
    tries.expect_to_wait_for_the_driver()
    assert list(cluster.drivers().values()) == ["Succeeded"]
    tries.expect_to_replace_a_driver_that_is_cancelled_or_cleared()
    # The one that was killed is deleted.
    wait_until(
        lambda: sorted(cluster.drivers().values()) == ["Failed", "Succeeded", "Succeeded"], "three pods have ended"
    )
    assert len(list((cluster.folder / "pods").iterdir())) == 4
    assert mistakes(tries.layout) == []


def test_a_pod_goes_on_after_its_task_was_marked_and_keeps_out_the_next_run(
    project_dir: Path, cluster: Kubernetes
) -> None:
    tries = LaterTries(project_dir, lambda: list(cluster.drivers()))
    tries.expect_the_driver_of_a_marked_task_to_keep_out_others()
    wait_until(lambda: sorted(cluster.drivers().values()) == ["Failed", "Failed", "Succeeded"], "three pods have ended")
    assert mistakes(tries.layout) == []
