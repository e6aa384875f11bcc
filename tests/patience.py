"""How long tests wait for something that happens in another process or thread: until it is so, with one generous limit.

A test never asserts how fast something is; `benchmarks/` measures that. The limit only ends a test that waits for ever.
"""

from __future__ import annotations

import time
from collections.abc import Callable

PATIENCE = 240.0
"""Seconds. Far beyond what any wait takes on a machine at a load of 20."""


def until(condition: Callable[[], bool], what: str = "") -> None:
    """Wait until a condition is true.

    Args:
        condition: Called every tenth of a second; it must not raise.
        what: What is waited for, for the message.

    Raises:
        AssertionError: The condition was still false after `PATIENCE` seconds.
    """
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, f"still waiting after {PATIENCE:.0f} s: {what or condition}"
        time.sleep(0.1)
