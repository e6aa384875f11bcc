"""Processes that were started in a session of their own: recognised by id *and* start time, and stopped by id only.

A process id alone is not enough: the system gives it to somebody else once its process has ended. With the start time
beside it, what a killed parent left behind can be stopped without ever hitting a stranger.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

_POLL_SECONDS = 0.05
_KILL_SECONDS = 5.0


@dataclass(frozen=True, kw_only=True)
class Process:
    """One process of this machine, for good: no later process with the same id is equal to it."""

    pid: int
    started: str
    """When it started, in the words of the operating system; only good for comparing."""

    @classmethod
    def of(cls, pid: int) -> Self | None:
        """The process that has this id now, or None when there is none (one that only waits to be reaped is none)."""
        started = _started_linux(pid) if sys.platform == "linux" else _started_elsewhere(pid)
        return None if started is None else cls(pid=pid, started=started)

    @classmethod
    def read(cls, path: Path) -> Self | None:
        """The process that ``write`` put into a file, or None when there is no such file or it holds something else."""
        try:
            stored = json.loads(path.read_text(encoding="utf-8"))
            return cls(pid=int(stored["pid"]), started=str(stored["started"]))
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def write(self, path: Path) -> None:
        """Puts it into a file, which appears whole or not at all."""
        part = path.with_name(f"{path.name}.{os.getpid()}")
        part.touch(mode=0o600)
        part.write_text(json.dumps(asdict(self)) + "\n", encoding="utf-8")
        part.replace(path)

    @property
    def alive(self) -> bool:
        """Whether this very process still runs."""
        return Process.of(self.pid) == self

    def stop_group(self, grace: float) -> None:
        """Asks it and its whole process group to end (SIGTERM), and kills what is left of it when that takes too long.

        Args:
            grace: Seconds that it gets. It must lead its group, as one started in a session of its own does.
        """
        self._signal_group(signal.SIGTERM, grace)
        self.kill_group()

    def kill_group(self) -> None:
        """Ends it and its whole process group at once (SIGKILL)."""
        self._signal_group(signal.SIGKILL, _KILL_SECONDS)

    def _signal_group(self, number: signal.Signals, patience: float) -> None:
        if not self.alive:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, number)
        until = time.monotonic() + patience
        while self.alive and time.monotonic() < until:
            time.sleep(_POLL_SECONDS)


def _started_linux(pid: int) -> str | None:
    try:
        # The command's name is in parentheses and may hold anything; the fields after it are plain.
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="utf-8").strip()
    except OSError:
        return None
    # Field 22 of the line counts clock ticks since the boot, hence the boot's id beside it.
    return None if fields[0] in "ZX" else f"{boot} {fields[19]}"


def _started_elsewhere(pid: int) -> str | None:
    told = subprocess.run(["ps", "-o", "stat=,lstart=", "-p", str(pid)], capture_output=True, text=True, check=False)
    state, _, started = told.stdout.strip().partition(" ")
    return started.strip() or None if state and not state.startswith("Z") else None
