"""When the demo is stopped during a run, no process remains, and the demo can run again.

`test_runs` tests the same for each part, with processes that start quickly: each night one of the two ends.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from demo import services
from tests.airflow_database import migrated_home
from tests.slices import of_week
from tests.waiting import TIMEOUT_SECONDS, wait_until
from tidegate.processes import Process

pytestmark = [pytest.mark.nightly, pytest.mark.jvm, pytest.mark.kafka, pytest.mark.airflow, pytest.mark.chaos]
pytestmark.append(pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="looks for processes in /proc"))

PROJECT = Path(__file__).parents[2]


def processes_about(text: str) -> set[int]:
    """The ids of processes whose command line or environment contains a text."""
    pids = set()
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            content = (entry / "cmdline").read_bytes() + (entry / "environ").read_bytes()
        except OSError:
            continue
        if text.encode() in content:
            pids.add(int(entry.name))
    return pids


class Demo:
    """A demo in a process of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        command = [sys.executable, "-m", "demo", "--folder", str(folder)]
        self.process = subprocess.Popen(
            command,
            cwd=PROJECT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            # Tests in the background of a shell ignore SIGINT, and child processes inherit that.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # this process has one thread
        )

    def wait(self, condition: Callable[[], bool], what: str) -> None:
        """Wait until something has happened while the demo runs."""
        wait_until(lambda: self.process.poll() is not None or condition(), what)
        assert self.process.poll() is None, f"the demo ended by itself:\n{self.process.communicate()[0]}"

    def wait_for_spark(self) -> None:
        """Wait until its Spark application has started."""
        reports = self.folder / "lake" / "reports"
        self.wait(lambda: any(reports.glob("flights/*/*/report.json")), "Spark starts")
        assert self.processes(), "the processes of the run are found"

    def interrupt(self) -> None:
        """Press Ctrl-C, and wait for its end."""
        self.process.send_signal(signal.SIGINT)
        output, _ = self.process.communicate(timeout=TIMEOUT_SECONDS)
        assert self.process.returncode == 130
        assert "Stopped" in output.strip().splitlines()[-1]
        assert "Traceback" not in output
        assert not self.processes()
        assert not (self.folder / "broker" / "broker.pid").exists()

    def processes(self) -> set[int]:
        """The processes of the demo's Airflow and Spark, which have the path of its lake in their environment."""
        return processes_about(f"TIDEGATE_LAKE={self.folder / 'lake'}")


@pytest.fixture
def begin(tmp_path: Path) -> Iterator[Callable[[], Demo]]:
    """A function that starts the demo, always in the same folder."""
    folder, demos = tmp_path / "demo", list[Demo]()
    for name in services.PIPELINES:
        migrated_home(folder / name)

    def start() -> Demo:
        demos.append(Demo(folder))
        return demos[-1]

    yield start
    for demo in demos:
        demo.process.kill()
        demo.process.wait()


def end_with_ctrl_c(begin: Callable[[], Demo]) -> None:
    """No process is left behind."""
    demo = begin()
    demo.wait_for_spark()
    demo.interrupt()


def end_with_sigkill(begin: Callable[[], Demo]) -> None:
    """Spark ends, and the next demo starts from the beginning."""
    demo = begin()
    demo.wait_for_spark()
    demo.process.kill()
    demo.process.wait()
    wait_until(lambda: not demo.processes(), "Airflow and Spark end")
    broker = demo.folder / "broker" / "broker.pid"
    orphan = Process.read(broker)
    assert orphan is not None and orphan.alive, "the broker is still running"
    left = [demo.folder / "lake" / "left", demo.folder / "landing" / "flights" / "left.csv"]
    for path in left:
        path.touch()

    demo = begin()
    demo.wait(lambda: Process.read(broker) not in (None, orphan), "the next broker runs")
    assert not orphan.alive
    assert [path for path in left if path.exists()] == []
    demo.interrupt()


@pytest.mark.parametrize("end", of_week([end_with_sigkill, end_with_ctrl_c], 1))
def test_a_demo_that_is_stopped_while_spark_runs_leaves_nothing_behind_that_disturbs_the_next(
    begin: Callable[[], Demo], end: Callable[[Callable[[], Demo]], None]
) -> None:
    end(begin)
