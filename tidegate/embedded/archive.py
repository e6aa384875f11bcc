"""A class data archive (AppCDS) for the driver's JVM, which halves the start time of Spark jobs.

Without an archive, a JVM that starts Spark loads and verifies about twenty thousand classes; with one, it maps them from one
file. An archive is valid for one JVM and one exact class path. Both are part of its name, so an outdated one is not used. If
it does not match nevertheless, the JVM silently starts without it.
"""

from __future__ import annotations

import hashlib
import logging
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tidegate.embedded import jars, java, paths
from tidegate.errors import TidegateError

log = logging.getLogger(__name__)

_TRAINING_SECONDS = 600
_PROOF_SECONDS = 60
# Folders that spark-submit adds to the class path; with an archive, folders on the class path must be empty.
_OTHER_CLASS_PATHS = ("SPARK_CONF_DIR", "HADOOP_CONF_DIR", "YARN_CONF_DIR", "SPARK_DIST_CLASSPATH")
# Without these, a JVM that cannot use its archive prints warnings to stdout, into every job's log.
_SILENT = ("-Xlog:cds=off", "-Xlog:cds+dynamic=off", "-Xlog:class+path=off")


def find(project_root: Path) -> Path | None:
    """The archive for this JVM and this class path, or None when there is none.

    Raises:
        SetupError: There is no Java, no PySpark, or a jar is missing.
    """
    # The name ends with the size, because a JVM crashes when the archive is truncated. It ignores archives that do not
    # match in other ways.
    for path in paths.archive_dir(project_root).glob(f"{_stem(project_root)}-*.jsa"):
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
    return _flags(archive) if archive else []


def is_complete(project_root: Path) -> bool:
    """Whether ``build`` has nothing to do: the archive exists, or an earlier attempt with this JVM failed.

    Raises:
        SetupError: There is no Java, no PySpark, or a jar is missing.
    """
    return find(project_root) is not None or _failure(project_root).exists()


def build(project_root: Path) -> Path | None:
    """Create the archive with a small training job, unless it exists. Takes about half a minute and 200 MB.

    Returns:
        The file; None when it could not be created (jobs then start slower).

    Raises:
        SetupError: There is no Java, no PySpark, or a jar is missing.
    """
    if existing := find(project_root):
        return existing
    folder = paths.archive_dir(project_root)
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".training-", dir=folder) as scratch:
        part = Path(scratch) / "driver.jsa"
        log_tail = _train(project_root, part)
        if not part.exists() or not _usable(project_root, part):
            log.warning(
                "the class data archive could not be created, so jobs start slower; see %s", _failure(project_root)
            )
            _failure(project_root).write_text(f"{log_tail}\n", encoding="utf-8")
            return None
        with part.open("rb") as written:
            # Before the rename: after a power failure, a file under the final name must be complete.
            os.fsync(written.fileno())
        archive = folder / f"{_stem(project_root)}-{part.stat().st_size}.jsa"
        part.replace(archive)
    for path in folder.glob("driver-*"):
        # A running driver keeps its mapping of a deleted file.
        if path != archive:
            path.unlink(missing_ok=True)
    return archive


def _stem(project_root: Path) -> str:
    """The beginning of the file name, which identifies this JVM and this class path."""
    jvm = java.find()
    own_jars = [Path(path) for path in jars.class_path(project_root, "spark").split(os.pathsep)]
    spark_jars = sorted((paths.spark_home() / "jars").glob("*.jar"))
    parts = [str(jvm.executable.resolve()), jvm.version]
    for path in (*own_jars, *spark_jars):
        stat = path.stat()
        # With the time in seconds: the JVM compares it too, and refuses an archive whose jars were copied again.
        parts.append(f"{path} {stat.st_size} {int(stat.st_mtime)}")
    return f"driver-{hashlib.sha256(chr(10).join(parts).encode()).hexdigest()[:16]}"


def _failure(project_root: Path) -> Path:
    """The log of a failed training job. While the file exists, set-up does not try again."""
    return paths.archive_dir(project_root) / f"{_stem(project_root)}.failed.txt"


def _flags(archive: Path) -> list[str]:
    return [_quoted(f"-XX:SharedArchiveFile={archive}"), "-Xshare:auto", *_SILENT]


def _train(project_root: Path, part: Path) -> str:
    """Run the training job, which writes the archive to ``part`` if it succeeds; returns the end of its log."""
    settings = ["--master", "local[2]", "--conf", f"spark.sql.warehouse.dir={part.parent}/warehouse"]
    settings += ["--conf", "spark.driver.host=127.0.0.1", "--conf", "spark.driver.bindAddress=127.0.0.1"]
    script = str(Path(__file__).with_name("training.py"))
    flags = [_quoted(f"-XX:ArchiveClassesAtExit={part}"), *_SILENT]
    code, output = _submit(project_root, flags, [*settings, script], part.parent, _TRAINING_SECONDS)
    if code:
        # The archive of a failed run would be valid but incomplete.
        part.unlink(missing_ok=True)
    return "\n".join(output.splitlines()[-20:])


def _usable(project_root: Path, part: Path) -> bool:
    """Whether a driver starts with the archive. Here the JVM verifies its checksum and must not start without it."""
    flags = [_quoted(f"-XX:SharedArchiveFile={part}"), "-Xshare:on", "-XX:+VerifySharedSpaces"]
    return _submit(project_root, flags, ["--version"], part.parent, _PROOF_SECONDS)[0] == 0


def _submit(
    project_root: Path, flags: list[str], arguments: list[str], folder: Path, seconds: float
) -> tuple[int, str]:
    """Start a driver as jobs do, with flags for its JVM; returns its exit code and output."""
    spark_home = paths.spark_home()
    command = [
        *(str(spark_home / "bin" / "spark-submit"), "--driver-class-path", jars.class_path(project_root, "spark")),
        *("--driver-java-options", " ".join(flags), *arguments),
    ]
    environ = {
        **{name: value for name, value in os.environ.items() if name not in _OTHER_CLASS_PATHS},
        **{"SPARK_HOME": str(spark_home), "PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable},
    }
    try:
        process = subprocess.run(
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
    return process.returncode, process.stdout


def _quoted(flag: str) -> str:
    return f'"{flag}"' if any(char.isspace() for char in flag) else flag
