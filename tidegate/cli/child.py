"""The job as a child process: started in a group of its own, watched through its report, ended with the command."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tidegate.errors import StoppedError

if TYPE_CHECKING:
    from types import FrameType

    from tidegate.report import RunReport

POLL_SECONDS = 0.2
GRACE_SECONDS = 4.0
"""Between SIGTERM and SIGKILL, for the JVM to end its write."""


def watch(
    start: Callable[[], subprocess.Popen[bytes]], path: Path, tell: Callable[[RunReport | None], None]
) -> tuple[int, RunReport | None]:
    """Start the job, tell what its report says while it runs, and return its exit code and last report.

    Args:
        start: Starts it as the leader of its own process group.
        path: Where it writes its report.
        tell: Called some times a second with the report as it is; None while there is none.

    Raises:
        StoppedError: Somebody stopped the command; nothing of the job's process group is left.
    """
    from tidegate.report import RunReport

    with _noted_signals() as noted:
        process = start()
        try:
            while process.poll() is None and not noted:
                tell(RunReport.read(path))
                time.sleep(POLL_SECONDS)
        finally:
            end_group(process, hurried=lambda: len(noted) > 1)
        if noted:
            raise StoppedError(noted[0])
    report = RunReport.read(path)
    tell(report)
    return process.returncode, report


def end_group(process: subprocess.Popen[bytes], *, hurried: Callable[[], bool] = lambda: False) -> None:
    """End all that is left of the process's group: SIGTERM, and SIGKILL after the grace.

    Args:
        process: The leader of the group.
        hurried: Whether somebody will not wait for the grace to end (a second Ctrl-C).
    """
    deadline = time.monotonic() + GRACE_SECONDS
    alive = _signal(process, signal.SIGTERM)
    while alive and time.monotonic() < deadline and not hurried():
        time.sleep(0.05)
        alive = _signal(process, 0)
    while alive:
        alive = _signal(process, signal.SIGKILL)
        time.sleep(0.05)
    process.wait()


def _signal(process: subprocess.Popen[bytes], number: int) -> bool:
    """Send a signal to the group and return whether anybody is left in it."""
    process.poll()  # a leader that nobody waits for would keep the group alive as a zombie
    try:
        os.killpg(process.pid, number)
    except ProcessLookupError:
        return False
    return True


@contextmanager
def _noted_signals() -> Iterator[list[int]]:
    """Note Ctrl-C, SIGTERM and SIGHUP instead of obeying them wherever the command is just now."""
    noted: list[int] = []

    def note(number: int, _: FrameType | None) -> None:
        noted.append(number)

    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, note) for number in numbers}
    try:
        yield noted
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
