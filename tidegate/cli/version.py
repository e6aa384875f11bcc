"""``tidegate version``."""

from __future__ import annotations

import platform
from importlib import metadata

from tidegate import __version__
from tidegate.lake.layout import LAKE_FORMAT

_DEPENDENCIES = ("apache-airflow", "pyspark", "delta-spark", "great-expectations", "deltalake")


def version() -> None:
    """Show the versions of Tidegate and its main dependencies."""
    print(f"tidegate {__version__} (lake format {LAKE_FORMAT})")
    print(f"python {platform.python_version()}")
    for name in _DEPENDENCIES:
        print(f"{name} {_installed(name)}")


def _installed(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "not installed"
