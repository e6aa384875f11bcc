"""Identifying and stopping processes, with real ones."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.waiting import TIMEOUT_SECONDS, wait_until
from tidegate.processes import Process, end_group, members

JOB = """
import signal, subprocess, sys, time
if len(sys.argv) == 2:
    child = subprocess.Popen([sys.executable, __file__, sys.argv[1], "child"])
signal.signal(signal.SIGTERM, signal.SIG_IGN if sys.argv[1] == "ignores" else signal.SIG_DFL)
print("up", flush=True)
time.sleep(3600)
"""

Start = Callable[[str], subprocess.Popen[str]]


@pytest.fixture
def start() -> Iterator[Start]:
    """A function that starts a shell script in a session of its own."""
    started: list[subprocess.Popen[str]] = []

    def begin(script: str) -> subprocess.Popen[str]:
        command = ["/bin/sh", "-c", script]
        started.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True))
        return started[-1]

    yield begin
    for popen in started:
        if popen.poll() is None:
            os.killpg(popen.pid, signal.SIGKILL)
        popen.communicate()


def _process(pid: int) -> Process:
    process = Process.of(pid)
    assert process is not None
    return process


def test_a_process_is_alive_until_it_ends(start: Start) -> None:
    popen = start("exec sleep 600")
    process = _process(popen.pid)
    assert process == Process.of(popen.pid)
    assert process.alive
    popen.kill()
    popen.wait()
    assert not process.alive


def test_a_zombie_is_not_alive(start: Start) -> None:
    popen = start("exec sleep 600")
    process = _process(popen.pid)
    os.kill(popen.pid, signal.SIGKILL)
    # Waits for its end without reaping it.
    os.waitid(os.P_PID, popen.pid, os.WEXITED | os.WNOWAIT)
    assert not process.alive


def test_another_process_with_the_same_id_is_not_signalled(start: Start) -> None:
    popen = start("exec sleep 600")
    before = Process(pid=popen.pid, started="another time")
    assert not before.alive
    before.stop_group(grace=0.2)
    before.kill_group()
    assert popen.poll() is None


def test_a_stopped_process_can_handle_sigterm(start: Start) -> None:
    popen = start("trap 'echo in order; exit 0' TERM; echo ready; while :; do sleep 0.05; done")
    assert popen.stdout is not None
    assert popen.stdout.readline() == "ready\n"
    _process(popen.pid).stop_group(grace=TIMEOUT_SECONDS)
    assert popen.wait() == 0
    assert popen.stdout.read() == "in order\n"


@pytest.mark.slow
def test_a_process_that_ignores_sigterm_is_killed_after_the_grace_period(start: Start) -> None:
    popen = start("trap '' TERM; echo ready; while :; do sleep 0.05; done")
    assert popen.stdout is not None
    popen.stdout.readline()
    begun = time.monotonic()
    _process(popen.pid).stop_group(grace=0.3)
    assert popen.wait() == -signal.SIGKILL
    assert time.monotonic() - begun >= 0.3, "not before"


def test_a_killed_process_cannot_handle_sigterm(start: Start) -> None:
    popen = start("trap 'echo in order; exit 0' TERM; echo ready; while :; do sleep 0.05; done")
    assert popen.stdout is not None
    assert popen.stdout.readline() == "ready\n"
    _process(popen.pid).kill_group()
    assert popen.wait() == -signal.SIGKILL
    assert popen.stdout.read() == ""


def test_stopping_a_process_stops_its_children(start: Start) -> None:
    popen = start("sleep 600 & echo $!; wait")
    assert popen.stdout is not None
    child = _process(int(popen.stdout.readline()))
    _process(popen.pid).stop_group(grace=TIMEOUT_SECONDS)
    popen.wait()
    wait_until(lambda: not child.alive, "the end of the child")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("reaction", "grace", "ended_by"), [("exits", 3600.0, signal.SIGTERM), ("ignores", 0.2, signal.SIGKILL)]
)
def test_the_whole_process_group_gets_sigterm_and_then_sigkill(
    tmp_path: Path, reaction: str, grace: float, ended_by: signal.Signals
) -> None:
    script = tmp_path / "job.py"
    script.write_text(JOB)
    leader = subprocess.Popen([sys.executable, str(script), reaction], stdout=subprocess.PIPE, start_new_session=True)
    assert leader.stdout is not None
    assert [leader.stdout.readline() for _ in range(2)] == [b"up\n", b"up\n"], "parent and child run"
    # It returns as soon as the processes exit: with the whole grace period this test would time out.
    end_group(leader.pid, grace=grace)
    leader.wait()
    assert leader.returncode == -ended_by
    leader.stdout.close()
    assert members(leader.pid) == [], "the child process has ended too"


def test_ending_a_process_group_that_has_exited_is_no_error() -> None:
    leader = subprocess.Popen([sys.executable, "-c", ""], start_new_session=True)
    leader.wait()
    end_group(leader.pid, grace=1.0)


def test_a_process_round_trips_through_a_file(tmp_path: Path) -> None:
    process = _process(os.getpid())
    process.write(tmp_path / "it.pid")
    assert Process.read(tmp_path / "it.pid") == process
    assert [path.name for path in tmp_path.iterdir()] == ["it.pid"]


@pytest.mark.parametrize("content", [None, "", "1234", "[]", '{"pid": 1}', '{"pid": "x", "started": "y"}', "\x00"])
def test_a_file_with_other_content_is_read_as_none(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / "it.pid").write_text(content)
    assert Process.read(tmp_path / "it.pid") is None


def test_on_other_systems_than_linux_a_process_is_identified_too(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    popen = start("exec sleep 600")
    process = _process(popen.pid)
    assert process.alive
    assert Process(pid=popen.pid, started="another time").alive is False
    os.kill(popen.pid, signal.SIGKILL)
    os.waitid(os.P_PID, popen.pid, os.WEXITED | os.WNOWAIT)
    assert not process.alive, "a zombie is not alive"
    popen.wait()
    assert Process.of(popen.pid) is None
