"""The process that runs the DAGs: it answers, and whoever leaves it leaves nothing behind.

The DAGs here only start a process and wait for it, as Airflow does with Spark; with the real ones, the story is told in
test_story.py and interrupted in test_interrupt.py.
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
from demo import runs, stage, story
from demo.runs import DagRuns, RunCrashedError
from tests.patience import PATIENCE, until
from tidegate.embedded.processes import Process

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


class Place:
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
        until(self.pid.exists, "the run starts its job")
        job = Process.of(int(self.pid.read_text()))
        assert job is not None
        return job


def test_a_run_that_ended_is_answered_with_its_state(tmp_path: Path) -> None:
    with Place(tmp_path, ENDS).runs as started:
        run = started.start("waiting").result()
    assert (run.dag_id, run.run_id, run.state, run.succeeded) == ("waiting", "r1", "success", True)


def test_a_run_that_raises_has_no_end_and_the_log_says_why(tmp_path: Path) -> None:
    with Place(tmp_path, RAISES).runs as started, pytest.raises(RunCrashedError, match=r"LookupError.*demo\.log"):
        started.start("waiting").result()
    assert "no such thing" in (tmp_path / "demo.log").read_text()


def test_whoever_leaves_in_the_middle_of_a_run_interrupts_it_and_lets_it_end_what_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "SECONDS_TO_STOP", PATIENCE)
    place = Place(tmp_path, WAITS)
    with place.runs as started:
        pending = started.start("waiting")
        job = place.job()
    assert not job.alive
    assert (tmp_path / "ended-in-order").exists()
    with pytest.raises(RunCrashedError, match="has ended"):
        pending.result()


def test_a_run_that_hears_no_interrupt_is_killed_with_what_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "SECONDS_TO_STOP", 0.5)
    place = Place(tmp_path, WAITS, on_interrupt="signal.SIG_IGN")
    with place.runs as started:
        started.start("waiting")
        job = place.job()
    assert not job.alive
    assert not (tmp_path / "ended-in-order").exists()


def test_a_demo_that_is_killed_takes_its_run_with_it(tmp_path: Path) -> None:
    place = Place(tmp_path, WAITS)
    script = (
        "import os, sys; from pathlib import Path; from demo.runs import DagRuns\n"
        "folder = Path(sys.argv[1])\n"
        "with DagRuns(folder, os.environ, folder / 'demo.log') as started:\n"
        "    started.start('waiting').result()\n"
    )
    with subprocess.Popen([sys.executable, "-c", script, str(tmp_path)], env=place.environment) as demo:
        job = place.job()
        demo.kill()
    until((tmp_path / "ended-in-order").exists, "the run ends when its demo is gone")
    assert not job.alive


@pytest.fixture
def left_broker(tmp_path: Path) -> Iterator[Process]:
    """A process that a killed demo left as its broker."""
    (tmp_path / "broker").mkdir()
    with subprocess.Popen(["sleep", "600"], start_new_session=True) as started:
        broker = Process.of(started.pid)
        assert broker is not None
        broker.write(tmp_path / "broker" / "broker.pid")
        yield broker
        started.kill()


def test_the_next_demo_stops_the_broker_that_a_killed_one_left(tmp_path: Path, left_broker: Process) -> None:
    (tmp_path / "made-by-the-demo").touch()
    stage._clean(tmp_path)
    assert not left_broker.alive
    assert not (tmp_path / "broker").exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_who_stops_the_demo_reads_one_line_and_it_ends_with_130(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], number: signal.Signals
) -> None:
    before = {each: signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)}
    monkeypatch.setattr(sys, "argv", ["demo", "--folder", str(tmp_path)])
    # As in a terminal; a shell in whose background the tests run hands down that it is ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # Where the story would begin, the signal comes.
    monkeypatch.setattr(story, "tell", lambda *_: os.kill(os.getpid(), number))
    try:
        assert command.main() == 130
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
    (line,) = capsys.readouterr().out.strip().splitlines()
    assert line.startswith("Stopped")
