"""Builds the platform's own jar from ``jvm/``; its result is kept in the package, so that users need no compiler.

The same sources and the same release of Java give the same bytes: entries are sorted and have one fixed time.

Usable as ``python -m devstack.build_jar`` (`make jar`), after a change of the sources.
"""

from __future__ import annotations

import logging
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from tidegate.advice import OutsideAct
from tidegate.errors import SetupError, TidegateError
from tidegate.runtime import jars, java, job_environment

log = logging.getLogger(__name__)

RELEASE = 17
"""The oldest Java on which PySpark runs."""
_TIME = (1980, 1, 1, 0, 0, 0)
"""The oldest time that a jar can have."""


def build(project_root: Path, target: Path) -> None:
    """Compile the sources against PySpark and the pinned jars, and replace the jar.

    Raises:
        SetupError: There is no compiler, a jar is missing, or the sources do not compile.
    """
    sources = sorted(map(str, (project_root / "jvm").rglob("*.java")))
    libraries = (jars.class_path(project_root, name) for name in ("spark", "s3"))
    class_path = os.pathsep.join([str(job_environment.spark_home() / "jars" / "*"), *libraries])
    with tempfile.TemporaryDirectory() as folder:
        command = [str(compiler()), "--release", str(RELEASE), "-proc:none", "-Xlint:all,-path,-classfile", "-Werror"]
        result = subprocess.run(
            [*command, "-d", folder, "-cp", class_path, *sources], capture_output=True, text=True, check=False
        )
        if result.returncode:
            raise SetupError(
                f"the sources in jvm/ do not compile: {result.stdout}{result.stderr}", OutsideAct("correct them")
            )
        part = target.with_name(f".{target.name}.{os.getpid()}")
        with zipfile.ZipFile(part, "w") as jar:
            for path in sorted(Path(folder).rglob("*.class")):
                entry = zipfile.ZipInfo(path.relative_to(folder).as_posix(), _TIME)
                entry.external_attr = 0o644 << 16
                entry.compress_type = zipfile.ZIP_DEFLATED
                jar.writestr(entry, path.read_bytes())
        part.replace(target)


def compiler() -> Path:
    """The compiler of the Java that runs Spark.

    Raises:
        SetupError: This Java has none.
    """
    beside = java.find().executable.resolve().with_name("javac")
    javac = beside if beside.exists() else shutil.which("javac")
    if javac is None:
        raise SetupError(
            "this Java has no compiler", OutsideAct("install a JDK (Debian: apt-get install openjdk-17-jdk-headless)")
        )
    return Path(javac)


def main(project_root: Path) -> int:
    """Build the jar; returns the exit code."""
    logging.basicConfig(format="%(message)s", level=logging.INFO, stream=sys.stderr)
    try:
        build(project_root, jars.OWN_JAR)
    except TidegateError as error:
        log.error("%s", error)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(Path.cwd()))
