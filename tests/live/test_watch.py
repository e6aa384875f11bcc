"""Parts of a live Airflow that end: ``make up`` starts them again, and ``make down`` or Ctrl-C stops all."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from functools import partial
from typing import TYPE_CHECKING

import psutil
import pytest

from devstack.airflow_server import AirflowServer
from tests.docs import guides
from tests.live.console import Console
from tests.waiting import TIMEOUT_SECONDS, wait_until

if TYPE_CHECKING:
    from tests.live_airflow import Live

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.live,
    pytest.mark.jvm,
    pytest.mark.kafka,
    pytest.mark.airflow,
    pytest.mark.timeout(2400),
]

PARTS = ("api-server", "scheduler", "dag-processor", "triggerer", "feeder", "broker")
KILLED = ("feeder", "api-server", "scheduler", "broker")


def test_up_restarts_killed_components_and_down_stops_all(steady: Live) -> None:
    console = steady.console
    for name in KILLED:
        if console.is_running(name):
            console.kill(name)
    still_running = {name: console.leader(name).pid for name in PARTS if name not in KILLED}
    for name in PARTS[:4]:
        wait_until(partial(console.is_running, name), f"the watch starts {name} again")
    log = (console.folder / ".airflow/services/watch.log").read_text()
    assert all(f"{name} had ended and was started again" in log for name in KILLED if name in PARTS[:4])
    status = console.shell("make status")
    assert re.search(r"Feeder +does not run", status)
    assert re.search(r"Kafka broker +does not run", status)

    console.shell("make up")
    assert all(console.is_running(name) for name in PARTS)
    assert {name: console.leader(name).pid for name in still_running} == still_running, (
        "running components are not restarted"
    )
    wait_until(steady.server.healthy, "all components are healthy")

    unrelated = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], cwd=guides.ROOT)
    try:
        console.follow("make down")
        assert console.processes() == []
        assert unrelated.poll() is None
    finally:
        unrelated.kill()
        unrelated.wait()
    assert "Nothing ran." in console.shell("make down")


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
