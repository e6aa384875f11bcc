"""A run that is stopped with Ctrl-C, and one whose JVM dies at once. Undisturbed runs are tested in the guides."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

import pytest

from tests.cli.project import COMMAND, Project
from tests.waiting import TIMEOUT_SECONDS, wait_until

pytestmark = pytest.mark.jvm


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    return Project.scaffolded(tmp_path_factory.mktemp("copy") / "project")


def processes_of(project: Project) -> list[str]:
    """Command lines of the processes that use this project's lake."""
    lines = []
    for entry in Path("/proc").glob("[0-9]*/environ"):
        try:
            if f"TIDEGATE_LAKE={Path(project.layout.root)}".encode() in entry.read_bytes():
                lines.append((entry.parent / "cmdline").read_bytes().replace(b"\0", b" ").decode())
        except OSError:
            continue
    return lines


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="looks for processes in /proc")
def test_ctrl_c_ends_the_job_and_prints_what_the_next_run_does(project: Project) -> None:
    with subprocess.Popen(
        [COMMAND, "run", "sample"],
        env=project.child_environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as running:
        assert running.stderr is not None
        wait_until(lambda: any("run_pipeline.py" in line for line in processes_of(project)), "the job starts")
        running.send_signal(signal.SIGINT)
        assert running.wait(timeout=TIMEOUT_SECONDS) == 130
        assert running.stderr.read() == (
            "tidegate: stopped. Every commit is atomic: the next run finishes the pending batch.\n"
        )
    assert processes_of(project) == []


def test_a_crashed_job_exits_with_70_and_prints_the_end_of_its_log(project: Project) -> None:
    result = project.run("run", "sample", TIDEGATE_DRIVER_MEMORY="1m")
    assert result.code == 70
    assert "driver.log" in result.err
    assert "Too small maximum heap" in result.out
