"""What the light tasks send arrives at a real StatsD socket, through Airflow's own metrics."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from airflow.sdk import Context

pytestmark = pytest.mark.airflow

RUN = """
wrote("bronze", 10, 1)
wrote("silver", 7, 2)
report.flow("silver").batches[0] = BatchRecord(
    flow="silver", batch_id=2, app_id="silver", kind="append", read=9, written=7, quarantined=2, seconds=1.25
)
report.ended_at = now()
report.write(path)
"""


class StatsD:
    """A server that only listens."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(("127.0.0.1", 0))
        self._socket.settimeout(0.2)
        self.port = self._socket.getsockname()[1]

    def heard(self) -> dict[str, str]:
        """The last value of each metric of ours, with its kind."""
        found = {}
        while True:
            try:
                packet = self._socket.recv(65_536).decode()
            except TimeoutError:
                return found
            for line in packet.splitlines():
                name, _, value = line.partition(":")
                if ".tidegate." in name:
                    found[name] = value

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def statsd(monkeypatch: pytest.MonkeyPatch) -> Iterator[StatsD]:
    """Configured as in a deployment, and initialised as Airflow does it in each task's process."""
    from airflow.sdk.observability import stats
    from airflow.sdk.observability.metrics import stats_utils

    server = StatsD()
    for name, value in (("STATSD_ON", "True"), ("STATSD_HOST", "127.0.0.1"), ("STATSD_PORT", str(server.port))):
        monkeypatch.setenv(f"AIRFLOW__METRICS__{name}", value)
    stats.initialize(factory=stats_utils.get_stats_factory(), export_legacy_names=False)
    yield server
    monkeypatch.undo()
    stats.initialize(factory=stats_utils.get_stats_factory(), export_legacy_names=False)
    server.close()


def test_lag_rows_and_durations_of_a_run_arrive(runs: Any, places: Path, spark_submit: Any, statsd: StatsD) -> None:
    from dags.flights import dag

    folder = places / ".data/landing/flights"
    folder.mkdir()
    (folder / "2013-01-01.csv").write_text("year,month,day\n2013,1,1\n2013,1,2\n")
    spark_submit(RUN)
    runs.start(dag)
    heard = statsd.heard()
    prefix = "airflow.tidegate.flights"
    assert heard[f"{prefix}.bronze.lag_rows"] == "2|g"
    assert heard[f"{prefix}.bronze.lag_bytes"] == "33|g"
    counts = {name: heard[f"{prefix}.silver.rows_{name}"] for name in ("read", "written", "quarantined")}
    assert counts == {"read": "9|g", "written": "7|g", "quarantined": "2|g"}
    assert heard[f"{prefix}.silver.batch"] == "1250.000000|ms"
    assert not [name for name in heard if name.startswith(f"{prefix}.gold.rows")], "gold had no batch"


def test_open_alerts_of_every_flow_arrive(places: Path, monkeypatch: pytest.MonkeyPatch, statsd: StatsD) -> None:
    from dags.alerts import dag

    monkeypatch.setenv("TIDEGATE_KAFKA", "127.0.0.1:9")
    dag.get_task("look").execute(cast(Context, {}))
    heard = {name.removeprefix("airflow.tidegate."): value for name, value in statsd.heard().items()}
    assert heard["flights.bronze.open_alerts"] == "1|g"
    assert heard["flights.silver.open_alerts"] == "0|g"
    assert heard["clickstream.bronze.open_alerts"] == "1|g"
    assert heard["flights.silver.lag_rows"] == "0|g"
    assert "flights.bronze.lag_rows" not in heard, "nobody can tell"


def test_a_metric_that_cannot_be_sent_fails_no_task(statsd: StatsD, monkeypatch: pytest.MonkeyPatch) -> None:
    from airflow.sdk.observability import stats

    from tidegate.airflow import gauges

    def broken(*_: object, **__: object) -> None:
        raise ConnectionError("no route")

    monkeypatch.setattr(stats, "gauge", broken)
    gauges.tell_alerts("flights", ["silver"], [])
