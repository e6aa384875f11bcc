"""A run that somebody stops, and one whose JVM dies at once. What runs do that nobody disturbs, the guides show."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

import pytest

from tests.cli.project import COMMAND, Project
from tests.patience import PATIENCE, until

pytestmark = pytest.mark.jvm


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    return Project.scaffolded(tmp_path_factory.mktemp("copy") / "project")


def processes_of(project: Project) -> list[str]:
    """Command lines of processes that work on this project's lake."""
    lines = []
    for entry in Path("/proc").glob("[0-9]*/environ"):
        try:
            if f"TIDEGATE_LAKE={project.layout.lake}".encode() in entry.read_bytes():
                lines.append((entry.parent / "cmdline").read_bytes().replace(b"\0", b" ").decode())
        except OSError:
            continue
    return lines


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="looks for processes in /proc")
def test_ctrl_c_ends_the_job_and_says_what_the_next_run_does(project: Project) -> None:
    with subprocess.Popen(
        [COMMAND, "run", "sample"],
        env=project.child_environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as running:
        assert running.stderr is not None
        until(lambda: any("run_pipeline.py" in line for line in processes_of(project)), "the job starts")
        running.send_signal(signal.SIGINT)
        assert running.wait(timeout=PATIENCE) == 130
        assert running.stderr.read() == (
            "tidegate: stopped. Nothing is half done: the next run finishes the batch in hand.\n"
        )
    assert processes_of(project) == []


def test_a_job_that_crashes_ends_with_70_and_shows_its_last_words(project: Project) -> None:
    ended = project.run("run", "sample", TIDEGATE_DRIVER_MEMORY="1m")
    assert ended.code == 70
    assert "driver.log" in ended.err
    assert "Too small maximum heap" in ended.out
