"""Creates the class data archive that `tidegate.runtime.archive` describes: trains a driver's JVM with a small job."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tidegate.runtime import archive, jars, paths

log = logging.getLogger(__name__)

_TRAINING_SECONDS = 600
_PROOF_SECONDS = 60
# Folders that spark-submit adds to the class path; with an archive, folders on the class path must be empty.
_OTHER_CLASS_PATHS = ("SPARK_CONF_DIR", "HADOOP_CONF_DIR", "YARN_CONF_DIR", "SPARK_DIST_CLASSPATH")


def is_complete(project_root: Path) -> bool:
    """Whether ``build`` has nothing to do: the archive exists, or an earlier attempt with this JVM failed.

    Raises:
        SetupError: There is no Java, no PySpark, or a jar is missing.
    """
    return archive.find(project_root) is not None or _failure(project_root).exists()


def build(project_root: Path) -> Path | None:
    """Create the archive with a small training job, unless it exists. Takes about half a minute and 200 MB.

    Returns:
        The file; None when it could not be created (jobs then start slower).

    Raises:
        SetupError: There is no Java, no PySpark, or a jar is missing.
    """
    if existing := archive.find(project_root):
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
        created = folder / f"{archive.file_stem(project_root)}-{part.stat().st_size}.jsa"
        part.replace(created)
    for path in folder.glob("driver-*"):
        # A running driver keeps its mapping of a deleted file.
        if path != created:
            path.unlink(missing_ok=True)
    return created


def _failure(project_root: Path) -> Path:
    """The log of a failed training job. While the file exists, set-up does not try again."""
    return paths.archive_dir(project_root) / f"{archive.file_stem(project_root)}.failed.txt"


def _train(project_root: Path, part: Path) -> str:
    """Run the training job, which writes the archive to ``part`` if it succeeds; returns the end of its log."""
    settings = ["--master", "local[2]", "--conf", f"spark.sql.warehouse.dir={part.parent}/warehouse"]
    settings += ["--conf", "spark.driver.host=127.0.0.1", "--conf", "spark.driver.bindAddress=127.0.0.1"]
    script = str(Path(__file__).with_name("training.py"))
    flags = [archive.quoted(f"-XX:ArchiveClassesAtExit={part}"), *archive.SILENT]
    code, output = _submit(project_root, flags, [*settings, script], part.parent, _TRAINING_SECONDS)
    if code:
        # The archive of a failed run would be valid but incomplete.
        part.unlink(missing_ok=True)
    return "\n".join(output.splitlines()[-20:])


def _usable(project_root: Path, part: Path) -> bool:
    """Whether a driver starts with the archive. Here the JVM verifies its checksum and must not start without it."""
    flags = [archive.quoted(f"-XX:SharedArchiveFile={part}"), "-Xshare:on", "-XX:+VerifySharedSpaces"]
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
