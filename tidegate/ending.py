"""How a process of ours ends once its work is done."""

from __future__ import annotations

import logging
import os
import sys
from typing import NoReturn


def leave(code: int) -> NoReturn:
    """End this process at once, with an exit code and all that it wrote.

    Threads of native libraries (delta-rs, DuckDB, pyarrow, librdkafka) do not always survive the interpreter's end: the
    process would abort after its work was done, and its exit code would lie. It lies as well after a Ctrl-C that struck
    while Python evaluated a string, as the import of a dataclass does: ``python -m`` then dies of SIGINT, whoever caught
    it (``run_eval_code_obj`` in CPython's Python/pythonrun.c, ``Py_RunMain`` in Modules/main.c).
    """
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
