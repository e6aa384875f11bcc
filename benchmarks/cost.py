"""Measures a command and its descendants: processor time, wall time, memory, Spark jobs and SQL executions.

Linux only: the measuring process becomes the subreaper of its descendants, so that it also measures Spark workers that outlive
their JVM.
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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

ROLES = ("JVM", "driver", "workers", "other")
"""The JVM; the Python process of the driver; the Python workers of tasks; the command and processes too short to sample."""
_PR_SET_CHILD_SUBREAPER = 36
_SAMPLE_SECONDS = 0.5
_COUNTED = ("SparkListenerJobStart", "org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionStart")


@dataclass(frozen=True, kw_only=True)
class Cost:
    """The cost of one command."""

    processor: float
    """Processor seconds of the whole process tree, in user and system mode."""
    wall: float
    """Elapsed seconds."""
    roles: Mapping[str, float]
    """``processor`` by `ROLES`, sampled twice a second; time that no sample contains counts as ``other``."""
    peaks: Mapping[str, int]
    """Maximum bytes of resident memory by `ROLES`, sampled twice a second; shared memory counts for each process."""
    jobs: int
    """Number of Spark jobs."""
    executions: int
    """Number of SQL executions of Spark."""

    def summary(self) -> str:
        """All values except memory, as one line."""
        parts = ", ".join(f"{role} {self.roles[role]:.1f}" for role in ROLES)
        return (
            f"{self.jobs:3d} jobs, {self.executions:3d} executions, processor {self.processor:6.1f} s ({parts}), "
            f"wall {self.wall:6.1f} s"
        )


def measure(command: Sequence[str], environ: Mapping[str, str], log: Path) -> Cost:
    """Run a command to its end. Its Spark applications write temporary event logs for the counts.

    Args:
        environ: The command's environment variables.
        log: Its output is appended to this file.

    Raises:
        SystemExit: The command failed.
    """
    if ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise SystemExit("this process cannot become a subreaper (prctl PR_SET_CHILD_SUBREAPER failed)")
    with tempfile.TemporaryDirectory(prefix="events-") as events, log.open("ab") as output:
        started = time.monotonic()
        process = subprocess.Popen(
            command,
            env={**environ, "SPARK_SUBMIT_OPTS": " ".join(_event_log(Path(events)))},
            stdout=output,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
        )
        with Sampler(role_of) as sampler:
            code, wall, processor = 1, 0.0, 0.0
            with contextlib.suppress(ChildProcessError):
                while True:
                    # Includes adopted descendants. The usage of a process includes that of its reaped children.
                    pid, status, used = os.wait4(-1, 0)
                    processor += used.ru_utime + used.ru_stime
                    if pid == process.pid:
                        code, wall = os.waitstatus_to_exitcode(status), time.monotonic() - started
                        process.returncode = code
        if code:
            raise SystemExit(f"{Path(command[0]).name} exited with {code}; see its log {log}")
        roles = dict.fromkeys(ROLES, 0.0) | sampler.processor()
        roles["other"] += max(0.0, processor - sum(roles.values()))
        counted = count_events(Path(events))
        jobs, executions = (counted[event] for event in _COUNTED)
        return Cost(
            processor=processor, wall=wall, roles=roles, peaks=dict(sampler.peaks), jobs=jobs, executions=executions
        )


def count_events(folder: Path) -> Counter[str]:
    """The number of events per name in all event logs of a folder."""
    counts: Counter[str] = Counter()
    for path in folder.iterdir():
        with path.open(encoding="utf-8") as lines:
            counts.update(json.loads(line)["Event"] for line in lines)
    return counts


def import_of_great_expectations(environ: Mapping[str, str], log: Path) -> float:
    """Processor seconds that the import of Great Expectations adds to that of PySpark."""
    without, with_gate = (
        measure([sys.executable, "-c", code], environ, log).processor
        for code in (
            "import pyspark.sql.functions",
            "import pyspark.sql.functions; from tidegate.spark import gate; gate.warm_up()",
        )
    )
    return with_gate - without


def _event_log(folder: Path) -> list[str]:
    """Flags for spark-submit's JVM.

    System properties, because a configuration folder would be on the class path, and the JVM would refuse the class data archive.
    """
    settings = {"enabled": "true", "dir": folder.as_uri(), "rolling.enabled": "false", "compress": "false"}
    return [f"-Dspark.eventLog.{name}={value}" for name, value in settings.items()]


class Sampler:
    """Samples all descendants of this process periodically, in a thread, until the end of a context.

    Args:
        role: The role of a process.
    """

    def __init__(self, role: Callable[[psutil.Process], str]) -> None:
        self.peaks: Counter[str] = Counter()
        """Maximum bytes of resident memory by role."""
        self._role = role
        self._usage: dict[tuple[int, float], tuple[str, float]] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Sampler:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def processor(self) -> dict[str, float]:
        """Processor seconds by role."""
        seconds: dict[str, float] = defaultdict(float)
        for role, each in self._usage.values():
            seconds[role] += each
        return seconds

    def _run(self) -> None:
        own = psutil.Process()
        while not self._stop.wait(_SAMPLE_SECONDS):
            resident: Counter[str] = Counter()
            for process in own.children(recursive=True):
                with contextlib.suppress(psutil.NoSuchProcess, psutil.ZombieProcess), process.oneshot():
                    role, times = self._role(process), process.cpu_times()
                    self._usage[process.pid, process.create_time()] = (role, times.user + times.system)
                    resident[role] += process.memory_info().rss
            self.peaks |= resident


def role_of(process: psutil.Process) -> str:
    """One of `ROLES`."""
    words = process.cmdline()
    if process.name() == "java":
        return "JVM"
    if any(word.endswith(("pyspark.daemon", "worker_daemon")) for word in words):
        return "workers"
    return "driver" if any(word.endswith(("run_pipeline.py", "_by_hand.py")) for word in words) else "other"
