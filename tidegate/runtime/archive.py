"""The class data archive (AppCDS) for the driver's JVM, which halves the start time of Spark jobs.

Without an archive, a JVM that starts Spark loads and verifies about twenty thousand classes; with one, it maps them from one
file. An archive is valid for one JVM and one exact class path. Both are part of its name, so an outdated one is not used. If
it does not match nevertheless, the JVM silently starts without it. ``devstack.build_archive`` creates it at set-up.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from tidegate.errors import TidegateError
from tidegate.runtime import jars, java, paths

SILENT = ("-Xlog:cds=off", "-Xlog:cds+dynamic=off", "-Xlog:class+path=off")
"""Without these flags, a JVM that cannot use its archive prints warnings to stdout, into every job's log."""


def find(project_root: Path) -> Path | None:
    """The archive for this JVM and this class path, or None when there is none.

    Raises:
        SetupError: There is no Java, no PySpark, or a jar is missing.
    """
    # The name ends with the size, because a JVM crashes when the archive is truncated. It ignores archives that do not
    # match in other ways.
    for path in paths.archive_dir(project_root).glob(f"{file_stem(project_root)}-*.jsa"):
        if path.stem.endswith(f"-{path.stat().st_size}"):
            return path
    return None


def options(project_root: Path) -> list[str]:
    """The JVM flags that start a driver with the archive, for ``spark.driver.extraJavaOptions``.

    The driver's class path has to begin with ``jars.class_path(project_root, "spark")``. A flag that contains a blank is
    quoted as Spark expects it.

    Returns:
        The flags; empty when there is no archive for this JVM and class path.
    """
    try:
        archive = find(project_root)
    except (TidegateError, OSError):
        # The start of the driver reports what is missing.
        return []
    return flags(archive) if archive else []


def file_stem(project_root: Path) -> str:
    """The beginning of the archive's file name, which identifies this JVM and this class path.

    Raises:
        SetupError: There is no Java, no PySpark, or a jar is missing.
    """
    jvm = java.find()
    own_jars = [Path(path) for path in jars.class_path(project_root, "spark").split(os.pathsep)]
    spark_jars = sorted((paths.spark_home() / "jars").glob("*.jar"))
    parts = [str(jvm.executable.resolve()), jvm.version]
    for path in (*own_jars, *spark_jars):
        stat = path.stat()
        # With the time in seconds: the JVM compares it too, and refuses an archive whose jars were copied again.
        parts.append(f"{path} {stat.st_size} {int(stat.st_mtime)}")
    return f"driver-{hashlib.sha256(chr(10).join(parts).encode()).hexdigest()[:16]}"


def flags(archive: Path) -> list[str]:
    """The JVM flags that start a driver with an archive, or silently without it if it does not match."""
    return [quoted(f"-XX:SharedArchiveFile={archive}"), "-Xshare:auto", *SILENT]


def quoted(flag: str) -> str:
    """A flag as Spark expects it in a list of JVM options."""
    return f'"{flag}"' if any(char.isspace() for char in flag) else flag
