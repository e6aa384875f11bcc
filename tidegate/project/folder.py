"""The folder of a project: where it is, and its packages for `import`."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from pathlib import Path

_MARKS = ("tidegate.toml", "pipelines/__init__.py")
"""Files of which each project has at least one."""


def find(file: Path) -> Path | None:
    """The project that has a file: the nearest folder above it with the settings or the declarations of one; None if there is none."""
    return next((each for each in file.absolute().parents if any((each / mark).is_file() for mark in _MARKS)), None)


def make_importable(project: Path) -> None:
    """Make the project's `pipelines` and `spark_jobs` importable, here and in child processes, before all others of these names."""
    if not _is_importable(project):
        sys.path.insert(0, str(project))
        importlib.invalidate_caches()
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(project), os.environ.get("PYTHONPATH")]))


def _is_importable(project: Path) -> bool:
    spec = importlib.util.find_spec("pipelines")
    folders = spec.submodule_search_locations if spec is not None else None
    return (project / "pipelines").resolve() in [Path(folder).resolve() for folder in folders or ()]
