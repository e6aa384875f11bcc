"""``make up``, ``make status`` and ``make down`` with broker, feeder, Airflow and real Spark."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import psutil
import pytest

from devstack.airflow_server import PORT, AirflowServer
from devstack.ports import LOOPBACK
from tests.docs import guides
from tests.live.console import Console
from tests.live_airflow import accessible_to_others
from tests.waiting import TIMEOUT_SECONDS, wait_until

if TYPE_CHECKING:
    from tests.live.conftest import Refused
    from tests.live_airflow import Live

pytestmark = [pytest.mark.live, pytest.mark.jvm, pytest.mark.kafka, pytest.mark.airflow, pytest.mark.timeout(2400)]

PARTS = ("api-server", "scheduler", "dag-processor", "triggerer", "feeder", "broker")


def test_up_prints_urls_and_reports_a_dag_file_that_does_not_load(live: Live) -> None:
    output = live.first_output
    assert f"Port {PORT} is in use by another program" in output
    assert f"{live.server.url}  (log in as admin, password {live.server.password})" in output
    assert "dags/broken.py does not load: ValueError: no such table" in output
    paused = live.dags()
    assert paused.keys() >= {"clickstream", "delays", "flights", "payments", "quarantine", "schema_approval", "alerts"}
    assert not any(paused[name] for name in ("flights", "quarantine", "schema_approval", "alerts"))


def test_all_components_listen_on_loopback_and_files_are_private(live: Live, refused: Refused) -> None:
    pids = {process.pid for process in live.console.processes()}
    listening = {
        cast(Any, connection.laddr).ip.removeprefix("::ffff:")
        for connection in psutil.net_connections("inet")
        if connection.status == psutil.CONN_LISTEN and connection.pid in pids
    }
    assert listening == {LOOPBACK}
    assert accessible_to_others(*(live.project / name for name in (".airflow", ".data"))) == []


@pytest.mark.parametrize(
    "killed",
    [
        pytest.param(("feeder", "triggerer"), id="two"),
        pytest.param(("feeder", "api-server", "scheduler", "broker"), id="most"),
    ],
)
@pytest.mark.nightly
def test_up_restarts_killed_components_and_down_stops_all(live: Live, killed: tuple[str, ...]) -> None:
    console = live.console
    for name in killed:
        if console.is_running(name):
            console.kill(name)
    still_running = {name: console.leader(name).pid for name in PARTS if name not in killed}
    for name in PARTS[:4]:
        wait_until(partial(console.is_running, name), f"the watch starts {name} again")
    log = (console.folder / ".airflow/services/watch.log").read_text()
    assert all(f"{name} had ended and was started again" in log for name in killed if name in PARTS[:4])
    status = console.shell("make status")
    assert re.search(r"Feeder +does not run", status)
    assert bool(re.search(r"Kafka broker +does not run", status)) == ("broker" in killed)

    console.shell("make up")
    assert all(console.is_running(name) for name in PARTS)
    assert {name: console.leader(name).pid for name in still_running} == still_running, (
        "running components are not restarted"
    )
    wait_until(live.server.healthy, "all components are healthy")

    unrelated = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], cwd=guides.ROOT)
    try:
        console.follow("make down")
        assert console.processes() == []
        assert unrelated.poll() is None
    finally:
        unrelated.kill()
        unrelated.wait()
    assert "Nothing ran." in console.shell("make down")


@pytest.fixture
def console(tmp_path: Path) -> Iterator[Console]:
    """A shell in a project in which nothing is running."""
    folder = tmp_path / "project"
    console = Console(folder, guides.scaffold(folder))
    yield console
    console.remove()


@pytest.mark.nightly
def test_ctrl_c_during_the_start_stops_all_components(console: Console) -> None:
    starting = console.begin("make up")
    wait_until(lambda: bool(AirflowServer(console.folder).running()), "a component of Airflow runs")
    # A terminal sends SIGINT to the whole foreground process group.
    psutil.Process(starting.pid).children()[0].send_signal(signal.SIGINT)
    output, _ = starting.communicate(timeout=TIMEOUT_SECONDS)
    assert starting.returncode == 130
    assert "Stopped, with the services that this command had started" in output
    assert "Traceback" not in output
    assert console.processes() == []
