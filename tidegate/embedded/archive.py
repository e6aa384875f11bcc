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
_PROOF_SECONDS = 60
# Folders that spark-submit would put on the class path as well; an archive allows none that holds files.
_OTHER_CLASS_PATHS = ("SPARK_CONF_DIR", "HADOOP_CONF_DIR", "YARN_CONF_DIR", "SPARK_DIST_CLASSPATH")
# A JVM that finds its archive unusable would warn on stdout, in every job's log.
_SILENT = ("-Xlog:cds=off", "-Xlog:cds+dynamic=off", "-Xlog:class+path=off")


def find(project_root: Path) -> Path | None:
    """The archive for this JVM and this class path, or None when there is none.

    Raises:
        SetupError: There is no Java, no PySpark, or a jar is missing.
    """
    # The name ends with the size: a JVM that maps a file which is shorter than it was crashes, where it puts up with
    # any other archive that does not fit.
    for path in places.archive_dir(project_root).glob(f"{_stem(project_root)}-*.jsa"):
        if path.stem.endswith(f"-{path.stat().st_size}"):
            return path
    return None


def options(project_root: Path) -> list[str]:
    """The JVM's flags to start a driver from the archive, for ``spark.driver.extraJavaOptions``.

    The driver's class path has to begin with ``jars.class_path(project_root, "spark")``. A flag with a blank in it is
    quoted in the way that Spark reads its options.

    Returns:
        The flags, or none when there is no archive for this JVM and class path.
    """
    try:
        archive = find(project_root)
    except (TidegateError, OSError):
        # Whoever starts the driver next says what is missing, and better.
        return []
    return _flags(archive) if archive else []


def is_settled(project_root: Path) -> bool:
    """Whether ``build`` has nothing to do: the archive is there, or this JVM was found unable to make one.

    Raises:
        SetupError: There is no Java, no PySpark, or a jar is missing.
    """
    return find(project_root) is not None or _failure(project_root).exists()


def build(project_root: Path) -> Path | None:
    """Makes the archive by a small training job, unless it is there. Takes about half a minute and 200 MB.

    Returns:
        The file; None when this JVM cannot make one (jobs then start slower, nothing else).

    Raises:
        SetupError: There is no Java, no PySpark, or a jar is missing.
    """
    if found := find(project_root):
        return found
    folder = places.archive_dir(project_root)
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".training-", dir=folder) as scratch:
        part = Path(scratch) / "driver.jsa"
        end = _train(project_root, part)
        if not part.exists() or not _fits(project_root, part):
            log.warning("no class data archive could be made, so jobs start slower; see %s", _failure(project_root))
            _failure(project_root).write_text(f"{end}\n", encoding="utf-8")
            return None
        with part.open("rb") as written:
            # Before it gets its name: a power failure must not leave a file of this name with holes in it.
            os.fsync(written.fileno())
        archive = folder / f"{_stem(project_root)}-{part.stat().st_size}.jsa"
        part.replace(archive)
    for path in folder.glob("driver-*"):
        # A driver that runs from it now has it mapped and keeps it.
        if path != archive:
            path.unlink(missing_ok=True)
    return archive


def _stem(project_root: Path) -> str:
    """What stands for this JVM and this class path in a file's name."""
    found = java.find()
    ours = [Path(path) for path in jars.class_path(project_root, "spark").split(os.pathsep)]
    sparks = sorted((places.spark_home() / "jars").glob("*.jar"))
    told = [str(found.executable.resolve()), found.version]
    for path in (*ours, *sparks):
        stat = path.stat()
        # With the time, in seconds: the JVM compares it too, and refuses an archive whose jars were copied anew.
        told.append(f"{path} {stat.st_size} {int(stat.st_mtime)}")
    return f"driver-{hashlib.sha256(chr(10).join(told).encode()).hexdigest()[:16]}"


def _failure(project_root: Path) -> Path:
    """The log of a training that made no archive; while it is there, set-up does not try again."""
    return places.archive_dir(project_root) / f"{_stem(project_root)}.failed.txt"


def _flags(archive: Path) -> list[str]:
    return [_quoted(f"-XX:SharedArchiveFile={archive}"), "-Xshare:auto", *_SILENT]


def _train(project_root: Path, part: Path) -> str:
    """Runs the training job, which leaves the archive in ``part`` if all goes well; returns the end of its log."""
    settings = ["--master", "local[2]", "--conf", f"spark.sql.warehouse.dir={part.parent}/warehouse"]
    settings += ["--conf", "spark.driver.host=127.0.0.1", "--conf", "spark.driver.bindAddress=127.0.0.1"]
    script = str(Path(__file__).with_name("training.py"))
    flags = [_quoted(f"-XX:ArchiveClassesAtExit={part}"), *_SILENT]
    code, said = _submit(project_root, flags, [*settings, script], part.parent, _TRAINING_SECONDS)
    if code:
        # An archive of a run that broke off would fit, and hold half of the classes.
        part.unlink(missing_ok=True)
    return "\n".join(said.splitlines()[-20:])


def _fits(project_root: Path, part: Path) -> bool:
    """Whether a driver starts from it: this one checks its checksum too, and may not do without it."""
    flags = [_quoted(f"-XX:SharedArchiveFile={part}"), "-Xshare:on", "-XX:+VerifySharedSpaces"]
    return _submit(project_root, flags, ["--version"], part.parent, _PROOF_SECONDS)[0] == 0


def _submit(
    project_root: Path, flags: list[str], arguments: list[str], folder: Path, seconds: float
) -> tuple[int, str]:
    """Starts a driver as every job starts one, with flags for its JVM; returns its exit code and what it said."""
    spark_home = places.spark_home()
    command = [
        *(str(spark_home / "bin" / "spark-submit"), "--driver-class-path", jars.class_path(project_root, "spark")),
        *("--driver-java-options", " ".join(flags), *arguments),
    ]
    environ = {
        **{name: value for name, value in os.environ.items() if name not in _OTHER_CLASS_PATHS},
        **{"SPARK_HOME": str(spark_home), "PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable},
    }
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return 1, f"It took more than {seconds:.0f} s."
    return done.returncode, done.stdout


def _quoted(flag: str) -> str:
    return f'"{flag}"' if any(char.isspace() for char in flag) else flag
