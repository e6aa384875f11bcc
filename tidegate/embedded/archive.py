"""A class data archive (AppCDS) for the driver's JVM: the start of every Spark job halves.

A JVM that starts Spark loads and verifies some twenty thousand classes; with an archive it maps them, ready made, from
one file. The file fits one JVM and one exact class path. Both are part of its name, so a stale one is never used; and
when it does not fit all the same, the JVM starts as if it were not there, and says nothing.
"""

from __future__ import annotations

import hashlib
import logging
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tidegate.embedded import jars, java, places
from tidegate.errors import TidegateError

log = logging.getLogger(__name__)

_TRAINING_SECONDS = 600
_IMPOSSIBLE = ".failed.txt"
"""Beside where the archive would lie: the log of a training that made none, so that not every set-up tries again."""

# A JVM that finds its archive unusable would warn on stdout, in every job's log.
_SILENT = ("-Xlog:cds=off", "-Xlog:cds+dynamic=off", "-Xlog:class+path=off")


def file(project_root: Path) -> Path:
    """Where the archive for this JVM and this class path lies, or would lie.

    Raises:
        SetupError: There is no Java, no PySpark, or a jar is missing.
    """
    found = java.find()
    ours = [Path(path) for path in jars.class_path(project_root, "spark").split(os.pathsep)]
    sparks = sorted((places.spark_home() / "jars").glob("*.jar"))
    told = [str(found.executable.resolve()), found.version]
    for path in (*ours, *sparks):
        stat = path.stat()
        # With the time: the JVM compares it too, and would refuse an archive whose jars were copied anew.
        told.append(f"{path} {stat.st_size} {stat.st_mtime_ns}")
    digest = hashlib.sha256("\n".join(told).encode()).hexdigest()
    return places.archive_dir(project_root.absolute()) / f"driver-{digest[:16]}.jsa"


def options(project_root: Path) -> list[str]:
    """The JVM's flags to start a driver from the archive, for ``spark.driver.extraJavaOptions``.

    The driver's class path has to begin with ``jars.class_path(project_root, "spark")``. A flag with a blank in it is
    quoted in the way that Spark reads its options.

    Returns:
        The flags, or none when there is no archive for this JVM and class path.
    """
    try:
        archive = file(project_root)
    except (TidegateError, OSError):
        # Whoever starts the driver next says what is missing, and better.
        return []
    if not archive.exists():
        return []
    return [_quoted(f"-XX:SharedArchiveFile={archive}"), "-Xshare:auto", *_SILENT]


def is_settled(project_root: Path) -> bool:
    """Whether ``build`` has nothing to do: the archive is there, or this JVM was found unable to make one.

    Raises:
        SetupError: There is no Java, no PySpark, or a jar is missing.
    """
    archive = file(project_root)
    return archive.exists() or archive.with_suffix(_IMPOSSIBLE).exists()


def build(project_root: Path) -> Path | None:
    """Makes the archive by a small training job, unless it is there. Takes about half a minute and 100 MB.

    Returns:
        The file; None when this JVM cannot make one (jobs then start slower, nothing else).

    Raises:
        SetupError: There is no Java, no PySpark, or a jar is missing.
    """
    archive = file(project_root)
    if archive.exists():
        return archive
    archive.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".training-", dir=archive.parent) as scratch:
        part = Path(scratch) / "driver.jsa"
        end = _train(project_root, part)
        if not part.exists():
            log.warning("no class data archive could be made, so jobs start slower; see %s", archive.parent)
            archive.with_suffix(_IMPOSSIBLE).write_text(f"{end}\n", encoding="utf-8")
            return None
        part.replace(archive)
    for path in archive.parent.glob("driver-*"):
        # A driver that runs from it now has it mapped and keeps it.
        if path != archive:
            path.unlink(missing_ok=True)
    return archive


def _train(project_root: Path, part: Path) -> str:
    spark_home = places.spark_home()
    command = [
        *(str(spark_home / "bin" / "spark-submit"), "--master", "local[2]"),
        *("--driver-class-path", jars.class_path(project_root, "spark")),
        *("--driver-java-options", " ".join([_quoted(f"-XX:ArchiveClassesAtExit={part}"), *_SILENT])),
        *("--conf", "spark.driver.host=127.0.0.1", "--conf", "spark.driver.bindAddress=127.0.0.1"),
        *("--conf", f"spark.sql.warehouse.dir={part.parent}/warehouse"),
        str(Path(__file__).with_name("training.py")),
    ]
    environ = {**os.environ, "SPARK_HOME": str(spark_home), "PYSPARK_PYTHON": sys.executable}
    environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    # It would put another folder on the class path, for which the archive would be made then.
    environ.pop("SPARK_CONF_DIR", None)
    try:
        done = subprocess.run(
            command,
            cwd=part.parent,
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=_TRAINING_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"The training took more than {_TRAINING_SECONDS} s."
    if done.returncode:
        # An archive of a run that broke off would fit, and hold half of the classes.
        part.unlink(missing_ok=True)
    return "\n".join(done.stdout.splitlines()[-20:])


def _quoted(flag: str) -> str:
    return f'"{flag}"' if any(char.isspace() for char in flag) else flag
