"""``tidegate version``."""

from __future__ import annotations

import platform

from tidegate import __version__
from tidegate.errors.extras import installed_version
from tidegate.lake.layout import LAKE_FORMAT

_DEPENDENCIES = ("apache-airflow", "pyspark", "delta-spark", "great-expectations", "deltalake")


def version() -> None:
    """Show the versions of Tidegate and its main dependencies."""
    print(f"tidegate {__version__} (lake format {LAKE_FORMAT})")
    print(f"python {platform.python_version()}")
    for name in _DEPENDENCIES:
        print(f"{name} {installed_version(name) or 'not installed'}")
