"""Commands that run on by themselves, with real processes."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.patience import PATIENCE, until
from tidegate.embedded.processes import Process
from tidegate.embedded.service import Service, stop

FAMILY = """
import subprocess, sys, time
# Out of the family's process group, as an Airflow task is.
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
print("child", child.pid, flush=True)
time.sleep(600)
"""


@pytest.fixture
def family(tmp_path: Path) -> Iterator[Service]:
    """A command with a child in a session of its own."""
    service = Service(name="family", command=(sys.executable, "-c", FAMILY), folder=tmp_path / "family")
    yield service
    stop([service], grace=1)


def _start(service: Service, cwd: Path) -> tuple[psutil.Process, psutil.Process]:
    """Start it, and return its leader and its child."""
    service.start(dict(os.environ), cwd)
    until(lambda: "child" in service.log_tail(), "the command to start its child")
    leader = service.leader
    assert leader is not None
    return psutil.Process(leader.pid), psutil.Process(int(service.log_tail().split()[1]))


def _gone(process: psutil.Process) -> bool:
    return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE


def test_starting_it_twice_runs_it_once(family: Service, tmp_path: Path) -> None:
    first, _ = _start(family, tmp_path)
    second, _ = _start(family, tmp_path)
    assert first == second


def test_stopping_it_stops_all_that_it_started_and_nothing_else(family: Service, tmp_path: Path) -> None:
    other = Service(name="family", command=family.command, folder=tmp_path / "other")
    leader, child = _start(family, tmp_path)
    stranger, _ = _start(other, tmp_path)
    assert stop([family], grace=PATIENCE) == 2
    assert _gone(leader) and _gone(child)
    assert family.leader is None
    assert not _gone(stranger)
    assert stop([other], grace=PATIENCE) == 2
    assert stop([other], grace=PATIENCE) == 0


def test_what_a_killed_one_left_behind_is_stopped_before_the_next_starts(family: Service, tmp_path: Path) -> None:
    leader, child = _start(family, tmp_path)
    leader.kill()
    leader.wait(PATIENCE)
    assert not _gone(child)
    again, _ = _start(family, tmp_path)
    assert _gone(child)
    assert again.pid != leader.pid
    assert family.log.with_suffix(".log.1").exists(), "the log of the one that was killed is kept"


def test_a_child_with_a_title_of_its_own_is_not_lost_sight_of(tmp_path: Path) -> None:
    """A title overwrites the variables that others can see of a process."""
    titled = "import os, time, setproctitle; setproctitle.setproctitle('a worker ' * 500); print('child', os.getpid(), flush=True)"
    parent = f"import subprocess, sys, time; subprocess.Popen([sys.executable, '-c', {titled + '; time.sleep(600)'!r}]); time.sleep(600)"
    service = Service(name="titled", command=(sys.executable, "-c", parent), folder=tmp_path / "titled")
    leader, child = _start(service, tmp_path)
    assert "TIDEGATE_PART_OF" not in child.environ()
    leader.kill()
    leader.wait(PATIENCE)
    assert not _gone(child)
    assert stop([service], grace=PATIENCE) == 1
    assert _gone(child)


def test_one_that_will_not_end_is_killed(tmp_path: Path) -> None:
    stubborn = (
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(600)"
    )
    service = Service(name="stubborn", command=(sys.executable, "-c", stubborn), folder=tmp_path)
    service.start(dict(os.environ), tmp_path)
    until(lambda: "up" in service.log_tail(), "the command to be up")
    assert stop([service], grace=0.3) == 1
    assert service.leader is None


def test_it_outlives_who_started_it(tmp_path: Path) -> None:
    starter = f"""
import os, pathlib, sys
from tidegate.embedded.service import Service
folder = pathlib.Path({str(tmp_path)!r})
Service(name="family", command=(sys.executable, "-c", {FAMILY!r}), folder=folder).start(dict(os.environ), folder)
"""
    subprocess.run([sys.executable, "-c", starter], check=True, cwd=Path(__file__).parents[2])
    service = Service(name="family", command=(), folder=tmp_path)
    assert service.leader is not None
    assert stop([service], grace=PATIENCE) >= 1


def test_nobody_else_reads_what_it_writes(family: Service, tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        _start(family, tmp_path)
    finally:
        os.umask(before)
    written = [family.folder, *family.folder.rglob("*")]
    assert [path for path in written if stat.S_IMODE(path.stat().st_mode) & 0o077] == []


def test_another_process_with_its_id_is_not_taken_for_it(family: Service, tmp_path: Path) -> None:
    family.folder.mkdir()
    Process(pid=os.getpid(), started="another time").write(family.folder / "family.pid")
    assert family.leader is None
