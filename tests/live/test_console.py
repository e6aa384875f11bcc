"""``make up``, ``make status``, ``make down`` in a project of their own: with broker, feeder, Airflow and real Spark."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.live_airflow import open_to_others, until
from tidegate.embedded.airflow_server import PORT, AirflowServer
from tidegate.embedded.ports import LOOPBACK, is_free
from tidegate.embedded.processes import Process

pytestmark = [pytest.mark.live, pytest.mark.jvm, pytest.mark.kafka, pytest.mark.airflow, pytest.mark.timeout(300)]

PROJECT = Path(__file__).parents[2]


class Project:
    """A clone of the project, as far as the console is concerned, and the commands in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in ("expectations", "spark_jobs", "pipelines", "dags"):
            shutil.copytree(PROJECT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        for name in ("jars", "jars.lock.json"):
            (folder / name).symlink_to(PROJECT / name)
        self.airflow = AirflowServer(folder)

    def begin(self, command: str) -> subprocess.Popen[str]:
        words = [sys.executable, "-m", "demo.console", command, "--project", str(self.folder)]
        environment = {
            name: value for name, value in os.environ.items() if not name.startswith(("AIRFLOW", "TIDEGATE"))
        }
        return subprocess.Popen(
            words,
            cwd=PROJECT,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            # Tests that run in the background of a shell would hand down that it is ignored.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # this process has one thread
        )

    def run(self, command: str) -> str:
        begun = self.begin(command)
        told, _ = begun.communicate(timeout=200)
        assert begun.returncode == 0, told
        return told

    def processes(self) -> list[psutil.Process]:
        """All that runs in or for this project, Spark applications included."""
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                known = " ".join(process.cmdline()) + process.environ().get("TIDEGATE_PROJECT", "") + process.cwd()
                if str(self.folder) in known and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
        return found

    def leader(self, name: str) -> psutil.Process:
        folder = {"broker": ".data/broker", "feeder": ".data/feeder"}.get(name, ".airflow/services")
        found = Process.read(self.folder / folder / f"{name}.pid")
        assert found is not None
        return psutil.Process(found.pid)


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    made = Project(tmp_path / "project")
    yield made
    with contextlib.suppress(subprocess.TimeoutExpired):
        made.begin("down").communicate(timeout=60)
    for process in made.processes():
        process.kill()


def test_up_is_ready_in_time_on_loopback_only_comes_back_after_kills_and_goes_down_whole(project: Project) -> None:
    (project.folder / "dags/broken.py").write_text("from airflow.sdk import dag\n\nraise ValueError('no such table')\n")
    with contextlib.ExitStack() as taken:
        if is_free(PORT):
            taken.enter_context(socket.create_server((LOOPBACK, PORT)))
        begun = time.monotonic()
        told = project.run("up")
    assert time.monotonic() - begun < 90
    assert f"Port {PORT} is taken by another program" in told
    url = project.airflow.url
    assert f"{url}  (log in as admin, password {project.airflow.password})" in told
    paused = project.airflow.dags()
    assert set(paused) == {"clickstream", "flights", "quarantine", "schema_approval", "alerts"}
    assert not any(paused.values())
    assert "dags/broken.py does not load: ValueError: no such table" in told, "and nobody waits for it"
    # Both pipelines run at once: what the feeder landed is there.
    until(lambda: any("SparkSubmit" in word for process in project.processes() for word in _words(process)), 60)

    ours = {process.pid for process in project.processes()}
    listening = {
        connection.laddr.ip.removeprefix("::ffff:")
        for connection in psutil.net_connections("inet")
        if connection.status == psutil.CONN_LISTEN and connection.pid in ours
    }
    assert listening == {LOOPBACK}
    assert open_to_others(*(project.folder / name for name in (".airflow", ".data"))) == []

    parts = ("api-server", "scheduler", "dag-processor", "triggerer", "feeder", "broker")
    untouched = project.leader("triggerer").pid
    for name in ("api-server", "scheduler", "feeder", "broker"):
        killed = project.leader(name)
        killed.send_signal(signal.SIGKILL)
        psutil.wait_procs([killed], timeout=10)
    asleep = project.run("status")
    assert re.search(r"does not run: (api-server, scheduler|scheduler, api-server)", asleep)
    assert "Kafka broker  does not run" in asleep and "Feeder        does not run" in asleep
    project.run("up")
    assert all(project.leader(name).is_running() for name in parts)
    assert project.leader("triggerer").pid == untouched, "what still ran is left alone"
    assert project.airflow.healthy()

    stranger = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], cwd=PROJECT)
    assert "Stopped: Airflow, feeder, Kafka broker." in project.run("down")
    assert project.processes() == []
    assert stranger.poll() is None
    stranger.kill()
    stranger.wait()
    assert "Nothing ran." in project.run("down")


def test_ctrl_c_during_the_start_stops_what_was_started(project: Project) -> None:
    starting = project.begin("up")
    until(lambda: bool(project.airflow.running()), 60)
    starting.send_signal(signal.SIGINT)
    told, _ = starting.communicate(timeout=60)
    assert starting.returncode == 130
    assert "what was started here is stopped too" in told
    assert "Traceback" not in told
    assert project.processes() == []


def _words(process: psutil.Process) -> list[str]:
    with contextlib.suppress(psutil.Error):
        return process.cmdline()
    return []
