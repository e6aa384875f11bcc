"""``make up``, ``make status``, ``make down`` in a project of their own: with broker, feeder, Airflow and real Spark."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from tests.docs import guides
from tests.live.console import Console
from tests.live_airflow import open_to_others
from tests.patience import PATIENCE, until
from tidegate.embedded.airflow_server import PORT, AirflowServer
from tidegate.embedded.ports import LOOPBACK

if TYPE_CHECKING:
    from tests.live.conftest import Refused
    from tests.live_airflow import Live

pytestmark = [pytest.mark.live, pytest.mark.jvm, pytest.mark.kafka, pytest.mark.airflow, pytest.mark.timeout(2400)]

PARTS = ("api-server", "scheduler", "dag-processor", "triggerer", "feeder", "broker")


def test_up_says_where_everything_is_and_waits_for_no_file_that_does_not_load(live: Live) -> None:
    output = live.first_output
    assert f"Port {PORT} is taken by another program" in output
    assert f"{live.server.url}  (log in as admin, password {live.server.password})" in output
    assert "dags/broken.py does not load: ValueError: no such table" in output
    paused = live.dags()
    assert paused.keys() >= {"clickstream", "flights", "quarantine", "schema_approval", "alerts"}
    assert not any(paused[name] for name in ("flights", "quarantine", "schema_approval", "alerts"))


def test_nothing_listens_beyond_this_machine_and_nobody_else_reads_what_is_written(
    live: Live, refused: Refused
) -> None:
    ours = {process.pid for process in live.console.processes()}
    listening = {
        connection.laddr.ip.removeprefix("::ffff:")
        for connection in psutil.net_connections("inet")
        if connection.status == psutil.CONN_LISTEN and connection.pid in ours
    }
    assert listening == {LOOPBACK}
    assert open_to_others(*(live.project / name for name in (".airflow", ".data"))) == []


@pytest.mark.parametrize(
    "killed",
    [
        pytest.param(("feeder", "triggerer"), id="two"),
        pytest.param(("feeder", "api-server", "scheduler", "broker"), id="most", marks=pytest.mark.nightly),
    ],
)
def test_what_was_killed_is_started_again_and_down_stops_all_of_it(live: Live, killed: tuple[str, ...]) -> None:
    console = live.console
    for name in killed:
        if console.is_running(name):
            console.kill(name)
    untouched = {name: console.leader(name).pid for name in PARTS if name not in killed}
    asleep = console.shell("make status")
    parts_of_airflow = [name for name in PARTS[:4] if name in killed]
    assert f"does not run: {', '.join(parts_of_airflow)};" in asleep
    assert re.search(r"Feeder +does not run", asleep)
    assert bool(re.search(r"Kafka broker +does not run", asleep)) == ("broker" in killed)

    console.shell("make up")
    assert all(console.is_running(name) for name in PARTS)
    assert {name: console.leader(name).pid for name in untouched} == untouched, "what still ran is left alone"
    until(live.server.healthy, "all parts say that they work")

    stranger = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], cwd=guides.ROOT)
    try:
        console.follow("make down")
        assert console.processes() == []
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()
    assert "Nothing ran." in console.shell("make down")


@pytest.fixture
def console(tmp_path: Path) -> Iterator[Console]:
    """In a project in which nothing runs yet."""
    folder = tmp_path / "project"
    opened = Console(folder, guides.scaffold(folder))
    yield opened
    opened.remove()


@pytest.mark.nightly
def test_ctrl_c_during_the_start_stops_what_was_started(console: Console) -> None:
    starting = console.begin("make up")
    until(lambda: bool(AirflowServer(console.folder).running()), "a component of Airflow runs")
    # A terminal sends it to the whole group.
    psutil.Process(starting.pid).children()[0].send_signal(signal.SIGINT)
    output, _ = starting.communicate(timeout=PATIENCE)
    assert starting.returncode == 130
    assert "what was started here is stopped too" in output
    assert "Traceback" not in output
    assert console.processes() == []
