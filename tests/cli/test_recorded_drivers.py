"""A driver that outlives its task asks the record of its run before it does anything. Without a JVM: none gets that far."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pipelines.flights import pipeline
from tidegate.checkpoints import recorded_attempt
from tidegate.checkpoints.recorded_attempt import Cancellation
from tidegate.environment import Environment
from tidegate.lake.layout import Layout
from tidegate.lake.place import AttemptPlace, RunPlace
from tidegate.reports.report import RunReport
from tidegate.requests.launch import arguments
from tidegate.requests.request import RunRequest
from tidegate.spark import run_pipeline

pytestmark = pytest.mark.slow


@pytest.fixture
def request_of_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunRequest:
    """A request in a lake of its own; the process is in a container of YARN."""
    monkeypatch.setenv("TIDEGATE_LAKE", str(tmp_path / "lake"))
    monkeypatch.setenv("TIDEGATE_LANDING", str(tmp_path / "landing"))
    monkeypatch.setenv("CONTAINER_ID", "container_e17_1410901177871_0003_01_000001")
    monkeypatch.setattr(recorded_attempt, "_check", None)
    request = RunRequest.check(pipeline, "manual__1", {})
    request.write(Layout.of(Environment.read()))
    return request


def files(lake: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in lake.rglob("*") if path.is_file()}


def test_a_driver_whose_attempt_is_not_the_recorded_one_ends_before_it_does_anything(
    request_of_run: RunRequest, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    request, layout = request_of_run, Layout.of(Environment.read())
    place = RunPlace(layout, request.dag_id, request.run_key)
    recorded_attempt.claim(place, recorded_attempt.begun("a2", request.request_id), None)
    before = files(tmp_path)
    assert run_pipeline.main(arguments(request, request.request_id, "a1", recorded=True)) == os.EX_TEMPFAIL
    assert "attempt a1 ends: attempt a2 is recorded for the run" in caplog.text
    assert files(tmp_path) == before


def test_the_second_driver_of_one_attempt_ends_before_it_does_anything(
    request_of_run: RunRequest, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    request, layout = request_of_run, Layout.of(Environment.read())
    place = RunPlace(layout, request.dag_id, request.run_key)
    recorded_attempt.claim(place, recorded_attempt.begun("a1", request.request_id), None)
    recorded_attempt.name(place, "a1", "application_1410901177871_0002")
    before = files(tmp_path)
    assert run_pipeline.main(arguments(request, request.request_id, "a1", recorded=True)) == os.EX_TEMPFAIL
    assert "another driver is recorded" in caplog.text
    assert files(tmp_path) == before


def test_a_driver_of_a_run_that_was_cancelled_meanwhile_reports_it_and_runs_no_flow(request_of_run: RunRequest) -> None:
    request, layout = request_of_run, Layout.of(Environment.read())
    place = RunPlace(layout, request.dag_id, request.run_key)
    recorded_attempt.claim(place, recorded_attempt.begun("a1", request.request_id), None)
    recorded_attempt.cancel(place, Cancellation(by="ada", at="2026-01-05T00:00:00Z", reason="the wrong day"))
    assert run_pipeline.main(arguments(request, request.request_id, "a1", recorded=True)) == 143
    report = RunReport.read(AttemptPlace(layout, request.dag_id, request.run_key, "a1").report)
    assert report is not None and report.error is not None and report.ended_at is not None
    assert "cancelled by ada at 2026-01-05T00:00:00Z: the wrong day" in report.error.message
    assert (report.error.transient, report.error.exit_code, report.flows) == (False, 143, [])
