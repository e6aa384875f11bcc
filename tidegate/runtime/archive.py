"""The class data archive (AppCDS) for the driver's JVM, which halves the start time of Spark jobs.

Without an archive, a JVM that starts Spark loads and verifies about twenty thousand classes; with one, it maps them from one
file. An archive is valid for one JVM and one exact class path. Both are part of its name, so an outdated one is not used. If
it does not match nevertheless, the JVM silently starts without it. From Java 25 on it is the JVM's AOT cache, which has linked classes
and needs no base archive (JEP 483, 514). It is in the cache of this user; `tidegate.runtime.archive_build` creates it.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from pathlib import Path

from tidegate.errors import TidegateError
from tidegate.runtime import jars, java, job_environment, paths
from tidegate.runtime.java import Java

OLDEST_WITH_AOT = 25
"""The oldest Java that writes an AOT cache in one step."""
SILENT = ("-Xlog:cds=off", "-Xlog:cds+dynamic=off", "-Xlog:class+path=off")
"""Without these flags, a JVM that cannot use its archive prints warnings to stdout, into every job's log."""
_SILENT_AOT = ("-Xlog:aot=off",)
"""The same for an AOT cache."""


def find(project_root: Path, python: Path | None = None) -> Path | None:
    """The archive for this JVM and this class path, or None when there is none.

    Args:
        project_root: The project, which may have a lock of its own.
        python: The Python of the jobs, by default that of this process.

    Raises:
        SetupError: There is no Java, no PySpark, or a jar is missing.
    """
    return _find(project_root, java.find(python=python), python)


def _find(project_root: Path, jvm: Java, python: Path | None) -> Path | None:
    # The name ends with the size, because a JVM crashes when the archive is truncated. It ignores archives that do not
    # match in other ways.
    for path in folder().glob(f"{file_stem(project_root, jvm, python)}-*.jsa"):
        if path.stem.endswith(f"-{path.stat().st_size}"):
            return path
    return None


def folder() -> Path:
    """The folder of the archives of all projects of this user."""
    return paths.cache_dir() / "archive"


def options(project_root: Path, python: Path | None = None) -> list[str]:
    """The JVM flags that start a driver with the archive, for ``spark.driver.extraJavaOptions``.

    The driver's class path has to begin with ``jars.class_path(project_root, "spark")``. A flag that contains a blank is
    quoted as Spark expects it. Arguments are those of `find`.

    Returns:
        The flags; empty when there is no archive for this JVM and class path.
    """
    try:
        jvm = java.find(python=python)
        archive = _find(project_root, jvm, python)
        if archive is not None:
            # The builder removes those that were not used for longest.
            with contextlib.suppress(OSError):
                os.utime(archive)
    except (TidegateError, OSError):
        # The start of the driver reports what is missing.
        return []
    return flags(archive, jvm) if archive else []


def file_stem(project_root: Path, jvm: Java, python: Path | None = None) -> str:
    """The beginning of the archive's file name, which identifies this JVM and this class path.

    Raises:
        SetupError: There is no PySpark, or a jar is missing.
    """
    spark_jars = sorted((job_environment.spark_home(python) / "jars").glob("*.jar"))
    parts = [str(jvm.executable.resolve()), jvm.version]
    for path in (*jars.files(project_root, "spark"), *spark_jars):
        stat = path.stat()
        # With the time in seconds: the JVM compares it too, and refuses an archive whose jars were copied again.
        parts.append(f"{path} {stat.st_size} {int(stat.st_mtime)}")
    return f"driver-{hashlib.sha256(chr(10).join(parts).encode()).hexdigest()[:16]}"


def flags(archive: Path, jvm: Java) -> list[str]:
    """The JVM flags that start a driver with an archive, or silently without it if it does not match."""
    if jvm.major >= OLDEST_WITH_AOT:
        return [quoted(f"-XX:AOTCache={archive}"), "-XX:AOTMode=auto", *_SILENT_AOT]
    return [quoted(f"-XX:SharedArchiveFile={archive}"), "-Xshare:auto", *SILENT]


def creating(archive: Path, jvm: Java) -> list[str]:
    """The JVM flags by which a driver writes an archive when it ends."""
    if jvm.major >= OLDEST_WITH_AOT:
        return [quoted(f"-XX:AOTCacheOutput={archive}"), *_SILENT_AOT]
    return [quoted(f"-XX:ArchiveClassesAtExit={archive}"), *SILENT]


def proving(archive: Path, jvm: Java) -> list[str]:
    """The JVM flags by which a driver verifies an archive and does not start without it."""
    if jvm.major >= OLDEST_WITH_AOT:
        return [quoted(f"-XX:AOTCache={archive}"), "-XX:AOTMode=on", "-XX:+VerifySharedSpaces"]
    return [quoted(f"-XX:SharedArchiveFile={archive}"), "-Xshare:on", "-XX:+VerifySharedSpaces"]


def quoted(flag: str) -> str:
    """A flag as Spark expects it in a list of JVM options."""
    return f'"{flag}"' if any(char.isspace() for char in flag) else flag
