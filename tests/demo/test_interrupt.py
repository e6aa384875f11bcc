"""The demo stopped in the middle of a run: nothing is left running, and it can be told again.

`test_runs` shows the same of each part, with processes that take no time to start.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from demo import stage
from tests.patience import PATIENCE, until
from tidegate.embedded.processes import Process

pytestmark = [pytest.mark.nightly, pytest.mark.jvm, pytest.mark.kafka, pytest.mark.airflow, pytest.mark.chaos]
pytestmark.append(pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="looks for processes in /proc"))

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


class Demo:
    """A demo in a process of its own, whose Spark works."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        command = [sys.executable, "-m", "demo", "--folder", str(folder)]
        self.process = subprocess.Popen(
            command,
            cwd=PROJECT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            # Tests that run in the background of a shell would hand down that it is ignored.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # this process has one thread
        )
        reports = folder / "lake" / "reports"
        until(lambda: self.process.poll() is not None or any(reports.glob("flights/*/*/report.json")), "Spark starts")
        assert self.process.poll() is None, f"the demo ended by itself:\n{self.process.communicate()[0]}"

    def left(self) -> set[int]:
        """Processes that know the demo's lake: the demo's Airflow and Spark."""
        return processes_about(f"TIDEGATE_LAKE={self.folder / 'lake'}")


@pytest.fixture
def demo(tmp_path: Path) -> Iterator[Demo]:
    started = Demo(tmp_path / "demo")
    assert started.left(), "the processes of the run can be seen"
    yield started
    started.process.kill()
    started.process.wait()


def test_ctrl_c_ends_with_one_line_and_leaves_nothing_behind(demo: Demo) -> None:
    demo.process.send_signal(signal.SIGINT)
    told, _ = demo.process.communicate(timeout=PATIENCE)
    assert demo.process.returncode == 130
    assert "Stopped" in told.strip().splitlines()[-1]
    assert "Traceback" not in told
    assert not demo.left()
    assert not (demo.folder / "broker" / "broker.pid").exists()


def test_after_a_sigkill_spark_ends_too_and_the_next_demo_starts_afresh(demo: Demo) -> None:
    demo.process.kill()
    demo.process.wait()
    until(lambda: not demo.left(), "Airflow and Spark end")
    orphan = Process.read(demo.folder / "broker" / "broker.pid")
    assert orphan is not None and orphan.alive, "nobody stopped the broker yet"
    with stage.set_up(PROJECT, demo.folder) as fresh:
        assert not orphan.alive
        assert not fresh.layout.lake.exists()
        assert not (fresh.environment.landing / "flights").exists()
