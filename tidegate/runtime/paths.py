"""Paths of the jars, the class data archive and the Spark installation."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from tidegate.errors import extras


def lock_file(project_root: Path) -> Path:
    """The file with the pinned jars and their checksums: that of this version of the platform, or one that the project has instead."""
    own = project_root / "jars.lock.json"
    return own if own.exists() else Path(__file__).with_name("jars.lock.json")


def jars_dir(project_root: Path, set_name: str) -> Path:
    """The git-ignored folder with exactly one set of the pinned jars, with links resolved.

    So a project whose ``jars`` is a link has exactly the same class path as the link's target, and can use the same class
    data archive.
    """
    return (project_root / "jars").resolve() / set_name


def archive_dir(project_root: Path) -> Path:
    """The folder of the class data archive, next to the jars that it was created from."""
    return (project_root / "jars").resolve() / "archive"


def spark_home() -> Path:
    """The Spark installation of PySpark, without importing PySpark (which takes a second).

    Raises:
        SetupError: PySpark is not installed in this environment.
    """
    extras.expect("pyspark")
    spec = importlib.util.find_spec("pyspark")
    assert spec is not None
    assert spec.submodule_search_locations
    return Path(spec.submodule_search_locations[0])
