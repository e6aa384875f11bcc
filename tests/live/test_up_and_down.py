"""``make up``, ``make status`` and ``make down`` with broker, feeder, Airflow and real Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import psutil
import pytest

from devstack.airflow_server import PORT
from devstack.ports import LOOPBACK
from tests.live_airflow import accessible_to_others

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
