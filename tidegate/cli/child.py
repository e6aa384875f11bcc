"""Runs the job as a child process in its own process group, follows its report, and ends it together with the command."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

from tidegate.errors import StoppedError
from tidegate.processes import end_group
from tidegate.reports.report import RunReport
from tidegate.store import Address

POLL_SECONDS = 0.2
BUCKET_SECONDS = 10.0
"""Seconds between two readings of the report in a bucket: each is a request."""
GRACE_SECONDS = 4.0
"""Seconds between SIGTERM and SIGKILL, so that the JVM can finish its write."""


def watch(
    start: Callable[[], subprocess.Popen[bytes]], address: Address, show: Callable[[RunReport | None], None]
) -> tuple[int, RunReport | None]:
    """Start the job, show its report while it runs, and return its exit code and last report.

    Args:
        start: Starts the job as the leader of its own process group.
        address: To which the job writes its report.
        show: Called with the current report, several times a second where it is in a folder; None while there is none.

    Raises:
        StoppedError: The command received a signal; all processes of the job's group have ended.
    """
    with _recorded_signals() as signals:
        process, read_at = start(), 0.0
        try:
            while process.poll() is None and not signals:
                if (now := time.monotonic()) >= read_at:
                    show(RunReport.read(address))
                    read_at = now if address.store.is_local else now + BUCKET_SECONDS
                with suppress(subprocess.TimeoutExpired):
                    process.wait(POLL_SECONDS)
        finally:
            # Also after its normal end, because descendants may remain.
            end_group(process.pid, grace=GRACE_SECONDS, hurried=lambda: len(signals) > 1)
            process.wait()
        if signals:
            raise StoppedError(signals[0])
    report = RunReport.read(address)
    show(report)
    return process.returncode, report


@contextmanager
def _recorded_signals() -> Iterator[list[int]]:
    """Record SIGINT, SIGTERM and SIGHUP instead of interrupting the command at an arbitrary place."""
    signals: list[int] = []

    def record(number: int, _: FrameType | None) -> None:
        signals.append(number)

    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, record) for number in numbers}
    try:
        yield signals
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
