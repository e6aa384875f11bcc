"""Ctrl-C in the middle of a run: one line, no traceback, and nothing is left running."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = [pytest.mark.jvm, pytest.mark.kafka, pytest.mark.airflow, pytest.mark.chaos]

PROJECT = Path(__file__).parents[2]


def processes_about(text: str) -> set[int]:
    """Processes whose command line or environment names something."""
    found = set()
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            told = (entry / "cmdline").read_bytes() + (entry / "environ").read_bytes()
        except OSError:
            continue
        if text.encode() in told:
            found.add(int(entry.name))
    return found


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="looks for processes in /proc")
def test_ctrl_c_while_spark_works_leaves_nothing_behind(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "demo", "--folder", str(tmp_path)]
    demo = subprocess.Popen(command, cwd=PROJECT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    lake = f"TIDEGATE_LAKE={tmp_path / 'lake'}"
    try:
        until = time.monotonic() + 120
        while not list((tmp_path / "lake" / "reports").glob("flights/*/*/report.json")):
            assert demo.poll() is None, "the demo ended by itself"
            assert time.monotonic() < until, "Spark never started"
            time.sleep(0.2)
        assert processes_about(lake), "the processes of the run can be seen"
        demo.send_signal(signal.SIGINT)
        told, _ = demo.communicate(timeout=60)
    finally:
        demo.kill()
    assert demo.returncode == 130
    assert "Stopped" in told.strip().splitlines()[-1]
    assert "Traceback" not in told
    assert not processes_about(lake)
    assert not (tmp_path / "broker" / "broker.pid").exists()
