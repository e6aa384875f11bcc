"""The environment of jobs: made in the project's folder, or one that a person names."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from importlib import metadata
from itertools import takewhile
from pathlib import Path

import tidegate
from tidegate.advice import Command, OutsideAct, Then
from tidegate.errors import MissingJavaError, SetupError
from tidegate.errors.classification import raise_machine
from tidegate.runtime import java, job_environment
from tidegate.runtime.job_environment import FOLDER

PYTHON = f"{FOLDER}/bin/python"
"""Of the environment of jobs, in the project's folder."""
_UNFINISHED = ".unfinished"
"""The file in an environment that is being made; what a killed command has left is made again."""


def requirement() -> str:
    """What an installer gets, so that jobs have the platform of this environment: its version, or the file that it was installed from.

    It includes Java where the machine has none that is not of a package.
    """
    extras = "job" if _has_java() else "job,java"
    wanted = f"tidegate[{extras}]"
    try:
        origin = metadata.distribution("tidegate").read_text("direct_url.json")
    except metadata.PackageNotFoundError:
        origin = None
    installed = json.loads(origin) if origin else {}
    url, of_folder = str(installed.get("url", "")), installed.get("dir_info")
    if of_folder is not None and of_folder.get("editable"):
        return f"-e {url.removeprefix('file://')}[{extras}]"
    return f"{wanted} @ {url}" if url.startswith("file://") else f"{wanted}=={tidegate.__version__}"


def make(project: Path) -> None:
    """Make the environment of jobs with what jobs and tests need, or complete it, by uv, or else by venv and pip of this Python.

    Raises:
        SetupError: It was not made; the lines of the installer say why. The command can be given again.
    """
    folder = project / FOLDER
    unfinished = folder / _UNFINISHED
    try:
        if unfinished.exists():
            shutil.rmtree(folder)
        exists = (folder / "bin" / "python").exists()
        folder.mkdir(parents=True, exist_ok=True)
        if not exists:
            unfinished.touch()
    except OSError as error:
        raise_machine(error, "the environment of jobs")
        raise
    wanted = requirement()
    packages = wanted.split(" ", 1) if wanted.startswith("-e ") else [wanted]
    python = str(folder / "bin" / "python")
    if (uv := _uv()) is not None:
        if not exists:
            _run(project, uv, "venv", "--quiet", "--allow-existing", "--python", sys.executable, str(folder))
        _run(project, uv, "pip", "install", "--quiet", "--python", python, *packages, "pytest")
    else:
        if not exists:
            _run(project, sys.executable, "-m", "venv", str(folder))
        _run(project, python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *packages, "pytest")
    unfinished.unlink(missing_ok=True)


def check(python: Path) -> str:
    """What jobs run with in the environment of a Python, for a line.

    Raises:
        SetupError: Its environment cannot run jobs.
    """
    environment = job_environment.of(python.absolute())
    submit = environment.spark_submit
    versions = ", ".join(f"{name} {version}" for name, version in environment.packages.items())
    return f"{versions or submit}, Python {environment.python_version}"


def _has_java() -> bool:
    try:
        return not java.find().variables
    except MissingJavaError:
        return False


def _uv() -> str | None:
    beside = Path(sys.executable).with_name("uv")
    return shutil.which("uv") or (str(beside) if beside.exists() else None)


def _run(project: Path, *command: str) -> None:
    """Run an installer, whose lines the person sees."""
    # Where the environment of this process is active, an installer would take it for the one that is meant.
    variables = {name: value for name, value in os.environ.items() if name not in ("VIRTUAL_ENV", "PYTHONPATH")}
    try:
        done = subprocess.run(command, env=variables, stdin=subprocess.DEVNULL, check=False)
    except OSError as error:
        raise_machine(error, command[0])
        raise SetupError(f"{command[0]} does not run ({error.strerror})", OutsideAct("install it again")) from None
    if done.returncode:
        words = takewhile(lambda word: not word.startswith("--"), (Path(command[0]).name, *command[1:]))
        raise SetupError(
            f"the environment of jobs is not complete: `{' '.join(words)}` ended with {done.returncode}",
            Then(
                OutsideAct("see its lines above"),
                Command.tidegate("init", str(project), "--job-env", says="run `{}` again"),
            ),
        )
