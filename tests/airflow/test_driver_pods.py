"""A DAG whose driver a real Kubernetes starts in a pod, and whose task waits without a slot.

Where `make cluster-servers` has put no servers of Kubernetes into the cache, nothing is run.
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
from tests.kubernetes import NAMESPACE, kubernetes
from tidegate.lake.layout import Layout

pytestmark = [pytest.mark.nightly, pytest.mark.airflow, pytest.mark.jvm, pytest.mark.timeout(1800)]


def test_one_pod_is_a_run_and_its_result_is_that_of_the_tasks(
    runs: Any, project_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dags.flights import dag

    layout = Layout.local(project_dir / ".data/lake", project_dir / ".data/landing")
    for day in (1, 2):
        flights_feed.land_day(Path(layout.landing_root), date(2013, 1, day))
    with kubernetes(tmp_path / "cluster") as cluster:
        for name, value in cluster.variables_of_pods.items():
            monkeypatch.setenv(name, value)
        extra = {"deploy-mode": "cluster", "namespace": NAMESPACE}
        connection = {"conn_type": "spark", "host": f"k8s://{cluster.url}", "extra": extra}
        monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(connection))
        run = runs.start(dag)
        assert runs.states(run) == dict.fromkeys(("plan", "run", "bronze", "silver", "gold"), "success")
        assert list(cluster.drivers().values()) == ["Succeeded"]
        (pod,) = cluster.pods()
        assert "tidegate gold: done" in cluster.output_of(pod)
    with contextlib.closing(recompute.flights(Path(layout.landing_root))) as answer:
        compared = [checks.balance(layout, pipeline), *checks.exactly_once(layout, pipeline, answer)]
    assert [check for check in compared if not check.passed] == []
