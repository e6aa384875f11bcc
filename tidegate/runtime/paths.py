"""Paths of the lock of the jars and of the cache of this user."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from tidegate.advice import Edit
from tidegate.errors import SetupError

_CACHE = "set TIDEGATE_CACHE to a folder that this user may write"


def lock_file(project_root: Path) -> Path:
    """The file with the pinned jars and their checksums: that of this version of the platform, or one that the project has instead."""
    own = project_root / "jars.lock.json"
    return own if own.exists() else Path(__file__).with_name("jars.lock.json")


def cache_dir() -> Path:
    """The cache of this user for jars and class data archives, of all projects: ``$TIDEGATE_CACHE``, else in the user's cache folder.

    Links are resolved, because a class data archive is valid for the paths of its jars.

    Raises:
        SetupError: The user has no home folder.
    """
    try:
        if chosen := os.environ.get("TIDEGATE_CACHE"):
            return Path(chosen).expanduser().absolute().resolve()
        # The XDG specification says to ignore relative paths.
        shared = Path(os.environ.get("XDG_CACHE_HOME", ""))
        return ((shared if shared.is_absolute() else Path.home() / ".cache") / "tidegate").resolve()
    except RuntimeError as error:
        raise SetupError("this user has no home folder for a cache", Edit(_CACHE, "setting")) from error


@contextlib.contextmanager
def writing(folder: Path) -> Iterator[None]:
    """Create a folder of the cache and write below it.

    Raises:
        SetupError: The operating system refuses a write, such as in a read-only home, or the disk is full.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as error:
        reason = f"{error.strerror or error} ({error.filename or folder})"
        raise SetupError(f"the cache {cache_dir()} cannot be written: {reason}", Edit(_CACHE, "setting")) from error
