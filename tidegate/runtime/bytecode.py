"""Compiles the installed packages to bytecode. Without it, every process compiles its imports again.

uv does not compile packages, and with ``PYTHONDONTWRITEBYTECODE`` Python does not store the bytecode of its imports: each
import of Great Expectations then takes 14 s of CPU instead of 6. ``python -m tidegate.runtime.bytecode`` compiles what is
not compiled yet; `tidegate setup` and `scripts/setup.sh` run it.
"""

from __future__ import annotations

import compileall
import logging
import os
import sys
import sysconfig
from importlib.util import cache_from_source
from pathlib import Path

log = logging.getLogger(__name__)

COMPLETE = 0.99
"""Share of compiled source files that counts as complete. Some packages ship templates ``*.py`` that are not Python."""


def share(folder: Path) -> float:
    """The share of the Python files below a folder that have bytecode for this Python; 1.0 when there are none."""
    sources = compiled = 0
    for parent, folders, names in os.walk(folder):
        if parent.endswith("__pycache__"):
            continue
        modules = [name for name in names if name.endswith(".py")]
        sources += len(modules)
        if modules and "__pycache__" in folders:
            cached = {path.name for path in Path(parent, "__pycache__").iterdir()}
            compiled += sum(Path(cache_from_source(name)).name in cached for name in modules)
    return compiled / sources if sources else 1.0


def ensure(folder: Path, *, workers: int = 0) -> bool:
    """Compile the Python files below a folder, unless they are compiled.

    Args:
        folder: For example the ``site-packages`` of an environment.
        workers: Number of processes; 0 for one per processor.

    Returns:
        Whether there was anything to do.
    """
    if share(folder) >= COMPLETE:
        return False
    log.info("compiling the packages to bytecode, so that programs start in half the time")
    compileall.compile_dir(folder, quiet=2, workers=workers)
    return True


def is_compiled(module: object) -> bool:
    """Whether Python loaded a module from bytecode on disk."""
    cached = getattr(module, "__cached__", None)
    return cached is not None and Path(cached).exists()


if __name__ == "__main__":
    logging.basicConfig(format="setup: %(message)s", level=logging.INFO, stream=sys.stderr)
    ensure(Path(sysconfig.get_paths()["purelib"]))
