"""The end of the driver, simulated within the process of a test: a function of the product that never returns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn


class Crash(BaseException):
    """Simulates the end of the driver: no ``except Exception`` of the product handles it."""


def crash(*_: Any, **__: Any) -> NoReturn:
    """Takes the place of a function before which the driver ends."""
    raise Crash


def crash_after(function: Callable[..., Any]) -> Callable[..., NoReturn]:
    """What takes the place of a function after which the driver ends."""

    def crashing(*args: Any, **options: Any) -> NoReturn:
        function(*args, **options)
        raise Crash

    return crashing
