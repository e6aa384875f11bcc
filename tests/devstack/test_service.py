"""Background services, with real processes."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import psutil
import pytest

from devstack import service as service_module
from devstack.service import Service, keep_running, stop
from tests.waiting import TIMEOUT_SECONDS, wait_until
from tidegate.processes import Process

pytestmark = pytest.mark.slow

FAMILY = """
import subprocess, sys, time
# Outside the service's process group, like an Airflow task.
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
    """Start a service and return its leader and its child."""
    service.start(dict(os.environ), cwd)
    wait_until(lambda: "child" in service.log_tail(), "the command to start its child")
    leader = service.leader
    assert leader is not None
    return psutil.Process(leader.pid), psutil.Process(int(service.log_tail().split()[1]))


def _ended(process: psutil.Process) -> bool:
    return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE


def test_a_second_start_of_a_running_service_does_nothing(family: Service, tmp_path: Path) -> None:
    first, _ = _start(family, tmp_path)
    second, _ = _start(family, tmp_path)
    assert first == second


def test_stopping_a_service_stops_its_descendants_and_nothing_else(family: Service, tmp_path: Path) -> None:
    other = Service(name="family", command=family.command, folder=tmp_path / "other")
    leader, child = _start(family, tmp_path)
    other_leader, _ = _start(other, tmp_path)
    assert stop([family], grace=TIMEOUT_SECONDS) == 2
    assert _ended(leader) and _ended(child)
    assert family.leader is None
    assert not _ended(other_leader)
    assert stop([other], grace=TIMEOUT_SECONDS) == 2
    assert stop([other], grace=TIMEOUT_SECONDS) == 0


def test_orphans_of_a_killed_leader_are_stopped_before_the_next_start(family: Service, tmp_path: Path) -> None:
    leader, child = _start(family, tmp_path)
    leader.kill()
    leader.wait(TIMEOUT_SECONDS)
    assert not _ended(child)
    again, _ = _start(family, tmp_path)
    assert _ended(child)
    assert again.pid != leader.pid
    assert family.log.with_suffix(".log.1").exists(), "the previous log is kept"


def test_a_child_that_changed_its_process_title_is_found(tmp_path: Path) -> None:
    """A process title overwrites the environment variables that other processes can read."""
    titled = "import os, time, setproctitle; setproctitle.setproctitle('a worker ' * 500); print('child', os.getpid(), flush=True)"
    parent = f"import subprocess, sys, time; subprocess.Popen([sys.executable, '-c', {titled + '; time.sleep(600)'!r}]); time.sleep(600)"
    service = Service(name="titled", command=(sys.executable, "-c", parent), folder=tmp_path / "titled")
    leader, child = _start(service, tmp_path)
    assert "TIDEGATE_PART_OF" not in child.environ()
    leader.kill()
    leader.wait(TIMEOUT_SECONDS)
    assert not _ended(child)
    assert stop([service], grace=TIMEOUT_SECONDS) == 1
    assert _ended(child)


def test_a_service_that_ignores_sigterm_is_killed(tmp_path: Path) -> None:
    stubborn = (
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(600)"
    )
    service = Service(name="stubborn", command=(sys.executable, "-c", stubborn), folder=tmp_path)
    service.start(dict(os.environ), tmp_path)
    wait_until(lambda: "up" in service.log_tail(), "the command to be up")
    assert stop([service], grace=0.3) == 1
    assert service.leader is None


def test_a_service_outlives_the_process_that_started_it(tmp_path: Path) -> None:
    starter = f"""
import os, pathlib, sys
from devstack.service import Service
folder = pathlib.Path({str(tmp_path)!r})
Service(name="family", command=(sys.executable, "-c", {FAMILY!r}), folder=folder).start(dict(os.environ), folder)
"""
    subprocess.run([sys.executable, "-c", starter], check=True, cwd=Path(__file__).parents[2])
    service = Service(name="family", command=(), folder=tmp_path)
    assert service.leader is not None
    assert stop([service], grace=TIMEOUT_SECONDS) >= 1


def test_the_files_of_a_service_are_readable_only_by_their_owner(family: Service, tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        _start(family, tmp_path)
    finally:
        os.umask(before)
    written = [family.folder, *family.folder.rglob("*")]
    assert [path for path in written if stat.S_IMODE(path.stat().st_mode) & 0o077] == []


def test_another_process_with_the_leaders_id_is_not_the_leader(family: Service, tmp_path: Path) -> None:
    family.folder.mkdir()
    Process(pid=os.getpid(), started="another time").write(family.folder / "family.pid")
    assert family.leader is None


class Clock:
    """A clock that only `sleep` advances."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def test_a_service_that_ends_is_started_again_with_a_line_and_growing_delays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    monkeypatch.setattr(service_module, "time", clock)
    ends = Service(name="ends", command=(sys.executable, "-c", "pass"), folder=tmp_path)
    starts: list[float] = []
    watch = keep_running([ends], dict(os.environ), tmp_path)
    while len(starts) < 9:
        if line := next(watch):
            assert line == "ends had ended and was started again; the end of its log is in ends.log.1"
            starts.append(clock.now)
            wait_until(lambda: ends.leader is None, "it ends")
    delays = [later - earlier for earlier, later in pairwise([0.0, *starts])]
    # One second more for the look that finds that it has ended.
    assert delays == [1, 3, 5, 9, 17, 33, 61, 61, 61]
    clock.now += 400
    while not next(watch):
        pass
    assert clock.now - starts[-1] < 410, "after a steady time the delay is short again"


def test_a_service_that_runs_is_left_alone(family: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service_module, "time", Clock())
    _start(family, tmp_path)
    before = family.leader
    watch = keep_running([family], dict(os.environ), tmp_path)
    assert [next(watch) for _ in range(100)] == [""] * 100
    assert family.leader == before
