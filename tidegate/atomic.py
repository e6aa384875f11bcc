"""Atomic replacement of files: a reader sees the old or the new file, never a part of one."""

from __future__ import annotations

import contextlib
import os
import threading
from pathlib import Path


def write_text(path: Path, text: str) -> None:
    """Write a temporary file in the same folder, which is created if needed, and rename it to ``path``.

    Concurrent writers use different temporary files; the last rename wins.

    Args:
        text: Its whole content, written as UTF-8.

    Raises:
        OSError: It cannot be written; the old file is unchanged, and the temporary file is removed.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}-{threading.get_ident()}.tmp")
    try:
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise
