"""A DAG whose driver YARN starts on a node: a resource manager and two node managers, all on loopback.

Where `make cluster-servers` has put no servers of YARN into the cache, nothing is run.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from demo import checks, flights_feed, recompute
from pipelines.flights import pipeline
from tests.airflow.in_process import InProcessRun
from tests.cli.project import COMMAND
from tests.live.project import HOLD
from tests.waiting import wait_until
from tests.yarn import NODES, Yarn, yarn
from tidegate.airflow import yarn as resource_manager
from tidegate.airflow.cluster import FORGOTTEN, End
from tidegate.lake.layout import Layout, run_key
from tidegate.lake.place import AttemptPlace
from tidegate.reports.report import RunReport

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


def mistakes(layout: Layout) -> list[Any]:
    """What is wrong in the tables, by an independent computation."""
    with contextlib.closing(recompute.flights(Path(layout.landing_root))) as answer:
        compared = [checks.balance(layout, pipeline), *checks.exactly_once(layout, pipeline, answer)]
    return [check for check in compared if not check.passed]


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
    from dags.flights import dag

    layout = Layout.local(project_dir / ".data/lake", project_dir / ".data/landing")
    hold = project_dir / "hold"
    with (project_dir / "spark_jobs/flights.py").open("a") as transforms:
        transforms.write(HOLD)

    def begin(day: int) -> InProcessRun:
        flights_feed.land_day(Path(layout.landing_root), date(2013, 1, day))
        run = InProcessRun(dag, run_id=f"manual__{day}")
        assert run.execute("plan") == "success"
        hold.touch()
        assert run.execute("run") == "deferred"
        return run

    def report(run: InProcessRun) -> RunReport | None:
        place = AttemptPlace(layout, "flights", run_key(run.run_id), run.xcom("run", "attempt"))
        return RunReport.read(place.report)

    def is_held(run: InProcessRun) -> bool:
        known = report(run)
        return known is not None and any(flow.state == "running" for flow in known.flows if flow.flow == "silver")

    # The process of the first try ends here: nothing of it is used again.
    run = begin(1)
    attempt = run.xcom("run", "attempt")
    assert run.execute("run") == "deferred"
    assert (run.xcom("run", "attempt"), len(cluster.applications())) == (attempt, 1)
    hold.unlink()
    assert run.resume("run") == "success"
    assert list(cluster.applications().values()) == ["FINISHED"]
    assert [run.execute(flow) for flow in ("bronze", "silver", "gold")] == ["success"] * 3

    # A person cancels; the driver sees it in the step that it is in.
    run = begin(2)
    wait_until(lambda: is_held(run), "silver transforms")
    words = [str(COMMAND), "cancel", run.run_id, "--reason", "the wrong day"]
    output = subprocess.run(words, capture_output=True, text=True, check=True, cwd=project_dir).stdout
    assert "ends before its next write: cancelled by " in output
    hold.unlink()
    assert run.resume("run") == "up for retry"
    ended = report(run)
    assert ended is not None and ended.error is not None
    assert (ended.error.kind, ended.error.transient) == ("RunCancelledError", False)
    assert "the wrong day" in run.message and "Airflow tries again" not in run.message
    assert [flow.state for flow in ended.flows] == ["done", "failed", "waiting"]
    refused = subprocess.run(words, capture_output=True, text=True, check=False, cwd=project_dir)
    assert refused.returncode == os.EX_USAGE and "there is nothing to cancel" in refused.stderr

    # Its task is cleared, twice: an application that has ended is replaced, one that is alive is killed.
    hold.touch()
    for clears in (1, 2):
        run.max_tries = 3 + clears
        assert run.execute("run") == "deferred"
    hold.unlink()
    assert run.resume("run") == "success"
    cluster.wait_until_idle()
    assert sorted(cluster.applications().values()) == ["FINISHED", "FINISHED", "FINISHED", "KILLED"]
    assert mistakes(layout) == []
