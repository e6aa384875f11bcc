"""Paths of the embedded services: git-ignored folders of the project, and one shared cache outside of it."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

from tidegate.errors import SetupError


def lock_file(project_root: Path) -> Path:
    """The file with the pinned jars and their checksums."""
    return project_root / "jars.lock.json"


def jars_dir(project_root: Path, set_name: str) -> Path:
    """The git-ignored folder with exactly one set of the pinned jars, with links resolved.

    So a project whose ``jars`` is a link has exactly the same class path as the link's target, and can use the same class
    data archive.
    """
    return (project_root / "jars").resolve() / set_name


def archive_dir(project_root: Path) -> Path:
    """The folder of the class data archive, next to the jars that it was created from."""
    return (project_root / "jars").resolve() / "archive"


def airflow_home(project_root: Path) -> Path:
    """The project's own Airflow home, separate from the user's."""
    return project_root / ".airflow"


def cache_dir() -> Path:
    """The cache that all clones on this machine share: ``$TIDEGATE_CACHE``, else the user's own cache folder."""
    chosen = os.environ.get("TIDEGATE_CACHE")
    if chosen:
        return Path(chosen).expanduser().absolute()
    # The XDG specification says to ignore relative paths.
    shared = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (shared if shared.is_absolute() else Path.home() / ".cache") / "tidegate"


def spark_home() -> Path:
    """The Spark installation of PySpark, without importing PySpark (which takes a second).

    Raises:
        SetupError: PySpark is not installed in this environment.
    """
    spec = importlib.util.find_spec("pyspark")
    if spec is None or not spec.submodule_search_locations:
        raise SetupError("PySpark is not installed in this Python environment: run `make setup`.")
    return Path(spec.submodule_search_locations[0])
