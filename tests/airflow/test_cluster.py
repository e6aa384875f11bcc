"""The same DAG on a real Spark standalone cluster: a master and two workers, all on loopback.

Nightly, because it needs six JVMs. The settings and the command for a remote master are tested per merge in
tests/requests/test_launch.py and test_submit.py.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any, cast

import psutil
import pytest

from demo import checks, flights_feed, recompute
from devstack.ports import LOOPBACK, free_port, listens
from pipelines.flights import pipeline
from tests.waiting import TIMEOUT_SECONDS, wait_until
from tidegate.lake.layout import Layout
from tidegate.processes import end_group
from tidegate.runtime import job_environment

pytestmark = [pytest.mark.nightly, pytest.mark.airflow, pytest.mark.jvm, pytest.mark.timeout(1800)]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[str]:
    """The master's URL; each worker has one core and a folder under ``work``."""
    master, started = f"spark://{LOOPBACK}:{free_port()}", []

    def start(role: str, *arguments: str) -> None:
        command = [
            str(job_environment.spark_home() / "bin" / "spark-class"),
            f"org.apache.spark.deploy.{role}",
            *arguments,
        ]
        environment = {**os.environ, "SPARK_LOCAL_IP": LOOPBACK, "SPARK_DAEMON_MEMORY": "256m"}
        with (tmp_path / "cluster.log").open("ab") as log:
            started.append(
                subprocess.Popen(
                    [*command, "--host", LOOPBACK, "--webui-port", "0"],
                    env=environment,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )
            )

    try:
        start("master.Master", "--port", master.rpartition(":")[2])
        wait_until(lambda: listens(int(master.rpartition(":")[2])), "the master listens")
        for name in ("one", "two"):
            folder = tmp_path / "work" / name
            start("worker.Worker", master, "--cores", "1", "--memory", "1g", "--work-dir", str(folder))
        wait_until(
            lambda: (tmp_path / "cluster.log").read_text().count("Registering worker") == 2,
            "both workers are registered",
        )
        yield master
    finally:
        for process in started:
            end_group(process.pid, grace=TIMEOUT_SECONDS)
            process.wait()


def test_a_pipeline_runs_on_both_workers_of_a_cluster_and_listens_on_loopback_only(
    runs: Any, project_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cluster: str
) -> None:
    from dags.flights import dag

    connection = {"conn_type": "spark", "host": cluster, "extra": {"deploy-mode": "client"}}
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(connection))
    layout = Layout.local(project_dir / ".data/lake", project_dir / ".data/landing")
    for day in (1, 2):
        flights_feed.land_day(Path(layout.landing_root), date(2013, 1, day))
    run = runs.start(dag)
    assert runs.states(run) == dict.fromkeys(("plan", "run", "bronze", "silver", "gold"), "success")
    with contextlib.closing(recompute.flights(Path(layout.landing_root))) as answer:
        compared = [checks.balance(layout, pipeline), *checks.exactly_once(layout, pipeline, answer)]
    assert [check for check in compared if not check.passed] == []
    for name in ("one", "two"):
        (log,) = (tmp_path / "work" / name).glob("app-*/*/stderr")
        assert "Finished task" in log.read_text(), "the worker did some of the work"
    addresses = {
        cast(Any, connection.laddr).ip.removeprefix("::ffff:")
        for connection in psutil.net_connections("inet")
        if connection.status == psutil.CONN_LISTEN and connection.pid and _is_of(connection.pid, cluster)
    }
    assert addresses == {LOOPBACK}


def _is_of(pid: int, master: str) -> bool:
    """Whether a process is the master, a worker or an executor of the cluster."""
    with contextlib.suppress(psutil.Error):
        words = psutil.Process(pid).cmdline()
        return master in words or master.rpartition(":")[2] in words
    return False
