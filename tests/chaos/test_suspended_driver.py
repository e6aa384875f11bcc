"""A driver that was suspended for longer than Spark waits for its own heartbeat ends with exit code 56 when it is resumed."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import replace
from pathlib import Path

import pytest

from tests.chaos.sample import StartState, expect_everything_once, landed
from tests.waiting import TIMEOUT_SECONDS, wait_until
from tidegate.checkpoints.lease import holder
from tidegate.processes import end_group
from tidegate.reports import run_result
from tidegate.requests import launch

pytestmark = [pytest.mark.jvm, pytest.mark.chaos, pytest.mark.nightly]

APPLICATION = """
import sys, time
from pathlib import Path

sys.path.insert(0, {source!r})
from tidegate.spark.run_pipeline import exit_now, main
from tests.fault_points import fault

def hold(job):
    Path({marker!r}).touch()
    time.sleep(120)

with fault("before:write_target:bronze", hold):
    code = main()
exit_now(code)
"""
HEARTBEAT = {
    "spark.executor.heartbeatInterval": "1s",
    "spark.executor.heartbeat.maxFailures": "2",
    "spark.network.timeout": "5s",
    "spark.network.timeoutInterval": "500ms",
    "spark.storage.blockManagerHeartbeatTimeoutMs": "5s",
}
"""Seconds instead of the minutes of the defaults."""


def test_a_driver_that_was_suspended_keeps_its_leases_ends_with_code_56_and_the_next_run_completes_the_work(
    start_state: StartState, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deployment = start_state(landed)
    marker, conf = tmp_path / "reached", tmp_path / "conf"
    conf.mkdir()
    (conf / "spark-defaults.conf").write_text("".join(f"{name} {value}\n" for name, value in HEARTBEAT.items()))
    monkeypatch.setenv("SPARK_CONF_DIR", str(conf))
    application = tmp_path / "run_pipeline.py"
    monkeypatch.setattr(launch, "application", lambda: application)
    application.write_text(APPLICATION.format(source=str(deployment.source), marker=str(marker)))
    request = replace(deployment.request(flows=["bronze"]), small=True)
    log = tmp_path / "driver.log"
    driver = launch.start(deployment.environment, request, request.write(deployment.layout), "a1", log)
    try:
        wait_until(lambda: marker.exists() or driver.poll() is not None, "the driver writes its target")
        assert driver.poll() is None, log.read_text()[-3000:]
        # Whether the missed heartbeat or the next one is noticed first is a matter of threads.
        for _ in range(12):
            if driver.poll() is None:
                os.killpg(driver.pid, signal.SIGSTOP)
                assert holder(deployment.layout, "table:bronze.flights") is not None
                time.sleep(7)
                os.killpg(driver.pid, signal.SIGCONT)
                time.sleep(1)
        returned = driver.wait(TIMEOUT_SECONDS)
    finally:
        end_group(driver.pid, grace=0)

    assert returned == 56, log.read_text()[-3000:]
    assert "the process stood still" in run_result.describe_exit(returned)
    assert holder(deployment.layout, "table:bronze.flights") is None
    assert [flow.error for flow in deployment.run().flows] == [None] * 3
    expect_everything_once(deployment)
    deployment.expect_a_balanced_ledger()
