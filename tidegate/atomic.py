"""Files that a reader sees whole: the old one or the new one, never half of one."""

from __future__ import annotations

import contextlib
import os
import threading
from pathlib import Path


def write_text(path: Path, text: str) -> None:
    """Write a file under another name beside its place, then rename it; its folder is made when it is not there.

    Two writers at once do not meet in the draft; the last rename stays.

    Args:
        path: The file.
        text: All of it, kept as UTF-8.

    Raises:
        OSError: It cannot be written; the old file stays as it was, and no draft is left.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}-{threading.get_ident()}.tmp")
    try:
        draft.write_text(text, encoding="utf-8")
        draft.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            draft.unlink(missing_ok=True)
        raise
