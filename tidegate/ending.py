"""How a process of ours ends once its work is done."""

from __future__ import annotations

import logging
import os
import sys
from typing import NoReturn


def leave(code: int) -> NoReturn:
    """End this process at once, with an exit code and all that it wrote.

    Threads of native libraries (delta-rs, DuckDB, pyarrow, librdkafka) do not always survive the interpreter's end: the
    process would abort after its work was done, and its exit code would lie.
    """
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
