"""Atomic changes of files and folders: a reader sees what was before or what is after, never a part of it."""

from __future__ import annotations

import contextlib
import os
import shutil
import threading
from pathlib import Path

from tidegate.errors.classification import accessing


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
        with accessing(path, "write"):
            temporary.write_text(text, encoding="utf-8")
        temporary.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise


def remove_folder(folder: Path) -> None:
    """Remove a folder as a whole: after an interruption it is there with all of its files, or not at all.

    It is renamed first. What an interrupted removal leaves behind, under a hidden name, goes with the next one.

    Raises:
        OSError: It does not exist, or cannot be removed.
    """
    hidden = folder.with_name(f".{folder.name}.removed")
    shutil.rmtree(hidden, ignore_errors=True)
    folder.rename(hidden)
    shutil.rmtree(hidden)
