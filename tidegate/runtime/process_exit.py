"""Ends a process once its work is done."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
from typing import NoReturn


def exit_now(code: int) -> NoReturn:
    """Flush logs, stdout and stderr, then end this process with an exit code, without finalizing the interpreter.

    Threads of native libraries (delta-rs, DuckDB, pyarrow, librdkafka) can crash during the finalization of the interpreter:
    the process would abort after its work was done, with a wrong exit code. The exit code is also wrong after a Ctrl-C during
    ``exec`` of a string, which the import of a dataclass does: ``python -m`` then dies of SIGINT even if the exception was
    handled (``run_eval_code_obj`` in CPython's Python/pythonrun.c, ``Py_RunMain`` in Modules/main.c).
    """
    logging.shutdown()
    for stream in (sys.stdout, sys.stderr):
        # Where the reader is gone or the disk is full the exit code alone says how the work ended.
        with contextlib.suppress(OSError):
            stream.flush()
    os._exit(code)
