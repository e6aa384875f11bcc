"""When the demo is stopped during a run, no process remains, and the demo can run again.

`test_runs` tests the same for each part, with processes that start quickly.
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
    """A demo in a process of its own, whose Spark application has started."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        before = self._reports()
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
        wait_until(lambda: self.process.poll() is not None or bool(self._reports() - before), "Spark starts")
        assert self.process.poll() is None, f"the demo ended by itself:\n{self.process.communicate()[0]}"

    def _reports(self) -> set[Path]:
        return set((self.folder / "lake" / "reports").glob("flights/*/*/report.json"))

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
        assert demos[-1].processes(), "the processes of the run are found"
        return demos[-1]

    yield start
    for demo in demos:
        demo.process.kill()
        demo.process.wait()


def test_after_a_sigkill_spark_ends_and_the_next_demo_starts_from_the_beginning_and_ctrl_c_leaves_no_process_behind(
    begin: Callable[[], Demo],
) -> None:
    demo = begin()
    demo.process.kill()
    demo.process.wait()
    wait_until(lambda: not demo.processes(), "Airflow and Spark end")
    orphan = Process.read(demo.folder / "broker" / "broker.pid")
    assert orphan is not None and orphan.alive, "the broker is still running"
    left = [demo.folder / "lake" / "left", demo.folder / "landing" / "flights" / "left.csv"]
    for path in left:
        path.touch()

    demo = begin()
    assert not orphan.alive
    assert [path for path in left if path.exists()] == []
    demo.process.send_signal(signal.SIGINT)
    output, _ = demo.process.communicate(timeout=TIMEOUT_SECONDS)
    assert demo.process.returncode == 130
    assert "Stopped" in output.strip().splitlines()[-1]
    assert "Traceback" not in output
    assert not demo.processes()
    assert not (demo.folder / "broker" / "broker.pid").exists()
