"""What a command costs with all that it starts: processor time, wall time, memory, Spark's jobs and SQL executions.

Linux only: whoever measures takes in what its children leave behind, so that no worker of Spark that outlives its JVM is
missed.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

ROLES = ("JVM", "driver", "workers", "other")
"""The JVM; the Python that drives it; the Python workers of its tasks; the command itself and what is too short to see."""
_PR_SET_CHILD_SUBREAPER = 36
_LOOK_SECONDS = 0.5
_COUNTED = ("SparkListenerJobStart", "org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionStart")


@dataclass(frozen=True, kw_only=True)
class Cost:
    """Of one command."""

    processor: float
    """Seconds, of the whole tree of processes, in user and system mode."""
    wall: float
    """Seconds."""
    roles: Mapping[str, float]
    """``processor`` by `ROLES`, as seen from outside twice a second; what was not seen counts as ``other``."""
    peaks: Mapping[str, int]
    """Bytes of resident memory at most, by `ROLES`, as seen twice a second; what processes share counts for each."""
    jobs: int
    """Spark jobs."""
    executions: int
    """Spark's SQL executions."""

    def told(self) -> str:
        """For people."""
        parts = ", ".join(f"{role} {self.roles[role]:.1f}" for role in ROLES)
        return (
            f"{self.jobs:3d} jobs, {self.executions:3d} executions, processor {self.processor:6.1f} s ({parts}), "
            f"wall {self.wall:6.1f} s"
        )


def measure(command: Sequence[str], environ: Mapping[str, str], log: Path) -> Cost:
    """Run a command to its end. Whatever Spark it starts writes an event log, which is read and thrown away.

    Args:
        command: Its parts.
        environ: Its environment variables.
        log: What it says is added here.

    Raises:
        SystemExit: It failed; the message says where its log is.
    """
    if ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise SystemExit("this system does not let a process take in what its children leave behind")
    with tempfile.TemporaryDirectory(prefix="events-") as events, log.open("ab") as output:
        started = time.monotonic()
        process = subprocess.Popen(
            command,
            env={**environ, "SPARK_SUBMIT_OPTS": " ".join(_event_log(Path(events)))},
            stdout=output,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
        )
        with _Look() as look:
            code, wall, processor = 1, 0.0, 0.0
            with contextlib.suppress(ChildProcessError):
                while True:
                    # Of all children, also those that were taken in; each tells what its own children took.
                    pid, status, used = os.wait4(-1, 0)
                    processor += used.ru_utime + used.ru_stime
                    if pid == process.pid:
                        code, wall = os.waitstatus_to_exitcode(status), time.monotonic() - started
                        process.returncode = code
        if code:
            raise SystemExit(f"{Path(command[0]).name} ended with {code}; its log: {log}")
        roles = look.processor()
        roles["other"] += max(0.0, processor - sum(roles.values()))
        counted = count_events(Path(events))
        jobs, executions = (counted[event] for event in _COUNTED)
        return Cost(
            processor=processor, wall=wall, roles=roles, peaks=dict(look.peaks), jobs=jobs, executions=executions
        )


def count_events(folder: Path) -> Counter[str]:
    """The events of all event logs in a folder, by their name."""
    found: Counter[str] = Counter()
    for path in folder.iterdir():
        with path.open(encoding="utf-8") as lines:
            found.update(json.loads(line)["Event"] for line in lines)
    return found


def import_of_great_expectations(environ: Mapping[str, str], log: Path) -> float:
    """Processor seconds that a job with a gate pays for the import, beyond PySpark's own."""
    without, beyond = (
        measure([sys.executable, "-c", code], environ, log).processor
        for code in (
            "import pyspark.sql.functions",
            "import pyspark.sql.functions; from tidegate.spark import gate; gate.warm_up()",
        )
    )
    return beyond - without


def _event_log(folder: Path) -> list[str]:
    """Flags for spark-submit's JVM.

    A configuration folder would do too, but stands on the class path: then the JVM would refuse the class data archive.
    """
    settings = {"enabled": "true", "dir": folder.as_uri(), "rolling.enabled": "false", "compress": "false"}
    return [f"-Dspark.eventLog.{name}={value}" for name, value in settings.items()]


class _Look:
    """Looks at all processes below this one, again and again, in a thread of its own."""

    def __init__(self) -> None:
        self.peaks: Counter[str] = Counter()
        self._seen: dict[tuple[int, float], tuple[str, float]] = {}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> _Look:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def processor(self) -> dict[str, float]:
        """Seconds by role."""
        seconds: dict[str, float] = defaultdict(float, dict.fromkeys(ROLES, 0.0))
        for role, each in self._seen.values():
            seconds[role] += each
        return seconds

    def _run(self) -> None:
        own = psutil.Process()
        while not self._over.wait(_LOOK_SECONDS):
            resident: Counter[str] = Counter()
            for process in own.children(recursive=True):
                with contextlib.suppress(psutil.NoSuchProcess, psutil.ZombieProcess), process.oneshot():
                    role, times = _role(process), process.cpu_times()
                    self._seen[process.pid, process.create_time()] = (role, times.user + times.system)
                    resident[role] += process.memory_info().rss
            self.peaks |= resident


def _role(process: psutil.Process) -> str:
    words = process.cmdline()
    if process.name() == "java":
        return "JVM"
    if "pyspark.daemon" in words:
        return "workers"
    return "driver" if any(word.endswith(("run_pipeline.py", "_by_hand.py")) for word in words) else "other"
