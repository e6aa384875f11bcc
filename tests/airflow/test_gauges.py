"""Metrics arrive at a StatsD socket and at an OpenTelemetry collector, through Airflow's metrics."""

from __future__ import annotations

import atexit
import dataclasses
import gzip
import socket
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any, cast

import pytest
from airflow.sdk import BaseOperator, Context

from tests.airflow.in_process import InProcessRun
from tests.airflow.lake import Lake
from tests.readings import reading_of
from tidegate.lake.layout import Layout, run_key
from tidegate.lake.place import PipelinePlace
from tidegate.ops import metrics
from tidegate.project import registry
from tidegate.reports.report import FlowReport

pytestmark = pytest.mark.airflow


def send_metrics_of_a_run(lake: Lake) -> None:
    """Execute `plan` and the flows' tasks of a run: a file waits, silver had a batch, and another attempt had one as well."""
    from dags.flights import dag

    lake.layout.open()
    (lake.layout.landing_root / "flights").make_folder()
    lake.land("flights/2013-01-01.csv", "year,month,day\n2013,1,1\n2013,1,2\n")
    run = InProcessRun(dag)
    assert run.execute("plan") == "success"
    counts: dict[str, Any] = {"read": 9, "written": 7, "quarantined": 2, "seconds": 1.25, "target_version": 2}
    batches = [lake.batch("flights", "silver", 2, run_id=run.run_id, **counts)]
    flows = [
        FlowReport(flow="bronze", target="bronze.flights", checkpoint_version=1, state="idle"),
        FlowReport(flow="silver", target="silver.flights", checkpoint_version=1, state="done", batches=batches),
        FlowReport(flow="gold", target="gold.daily_delay", checkpoint_version=1, state="idle"),
    ]
    lake.report(run.run_id, "a1", flows=flows)
    run.xcoms["run", "attempt"] = "a1"
    _progress(lake, 1)
    state = {"state_rows": 7, "state_bytes": 4_096, "state_memory_bytes": 8_192, "watermark_lag_seconds": 600.5}
    _progress(lake, 2, trigger_ms=1500, offsets_behind=30, **state)
    _progress(lake, 3, attempt="another", offsets_behind=99)
    assert [run.execute(flow.flow) for flow in flows] == ["skipped", "success", "skipped"]


def _progress(lake: Lake, batch_id: int, **changed: Any) -> None:
    """Record Spark's progress of one batch of silver."""
    moment = datetime.now(UTC)
    progress = metrics.QueryProgress(
        flow="silver",
        app_id="silver",
        batch_id=batch_id,
        run_key=run_key("manual__1"),
        attempt="a1",
        mode="incremental",
        started_at=moment + timedelta(seconds=batch_id),
        input_rows=18,
        input_rows_per_second=None,
        processed_rows_per_second=None,
        trigger_ms=1000,
        duration_ms={},
        start_offset=None,
        end_offset=None,
        offsets_behind=40,
        recorded_at=moment,
    )
    metrics.append(PipelinePlace(lake.layout, "flights").ops("progress"), [dataclasses.replace(progress, **changed)])


@pytest.fixture
def lake(project_dir: Path) -> Lake:
    return Lake(Layout.local(project_dir / ".data/lake", project_dir / ".data/landing"))


class StatsD:
    """A UDP server that receives metrics."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(("127.0.0.1", 0))
        self._socket.settimeout(0.2)
        self.port = self._socket.getsockname()[1]

    def values(self) -> dict[str, str]:
        """The last value of each metric of Tidegate, with its StatsD type."""
        metrics_by_name: dict[str, Any] = {}
        while True:
            try:
                packet = self._socket.recv(65_536).decode()
            except TimeoutError:
                return metrics_by_name
            for line in packet.splitlines():
                name, _, value = line.partition(":")
                if ".tidegate." in name:
                    metrics_by_name[name] = value

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def statsd(monkeypatch: pytest.MonkeyPatch) -> Iterator[StatsD]:
    """A server that Airflow's metrics are configured for, initialised as Airflow does it in each task's process."""
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


def test_lag_rows_and_durations_of_a_run_arrive(lake: Lake, statsd: StatsD) -> None:
    send_metrics_of_a_run(lake)
    values = statsd.values()
    prefix = "airflow.tidegate.flights"
    assert values[f"{prefix}.bronze.lag_rows"] == "2|g"
    assert values[f"{prefix}.bronze.lag_bytes"] == "33|g"
    counts = {name: values[f"{prefix}.silver.rows_{name}"] for name in ("read", "written", "quarantined")}
    assert counts == {"read": "9|g", "written": "7|g", "quarantined": "2|g"}
    assert values[f"{prefix}.silver.batch"] == "1250.000000|ms"
    # 9 rows of the ledger in the 2.5 s of Spark's progress.
    assert values[f"{prefix}.silver.rows_per_second"] == "3.6|g"
    assert values[f"{prefix}.silver.offsets_behind"] == "30|g"
    names = ("state_rows", "state_bytes", "state_memory_bytes", "watermark_lag_seconds")
    state = [values[f"{prefix}.silver.{name}"] for name in names]
    assert state == ["7|g", "4096|g", "8192|g", "600.5|g"]
    assert f"{prefix}.bronze.offsets_behind" not in values, "no progress is recorded"
    assert not [name for name in values if name.startswith(f"{prefix}.gold.rows")], "gold had no batch"


def test_open_quarantine_entries_and_the_age_of_the_data_arrive(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, statsd: StatsD
) -> None:
    from dags.alerts import dag

    monkeypatch.setenv("TIDEGATE_KAFKA", "127.0.0.1:9")
    lake.layout.open()
    lake.quarantine(3, "required(origin)")
    lake.quarantine(2, "required(origin)", state="waived")
    cast(BaseOperator, dag.get_task("evaluate")).execute(cast(Context, {}))
    values = {name.removeprefix("airflow.tidegate."): value for name, value in statsd.values().items()}
    assert values["flights.silver.quarantine_open"] == "3|g"
    since = datetime.now(UTC) - datetime(2026, 1, 5, 10, tzinfo=UTC)
    assert float(values["flights.silver.quarantine_age_hours"].removesuffix("|g")) == pytest.approx(
        since / timedelta(hours=1), abs=0.1
    )
    assert values["flights.gold.quarantine_open"] == "0|g"
    assert values["flights.gold.quarantine_age_hours"] == "0|g"


def test_unknown_values_are_not_sent(statsd: StatsD) -> None:
    from tidegate.airflow import gauges

    now = datetime(2026, 3, 1, 12, tzinfo=UTC)
    pipeline = registry.load("flights")
    unknown = reading_of(pipeline, pipeline.flow("bronze"))
    known = reading_of(pipeline, pipeline.flow("silver"), newest_event=now - timedelta(hours=6))
    gauges.send_ages([unknown, known], now)
    assert statsd.values() == {"airflow.tidegate.flights.silver.event_age_hours": "6.0|g"}


class Collector:
    """An OpenTelemetry collector, as far as it receives metrics over HTTP."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        collector = self

        class Take(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                packed = self.headers.get("Content-Encoding") == "gzip"
                assert (self.path, self.headers["Content-Type"]) == ("/v1/metrics", "application/x-protobuf")
                collector.bodies.append(gzip.decompress(body) if packed else body)
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                """Nothing."""

        self._server = HTTPServer(("127.0.0.1", 0), Take)
        self.address = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def values(self) -> dict[str, float]:
        """The last value of each metric of Tidegate; for a timer the number of its values."""
        from opentelemetry.metrics import get_meter_provider
        from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

        # As Airflow does at the end of each task's process.
        get_meter_provider().force_flush()  # type: ignore[attr-defined]  # defined by the SDK
        metrics_by_name: dict[str, float] = {}
        for body in self.bodies:
            for resource in ExportMetricsServiceRequest.FromString(body).resource_metrics:
                for metric in (metric for scope in resource.scope_metrics for metric in scope.metrics):
                    for point in metric.gauge.data_points:
                        metrics_by_name[metric.name] = (
                            point.as_double if point.HasField("as_double") else float(point.as_int)
                        )
                    for spread in metric.exponential_histogram.data_points:
                        metrics_by_name[metric.name] = float(spread.count)
        return {name: value for name, value in metrics_by_name.items() if ".tidegate." in name}

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    """A collector that Airflow is configured for by OpenTelemetry's environment variables, as its documentation says."""
    from airflow.sdk._shared.observability.metrics import otel_logger
    from airflow.sdk.observability import stats
    from airflow.sdk.observability.metrics import stats_utils
    from opentelemetry.metrics import get_meter_provider

    server = Collector()
    monkeypatch.setenv("AIRFLOW__METRICS__OTEL_ON", "True")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", server.address)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")
    stats.initialize(factory=stats_utils.get_stats_factory(), export_legacy_names=False)
    yield server
    monkeypatch.undo()
    get_meter_provider().shutdown()  # type: ignore[attr-defined]  # defined by the SDK
    # Otherwise Airflow flushes at the exit of this process, when the collector has stopped.
    atexit.unregister(otel_logger.flush_otel_metrics)
    stats.initialize(factory=stats_utils.get_stats_factory(), export_legacy_names=False)
    server.close()


def test_all_metrics_arrive_at_an_opentelemetry_collector(lake: Lake, collector: Collector) -> None:
    from dags.alerts import dag as alerts

    cast(BaseOperator, alerts.get_task("evaluate")).execute(cast(Context, {}))
    send_metrics_of_a_run(lake)
    values = {name.removeprefix("airflow.tidegate.flights."): value for name, value in collector.values().items()}
    expected = {
        "bronze.lag_rows": 2.0,
        "silver.rows_read": 9.0,
        "silver.rows_quarantined": 2.0,
        "silver.rows_per_second": 3.6,
        "silver.offsets_behind": 30.0,
        "silver.state_rows": 7.0,
        "silver.watermark_lag_seconds": 600.5,
        "silver.batch": 1.0,
        "silver.quarantine_open": 0.0,
        "silver.open_alerts": 0.0,
    }
    assert {name: values.get(name) for name in expected} == expected


def test_open_alerts_of_every_flow_arrive(project_dir: Path, monkeypatch: pytest.MonkeyPatch, statsd: StatsD) -> None:
    from dags.alerts import dag

    monkeypatch.setenv("TIDEGATE_KAFKA", "127.0.0.1:9")
    (project_dir / ".data/landing/flights").write_text("a file in place of the folder")
    cast(BaseOperator, dag.get_task("evaluate")).execute(cast(Context, {}))
    values = {name.removeprefix("airflow.tidegate."): value for name, value in statsd.values().items()}
    assert values["flights.bronze.open_alerts"] == "1|g"
    assert values["flights.silver.open_alerts"] == "0|g"
    assert values["clickstream.bronze.open_alerts"] == "1|g"
    assert values["flights.silver.lag_rows"] == "0|g"
    assert "flights.bronze.lag_rows" not in values, "unknown"


def test_a_metric_that_cannot_be_sent_fails_no_task(statsd: StatsD, monkeypatch: pytest.MonkeyPatch) -> None:
    from airflow.sdk.observability import stats

    from tidegate.airflow import gauges

    def broken(*_: object, **__: object) -> None:
        raise ConnectionError("no route")

    monkeypatch.setattr(stats, "gauge", broken)
    gauges.send_open_alerts("flights", ["silver"], [])
