"""Creates the class data archive that `tidegate.runtime.archive` describes: trains a driver's JVM with a small job."""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from tidegate.runtime import archive, jars, java, job_environment, paths
from tidegate.runtime.java import Java

log = logging.getLogger(__name__)

KEPT = 4
"""Archives that stay: those of the environments and Javas that jobs used last. Each has 100 to 200 MB."""
_TRAINING_SECONDS = 600
_PROOF_SECONDS = 60
_TRAINING = ".training-"
# Folders that spark-submit adds to the class path; with an archive, folders on the class path must be empty.
_OTHER_CLASS_PATHS = ("SPARK_CONF_DIR", "HADOOP_CONF_DIR", "YARN_CONF_DIR", "SPARK_DIST_CLASSPATH")


def is_complete(project_root: Path, python: Path | None = None) -> bool:
    """Whether ``build`` has nothing to do: the archive exists, or an earlier attempt with this JVM failed.

    Args:
        project_root: The project, which may have a lock of its own.
        python: The Python of the jobs, by default that of this process.

    Raises:
        SetupError: There is no Java, no PySpark, or a jar is missing.
    """
    return (
        archive.find(project_root, python) is not None
        or _failure(project_root, java.find(python=python), python).exists()
    )


def build(project_root: Path, python: Path | None = None, say: Callable[[str], None] = log.info) -> Path | None:
    """Create the archive with a small training job, unless it exists. Takes about half a minute and 200 MB.

    Args:
        project_root: The project, which may have a lock of its own.
        python: The Python of the jobs, by default that of this process.
        say: Called with a line when the training begins.

    Returns:
        The file; None when it could not be created (jobs then start slower), or when another process creates one.

    Raises:
        SetupError: There is no Java, no PySpark, a jar is missing, or the cache cannot be written.
    """
    if existing := archive.find(project_root, python):
        return existing
    folder, jvm = archive.folder(), java.find(python=python)
    with paths.writing(folder), _alone(folder) as alone:
        if not alone:
            log.info("another process creates a class data archive")
            return None
        say("creating the class data archive, by which jobs start in half the time (about a minute, once)")
        with tempfile.TemporaryDirectory(prefix=_TRAINING, dir=folder, ignore_cleanup_errors=True) as scratch:
            part = Path(scratch) / "driver.jsa"
            log_tail = _train(project_root, jvm, part, python)
            if not part.exists() or not _usable(project_root, jvm, part, python):
                failure = _failure(project_root, jvm, python)
                log.warning("the class data archive could not be created, so jobs start slower; see %s", failure)
                failure.write_text(f"{log_tail}\n", encoding="utf-8")
                return None
            with part.open("rb") as written:
                # Before the rename: after a power failure, a file under the final name must be complete.
                os.fsync(written.fileno())
            created = folder / f"{archive.file_stem(project_root, jvm, python)}-{part.stat().st_size}.jsa"
            part.replace(created)
        _failure(project_root, jvm, python).unlink(missing_ok=True)
        _remove_others(folder)
    return created


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[bool]:
    """Whether no other process creates an archive; one that was killed has left only a temporary folder, which is removed."""
    with (folder / ".lock").open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        for left in folder.glob(f"{_TRAINING}*"):
            shutil.rmtree(left, ignore_errors=True)
        yield True


def _remove_others(folder: Path) -> None:
    """Remove the archives, and the logs of failed attempts, that were not used for longest."""
    for pattern in ("driver-*.jsa", "driver-*.failed.txt"):
        for path in sorted(folder.glob(pattern), key=lambda path: path.stat().st_mtime, reverse=True)[KEPT:]:
            # A running driver keeps its mapping of a deleted file.
            path.unlink(missing_ok=True)


def _failure(project_root: Path, jvm: Java, python: Path | None) -> Path:
    """The log of a failed training job. While the file exists, no attempt is made again."""
    return archive.folder() / f"{archive.file_stem(project_root, jvm, python)}.failed.txt"


def _train(project_root: Path, jvm: Java, part: Path, python: Path | None = None) -> str:
    """Run the training job, which writes the archive to ``part`` if it succeeds; returns the end of its log."""
    settings = ["--master", "local[2]", "--conf", f"spark.sql.warehouse.dir={part.parent}/warehouse"]
    settings += ["--conf", "spark.driver.host=127.0.0.1", "--conf", "spark.driver.bindAddress=127.0.0.1"]
    script = str(Path(__file__).with_name("training.py"))
    flags = archive.creating(part, jvm)
    code, output = _submit(project_root, jvm, flags, [*settings, script], part.parent, _TRAINING_SECONDS, python)
    if code:
        # The archive of a failed run would be valid but incomplete.
        part.unlink(missing_ok=True)
    return "\n".join(output.splitlines()[-20:])


def _usable(project_root: Path, jvm: Java, part: Path, python: Path | None = None) -> bool:
    """Whether a driver starts with the archive. Here the JVM verifies its checksum and must not start without it."""
    flags = archive.proving(part, jvm)
    return _submit(project_root, jvm, flags, ["--version"], part.parent, _PROOF_SECONDS, python)[0] == 0


def _submit(
    project_root: Path,
    jvm: Java,
    flags: list[str],
    arguments: list[str],
    folder: Path,
    seconds: float,
    python: Path | None = None,
) -> tuple[int, str]:
    """Start a driver as jobs do, with flags for its JVM; returns its exit code and output."""
    job = job_environment.of(python)
    spark_home = job.spark_home
    command = [
        *(str(spark_home / "bin" / "spark-submit"), "--driver-class-path", jars.class_path(project_root, "spark")),
        *("--driver-java-options", " ".join(flags), *arguments),
    ]
    environ = {
        **{name: value for name, value in os.environ.items() if name not in _OTHER_CLASS_PATHS},
        **jvm.variables,
        **{"SPARK_HOME": str(spark_home), "PYSPARK_PYTHON": str(job.python), "PYSPARK_DRIVER_PYTHON": str(job.python)},
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
