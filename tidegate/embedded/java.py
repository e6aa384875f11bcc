"""Finds the Java that Spark and the Kafka broker run on; one sentence says what to install when there is none.

``python -m tidegate.embedded.java`` says it, with nothing but the standard library: set-up runs it first of all.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tidegate.errors import MissingJavaError

if TYPE_CHECKING:
    from collections.abc import Mapping

OLDEST = 17
"""The oldest Java that Spark 4.2 runs on; its jars are compiled for it."""

_ADVICE = (
    "install one (Debian and Ubuntu: `apt-get install openjdk-17-jre-headless`, Fedora: `dnf install "
    "java-17-openjdk-headless`, macOS: `brew install openjdk@17`) or let JAVA_HOME point to it."
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
        """The feature version: 17, 21, ... (8 for the old ``1.8`` way to write it)."""
        first, _, rest = self.version.partition(".")
        leading = re.match(r"\d+", rest if first == "1" else first)
        return int(leading[0]) if leading else 0


def find(environ: Mapping[str, str] | None = None) -> Java:
    """The Java that Spark itself would take: the one of ``JAVA_HOME``, else the first on ``PATH``.

    Args:
        environ: The environment to look in; this process's own by default.

    Raises:
        MissingJavaError: There is none, it does not run, or it is older than Java 17.
    """
    environ = os.environ if environ is None else environ
    home = environ.get("JAVA_HOME")
    if home:
        executable = Path(home) / "bin" / "java"
        if not os.access(executable, os.X_OK):
            raise MissingJavaError(f"JAVA_HOME is {home}, but there is no bin/java in it: correct it or {_ADVICE}")
    else:
        found = shutil.which("java", path=environ.get("PATH", os.defpath))
        if found is None:
            raise MissingJavaError(f"Tidegate needs Java {OLDEST} or newer and found none: {_ADVICE}")
        executable = Path(found)
    java = Java(executable=executable.absolute(), version=_version_of(executable))
    if java.major < OLDEST:
        raise MissingJavaError(f"Tidegate needs Java {OLDEST} or newer, but {executable} is {java.version}: {_ADVICE}")
    return java


def _version_of(executable: Path) -> str:
    # The file `release` beside bin/ spares the start of a JVM (0.1 s, and every job asks); wrappers and the stub that
    # macOS ships have none.
    release = executable.resolve().parent.parent / "release"
    try:
        told = release.read_text(encoding="utf-8", errors="replace")
    except OSError:
        told = ""
    for key in ("JAVA_RUNTIME_VERSION", "JAVA_VERSION"):
        if line := re.search(rf'^{key}="([^"]+)"', told, re.MULTILINE):
            return line[1]
    return _ask(executable)


def _ask(executable: Path) -> str:
    try:
        answer = subprocess.run([executable, "-version"], capture_output=True, text=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        raise MissingJavaError(f"{executable} does not run: {_ADVICE}") from error
    if build := re.search(r"\(build (\d[^,)\s]*)", answer.stderr):
        return build[1]
    if version := re.search(r'version "([^"]+)"', answer.stderr):
        return version[1]
    raise MissingJavaError(f"{executable} does not tell its version: {_ADVICE}")


def main() -> int:
    """Says what is missing, if anything; returns the exit code."""
    try:
        find()
    except MissingJavaError as error:
        print(f"setup: {error}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
