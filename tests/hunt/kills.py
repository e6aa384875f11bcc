"""Real SIGKILLs of a separate driver, at any moment: of its process group, of its JVM alone, or of its Python process alone."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from tests.deployment import Deployment
from tests.waiting import TIMEOUT_SECONDS, wait_until
from tidegate.processes import end_group
from tidegate.requests.request import fresh_id

DRIVER = Path(__file__).with_name("driver.py")
TARGETS = ("group", "JVM", "Python")


@dataclass
class Kills:
    """The kills of one history."""

    share: float = 0.0
    """The share of runs that are killed first, and of killed runs that are killed again."""
    in_a_row: int = 1
    """So often one run is killed at most."""
    span: float = 12.0
    """Kills come within so many seconds of the job's begin; adapted to what jobs take on this machine."""
    done: list[str] = field(default_factory=list)

    def kill_in_a_row(
        self, rng: random.Random, deployment: Deployment, code: Path, request: Callable[[], Any]
    ) -> Iterator[str]:
        """Kill drivers of one run, and say so of each; the first that ends before its kill is the last."""
        for number in range(self.in_a_row):
            if rng.random() >= self.share:
                return
            killed = self.kill(rng, deployment, code, request(), is_first=not number)
            yield killed or "a driver that ended before its kill"
            if not killed:
                return

    def kill(
        self, rng: random.Random, deployment: Deployment, code: Path, request: Any, *, is_first: bool = True
    ) -> str:
        """Start a driver for a request and kill it; empty if it ended before. Nothing of it runs afterwards.

        Args:
            is_first: Whether the run has all its work before it, so that its duration says what jobs take.
        """
        target, seconds = rng.choice(TARGETS), rng.uniform(0, self.span)
        request_id, marker = request.write(deployment.layout), code / fresh_id("begun")
        log = code / "driver.log"
        with log.open("w") as output:
            driver = subprocess.Popen(
                [sys.executable, str(DRIVER), str(code), str(marker), request.dag_id, request.run_key, request_id],
                env=deployment.environment_of_drivers(),
                cwd=code,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            wait_until(lambda: _jvm(marker) > 0 or driver.poll() is not None, "the driver begins")
            time.sleep(seconds)
            ended = driver.poll() is not None
            if not ended:
                _send(target, driver.pid, _jvm(marker))
            driver.wait(TIMEOUT_SECONDS)
            wait_until(lambda: not _group(driver.pid), f"nothing runs after a SIGKILL of {target}")
        finally:
            end_group(driver.pid, grace=0)
            driver.wait()
        if ended or not driver.returncode:
            assert not driver.returncode, f"a driver that was not killed failed:\n{log.read_text()[-6000:]}"
            if is_first:
                self.span = max(2.0, seconds)
            return ""
        assert driver.returncode == -signal.SIGKILL or target == "JVM", log.read_text()[-6000:]
        self.span *= 1.03
        self.done.append(f"SIGKILL of {target} after {seconds:.1f} s")
        return self.done[-1]


def _jvm(marker: Path) -> int:
    with contextlib.suppress(FileNotFoundError, ValueError):
        return int(marker.read_text())
    return 0


def _send(target: str, driver: int, jvm: int) -> None:
    if target == "group":
        os.killpg(driver, signal.SIGKILL)
    else:
        os.kill(jvm if target == "JVM" else driver, signal.SIGKILL)


def _group(leader: int) -> list[int]:
    """The processes of a process group. A zombie counts while threads of it live, which hold its locks."""
    processes = []
    for process in psutil.process_iter(["pid", "status"]):
        pid = process.info["pid"]
        with contextlib.suppress(ProcessLookupError, FileNotFoundError):
            ended = (
                process.info["status"] == psutil.STATUS_ZOMBIE and len(list(Path(f"/proc/{pid}/task").iterdir())) == 1
            )
            if os.getpgid(pid) == leader and not ended:
                processes.append(pid)
    return processes
