"""Finds the Java for Spark and the Kafka broker.

``python -m tidegate.runtime.java`` prints what to install if there is none. It needs only the standard library, because
set-up runs it first.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tidegate.advice import Edit, Either, OutsideAct
from tidegate.errors import MissingJavaError
from tidegate.errors.classification import raise_machine

OLDEST = 17
"""The oldest Java that Spark 4.2 runs on; its jars are compiled for it."""

_ADVICE = Either(
    OutsideAct(
        "install it (Debian and Ubuntu: `apt-get install openjdk-17-jre-headless`, Fedora: `dnf install "
        "java-17-openjdk-headless`, macOS: `brew install openjdk@17`)"
    ),
    Edit("set JAVA_HOME to its folder", "setting"),
)


@dataclass(frozen=True, kw_only=True)
class Java:
    """One Java on this machine."""

    executable: Path
    """The ``java`` command, absolute."""
    version: str
    """The complete version with its build, for example ``17.0.15+6-Debian-1deb12u1``."""

    @property
    def major(self) -> int:
        """The feature version: 17, 21, ... (8 for the old form ``1.8``)."""
        first, _, rest = self.version.partition(".")
        leading = re.match(r"\d+", rest if first == "1" else first)
        return int(leading[0]) if leading else 0


def find(environ: Mapping[str, str] | None = None) -> Java:
    """The Java that Spark itself would use: the one of ``JAVA_HOME``, else the first on ``PATH``.

    Args:
        environ: The environment to search; this process's own by default.

    Raises:
        MissingJavaError: There is none, it does not run, or it is older than Java 17.
    """
    environ = os.environ if environ is None else environ
    home = environ.get("JAVA_HOME")
    if home:
        executable = Path(home) / "bin" / "java"
        if not os.access(executable, os.X_OK):
            raise MissingJavaError(
                f"JAVA_HOME is {home}, but there is no bin/java in it",
                Either(Edit("correct it", "setting"), *_ADVICE.ways),
            )
    else:
        command = shutil.which("java", path=environ.get("PATH", os.defpath))
        if command is None:
            raise MissingJavaError(f"Tidegate needs Java {OLDEST} or newer, but there is none", _ADVICE)
        executable = Path(command)
    java = Java(executable=executable.absolute(), version=_version_of(executable))
    if java.major < OLDEST:
        raise MissingJavaError(f"Tidegate needs Java {OLDEST} or newer, but {executable} is {java.version}", _ADVICE)
    return java


def _version_of(executable: Path) -> str:
    # Reading the file `release` next to bin/ avoids starting a JVM (0.1 s in every job). Wrappers and the stub of macOS
    # have no such file.
    release = executable.resolve().parent.parent / "release"
    try:
        properties = release.read_text(encoding="utf-8", errors="replace")
    except OSError:
        properties = ""
    for key in ("JAVA_RUNTIME_VERSION", "JAVA_VERSION"):
        if line := re.search(rf'^{key}="([^"]+)"', properties, re.MULTILINE):
            return line[1]
    return _reported_version(executable)


def _reported_version(executable: Path) -> str:
    try:
        process = subprocess.run([executable, "-version"], capture_output=True, text=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        raise_machine(error, "java -version")
        raise MissingJavaError(f"{executable} does not run", _ADVICE) from error
    if build := re.search(r"\(build (\d[^,)\s]*)", process.stderr):
        return build[1]
    if version := re.search(r'version "([^"]+)"', process.stderr):
        return version[1]
    raise MissingJavaError(f"{executable} -version prints no version", _ADVICE)


def main() -> int:
    """Print what is missing, if anything; returns the exit code."""
    try:
        find()
    except MissingJavaError as error:
        print(f"setup: {error}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
