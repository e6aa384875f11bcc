"""The process that runs the DAGs: its results, and that no process remains when it is stopped.

The DAGs here only start a process and wait for it, as Airflow does with Spark. The real ones run in test_scenario.py and are
interrupted in test_interrupt.py.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from demo import __main__ as command
from demo import runs, scenario, services
from demo.runs import DagRuns, RunCrashedError
from tests.waiting import TIMEOUT_SECONDS, wait_until
from tidegate.processes import Process

pytestmark = pytest.mark.slow

PROJECT = Path(__file__).parents[2]
DAG = """
import signal, subprocess
from pathlib import Path
from types import SimpleNamespace

signal.signal(signal.SIGINT, {on_interrupt})


def test(run_conf):
    with subprocess.Popen(["sleep", "600"]) as job:
        draft = Path({pid!r} + ".draft")
        draft.write_text(str(job.pid))
        draft.rename({pid!r})
        try:
            {body}
        finally:
            job.kill()
            Path("ended-in-order").touch()


dag = SimpleNamespace(test=test)
"""
WAITS = "job.wait()"
ENDS = "return SimpleNamespace(run_id='r1', state='DagRunState.SUCCESS', get_task_instances=lambda: [])"
RAISES = "raise LookupError('no such thing')"


class Project:
    """A project with one DAG, ``waiting``."""

    def __init__(self, folder: Path, body: str, *, on_interrupt: str = "signal.default_int_handler") -> None:
        self.folder, self.pid = folder, folder / "job.pid"
        (folder / "dags").mkdir()
        dag = DAG.format(pid=str(self.pid), body=body, on_interrupt=on_interrupt)
        (folder / "dags" / "waiting.py").write_text(dag)
        self.environment = {**os.environ, "PYTHONPATH": str(PROJECT)}

    @property
    def runs(self) -> DagRuns:
        return DagRuns(self.folder, self.environment, self.folder / "demo.log")

    def job(self) -> Process:
        """The process that the run waits for."""
        wait_until(self.pid.exists, "the run starts its job")
        job = Process.of(int(self.pid.read_text()))
        assert job is not None
        return job


def test_the_result_of_a_run_has_its_state(tmp_path: Path) -> None:
    with Project(tmp_path, ENDS).runs as started:
        run = started.start("waiting").result()
    assert (run.dag_id, run.run_id, run.state, run.succeeded) == ("waiting", "r1", "success", True)


def test_a_run_that_raises_is_an_error_that_names_the_log(tmp_path: Path) -> None:
    with Project(tmp_path, RAISES).runs as started, pytest.raises(RunCrashedError, match=r"LookupError.*demo\.log"):
        started.start("waiting").result()
    assert "no such thing" in (tmp_path / "demo.log").read_text()


def test_leaving_the_context_interrupts_the_run_which_then_stops_its_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "SECONDS_TO_STOP", TIMEOUT_SECONDS)
    project = Project(tmp_path, WAITS)
    with project.runs as started:
        pending = started.start("waiting")
        job = project.job()
    assert not job.alive
    assert (tmp_path / "ended-in-order").exists()
    with pytest.raises(RunCrashedError, match="has ended"):
        pending.result()


def test_a_run_that_ignores_the_interrupt_is_killed_with_its_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "SECONDS_TO_STOP", 0.5)
    project = Project(tmp_path, WAITS, on_interrupt="signal.SIG_IGN")
    with project.runs as started:
        started.start("waiting")
        job = project.job()
    assert not job.alive
    assert not (tmp_path / "ended-in-order").exists()


def test_the_run_of_a_killed_demo_ends(tmp_path: Path) -> None:
    project = Project(tmp_path, WAITS)
    script = (
        "import os, sys; from pathlib import Path; from demo.runs import DagRuns\n"
        "folder = Path(sys.argv[1])\n"
        "with DagRuns(folder, os.environ, folder / 'demo.log') as started:\n"
        "    started.start('waiting').result()\n"
    )
    with subprocess.Popen([sys.executable, "-c", script, str(tmp_path)], env=project.environment) as demo:
        job = project.job()
        demo.kill()
    wait_until((tmp_path / "ended-in-order").exists, "the run ends when its demo has ended")
    assert not job.alive


@pytest.fixture
def orphaned_broker(tmp_path: Path) -> Iterator[Process]:
    """A process that is recorded as the broker of a killed demo."""
    (tmp_path / "broker").mkdir()
    with subprocess.Popen(["sleep", "600"], start_new_session=True) as started:
        broker = Process.of(started.pid)
        assert broker is not None
        broker.write(tmp_path / "broker" / "broker.pid")
        yield broker
        started.kill()


def test_the_next_demo_stops_the_broker_of_a_killed_one(tmp_path: Path, orphaned_broker: Process) -> None:
    (tmp_path / "made-by-the-demo").touch()
    services._clean(tmp_path)
    assert not orphaned_broker.alive
    assert not (tmp_path / "broker").exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stopped_demo_prints_one_line_and_exits_with_130(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], number: signal.Signals
) -> None:
    before = {each: signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)}
    monkeypatch.setattr(sys, "argv", ["demo", "--folder", str(tmp_path)])
    # As in a terminal. Tests in the background of a shell ignore SIGINT.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # The signal arrives at the beginning of the demo.
    monkeypatch.setattr(scenario, "run_demo", lambda *_, **__: os.kill(os.getpid(), number))
    try:
        assert command.main() == 130
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
    (line,) = capsys.readouterr().out.strip().splitlines()
    assert line.startswith("Stopped")
