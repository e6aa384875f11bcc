"""Waiting in tests for a condition in another process or thread, with one generous timeout.

Tests never assert how fast something is; `benchmarks/` measures that. The timeout only ends a test that would wait forever.
"""

from __future__ import annotations

import time
from collections.abc import Callable

TIMEOUT_SECONDS = 240.0
"""Far above any wait on a machine with a load of 20."""


def wait_until(condition: Callable[[], bool], what: str = "") -> None:
    """Wait until a condition is true.

    Args:
        condition: Called every tenth of a second; it must not raise.
        what: Describes the condition in the error message.

    Raises:
        AssertionError: The condition was still false after `TIMEOUT_SECONDS` seconds.
    """
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"still waiting after {TIMEOUT_SECONDS:.0f} s: {what or condition}"
        time.sleep(0.1)
