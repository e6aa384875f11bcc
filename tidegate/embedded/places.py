"""Where the embedded default keeps its files: git-ignored folders of the project, and one cache outside of it."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

from tidegate.errors import SetupError


def lock_file(project_root: Path) -> Path:
    """The pinned jars, with their checksums."""
    return project_root / "jars.lock.json"


def jars_dir(project_root: Path, set_name: str) -> Path:
    """The git-ignored folder that holds exactly one set of the pinned jars, with all links resolved.

    So a project whose ``jars`` is a link has the same class path, to the letter, as the one it links to, and can start
    from the same class data archive.
    """
    return (project_root / "jars").resolve() / set_name


def archive_dir(project_root: Path) -> Path:
    """Where the class data archive lies: with the jars that it was made from."""
    return (project_root / "jars").resolve() / "archive"


def airflow_home(project_root: Path) -> Path:
    """The project's own Airflow home, so that a clone never touches the Airflow of its user."""
    return project_root / ".airflow"


def cache_dir() -> Path:
    """The cache that all clones on this machine share: ``$TIDEGATE_CACHE``, else the user's own cache folder."""
    chosen = os.environ.get("TIDEGATE_CACHE")
    if chosen:
        return Path(chosen).expanduser().absolute()
    # The XDG rules say that a relative path there is to be ignored.
    shared = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (shared if shared.is_absolute() else Path.home() / ".cache") / "tidegate"


def spark_home() -> Path:
    """The Spark that PySpark brings, found without importing PySpark (that would cost a second).

    Raises:
        SetupError: PySpark is not installed in this environment.
    """
    found = importlib.util.find_spec("pyspark")
    if found is None or not found.submodule_search_locations:
        raise SetupError("PySpark is not installed in this Python environment: run `make setup`.")
    return Path(found.submodule_search_locations[0])
