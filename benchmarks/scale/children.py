"""Measurements in processes of their own, so that no measurement has the memory of the one before."""

from __future__ import annotations

import multiprocessing
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class Use:
    """What a call used."""

    processor: float
    """Seconds of this process."""


def in_child(measure: Callable[..., dict[str, Any]], *arguments: Any) -> dict[str, Any]:
    """What a function of a module gives in a new process."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(measure, arguments)


def used(call: Callable[[], T]) -> tuple[T, Use]:
    """The result of a call, and what it used."""
    started = time.process_time()
    result = call()
    return result, Use(time.process_time() - started)


def allocated(call: Callable[[], object]) -> int:
    """Bytes that Python's objects had at most at one time of a call, beyond those before it."""
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
