"""Processes in sessions of their own, identified by process id and start time.

The process id alone is not enough, because the system reuses it after the process has ended. With the start time, the orphans
of a killed parent can be stopped without the risk of stopping an unrelated process.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from tidegate import json_codec

_POLL_SECONDS = 0.05
_KILL_SECONDS = 5.0


@dataclass(frozen=True, kw_only=True)
class Process:
    """One process of this machine. A later process with the same id is not equal to it."""

    pid: int
    started: str
    """Its start time, in a format of the operating system; only for comparison."""

    @classmethod
    def of(cls, pid: int) -> Self | None:
        """The process with this id, or None when there is none. A zombie counts as none."""
        started = _started_linux(pid) if sys.platform == "linux" else _started_elsewhere(pid)
        return None if started is None else cls(pid=pid, started=started)

    @classmethod
    def read(cls, path: Path) -> Self | None:
        """The process that ``write`` stored in a file, or None when the file is missing or cannot be parsed."""
        return json_codec.read(path, cls)

    def write(self, path: Path) -> None:
        """Store the process in a file, atomically."""
        part = path.with_name(f"{path.name}.{os.getpid()}")
        part.touch(mode=0o600)
        part.write_text(json_codec.encode(self) + "\n", encoding="utf-8")
        part.replace(path)

    @property
    def alive(self) -> bool:
        """Whether this very process still runs."""
        return Process.of(self.pid) == self

    def stop_group(self, grace: float) -> None:
        """Send SIGTERM to its process group, and SIGKILL if it has not ended after ``grace`` seconds.

        It must lead its group, as a process that was started in a session of its own does.
        """
        self._signal_group(signal.SIGTERM, grace)
        self.kill_group()

    def kill_group(self) -> None:
        """Send SIGKILL to its process group."""
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
        # The command's name is in parentheses and may contain any character; the fields after it do not.
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="utf-8").strip()
    except OSError:
        return None
    # Field 22 of the line counts clock ticks since boot, so the boot id is needed too.
    return None if fields[0] in "ZX" else f"{boot} {fields[19]}"


def _started_elsewhere(pid: int) -> str | None:
    process = subprocess.run(["ps", "-o", "stat=,lstart=", "-p", str(pid)], capture_output=True, text=True, check=False)
    state, _, started = process.stdout.strip().partition(" ")
    return started.strip() or None if state and not state.startswith("Z") else None
