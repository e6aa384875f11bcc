"""The job's process is followed until it ends, and never survives the command."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.waiting import wait_until
from tidegate import json_codec
from tidegate.cli import child
from tidegate.errors import StoppedError
from tidegate.processes import Process
from tidegate.reports.report import FlowReport, RunReport
from tidegate.store import Address

pytestmark = pytest.mark.slow

STUBBORN = "trap '' TERM; sleep 600 & echo $! >$0; wait"
"""A shell script that ignores SIGTERM, with a child that ignores it too; it writes the child's pid to a file."""


def start(*command: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(command, start_new_session=True)


def is_alive(pid: int) -> bool:
    return Process.of(pid) is not None


def wait_for(path: Path) -> str:
    wait_until(lambda: path.exists() and path.read_text() != "", f"{path.name} is written")
    return path.read_text()


def test_the_last_report_and_the_exit_code_are_returned(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    report = RunReport(dag_id="orders", run_key="k", attempt="a", started_at="t", ended_at="t")
    report.flows = [FlowReport(flow="bronze", target="bronze.orders", checkpoint_version=1, state="done")]
    reports: list[RunReport | None] = []
    shown = tmp_path / "shown"

    def begin() -> subprocess.Popen[bytes]:
        script = 'until [ -e "$2" ]; do sleep 0.05; done; printf %s "$1" >"$0"; exit 3'
        return start("bash", "-c", script, str(path), json_codec.encode(report), str(shown))

    def show(report: RunReport | None) -> None:
        reports.append(report)
        shown.touch()

    assert child.watch(begin, Address.local(path), show) == (3, report)
    assert reports[0] is None
    assert reports[-1] == report


def test_without_a_report_none_is_returned(tmp_path: Path) -> None:
    assert child.watch(lambda: start("false"), Address.local(tmp_path / "report.json"), lambda _: None) == (1, None)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_ends_the_whole_group_even_processes_that_ignore_sigterm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, code: int
) -> None:
    monkeypatch.setattr(child, "GRACE_SECONDS", 0.5)
    started: list[int] = []

    def begin() -> subprocess.Popen[bytes]:
        process = start("bash", "-c", STUBBORN, str(tmp_path / "pid"))
        started.append(process.pid)
        return process

    def stop() -> None:
        wait_for(tmp_path / "pid")
        os.kill(os.getpid(), number)

    threading.Thread(target=stop).start()
    with pytest.raises(StoppedError) as stopped:
        child.watch(begin, Address.local(tmp_path / "report.json"), lambda _: None)
    assert stopped.value.exit_code == code
    assert "the next run finishes the pending batch" in stopped.value.message
    assert not is_alive(started[0])
    assert not is_alive(int((tmp_path / "pid").read_text()))


@pytest.fixture
def late_ctrl_c_is_harmless() -> Iterator[None]:
    """A SIGINT that arrives after the command has ended must not stop the tests."""
    before = signal.signal(signal.SIGINT, lambda *_, **__: None)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("late_ctrl_c_is_harmless")
def test_a_second_ctrl_c_skips_the_grace_period(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child, "GRACE_SECONDS", 3600)
    ended = threading.Event()

    def stop() -> None:
        wait_for(tmp_path / "pid")
        # Signals that arrive at the same time are merged, so more than two may be needed.
        while not ended.is_set():
            os.kill(os.getpid(), signal.SIGINT)
            ended.wait(0.3)

    sender = threading.Thread(target=stop)
    sender.start()
    with pytest.raises(StoppedError):
        child.watch(
            lambda: start("bash", "-c", STUBBORN, str(tmp_path / "pid")),
            Address.local(tmp_path / "report.json"),
            lambda _: None,
        )
    ended.set()
    sender.join()
    assert not is_alive(int((tmp_path / "pid").read_text()))


def test_the_previous_signal_handler_is_restored_after_the_job(tmp_path: Path) -> None:
    before = signal.getsignal(signal.SIGINT)
    child.watch(lambda: start("true"), Address.local(tmp_path / "report.json"), lambda _: None)
    assert signal.getsignal(signal.SIGINT) is before


def test_an_error_while_showing_the_report_ends_the_job(tmp_path: Path) -> None:
    started: list[int] = []

    def begin() -> subprocess.Popen[bytes]:
        process = start("sleep", "60")
        started.append(process.pid)
        return process

    def show(_: RunReport | None) -> None:
        raise OSError("the terminal is gone")

    with pytest.raises(OSError, match="terminal"):
        child.watch(begin, Address.local(tmp_path / "report.json"), show)
    assert not is_alive(started[0])
