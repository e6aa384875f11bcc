"""Ctrl-C and a polite kill, as the commands of this folder hear them."""

from __future__ import annotations

import signal
from types import FrameType
from typing import NoReturn

EXIT_INTERRUPTED = 130


class Interrupted(KeyboardInterrupt):
    """What Ctrl-C raises here.

    Not `KeyboardInterrupt` itself: one that strikes while Python evaluates a string (each dataclass that is imported
    does) makes ``python -m`` die of SIGINT at its end, whoever caught it and whatever code was to be returned
    (``run_eval_code_obj`` in CPython's Python/pythonrun.c, ``Py_RunMain`` in Modules/main.c).
    """


def listen() -> None:
    """From now on SIGINT and SIGTERM raise `Interrupted` in the main thread; a SIGINT that is ignored stays ignored."""
    signal.signal(signal.SIGTERM, _interrupt)
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _interrupt)


def _interrupt(number: int, frame: FrameType | None) -> NoReturn:
    raise Interrupted
