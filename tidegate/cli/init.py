"""``tidegate init``."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from tidegate.advice import Edit
from tidegate.cli import console
from tidegate.environment import Environment
from tidegate.errors import RequestError
from tidegate.errors.extras import installed_version
from tidegate.runtime import job_environment
from tidegate.scaffolding import job_packages
from tidegate.scaffolding.project_files import SAMPLE, SETTINGS, NewProject


def init(
    folder: Annotated[
        Path | None, typer.Argument(metavar="[FOLDER]", help="The project's folder; by default the working directory.")
    ] = None,
    job_env: Annotated[
        bool, typer.Option("--job-env", help="Make the environment of jobs, too: .venv-job, by uv or by venv and pip.")
    ] = False,
    job_python: Annotated[
        Path | None,
        typer.Option("--job-python", metavar="PYTHON", help="Jobs run by this Python, of an environment that exists."),
    ] = None,
) -> None:
    """Lay out a project that runs: settings, a sample pipeline with tests, all DAGs, a CI workflow and a README.

    In a folder that exists, no file is overwritten: each that has other content is left and named. A project with pipelines gets no
    sample. If the command is interrupted, run it again. Starts no JVM.
    """
    if job_env and job_python is not None:
        raise RequestError("--job-env and --job-python exclude each other.", Edit("give one of the two", "request"))
    project = Path(os.path.normpath((folder or Path()).absolute()))
    python = job_packages.PYTHON if job_env else _relative(project, job_python)
    versions = job_packages.check(job_python) if job_python is not None else ""
    environment = Environment.read({**os.environ, "TIDEGATE_PROJECT": str(project)})
    new = NewProject.of(project, environment, python)
    for path in new.paths():
        console.echo(f"  made  {path}")
    new.write()
    for path in new.left:
        console.echo(f"  left  {path}, which has content of its own")
    if python and SETTINGS in new.left:
        console.echo(f'  add   job.python = "{python}" to [common] in {SETTINGS}, unless it is there')
    if versions:
        console.echo(f"  jobs  {job_python}: {versions}")
    if job_env:
        console.echo(f"  jobs  {job_environment.FOLDER} with {job_packages.requirement()} …")
        job_packages.make(project)
        console.echo(f"  jobs  {job_packages.check(project / job_packages.PYTHON)}")
    console.echo()
    for line in _next_steps(project, python):
        console.echo(line)


def _relative(project: Path, python: Path | None) -> str:
    """As the settings name it: relative to the project's folder where it is in it. Links are not followed: one is an environment's."""
    if python is None:
        return ""
    path = python.absolute()
    return str(path.relative_to(project) if path.is_relative_to(project) else path)


def _next_steps(project: Path, python: str) -> Iterator[str]:
    yield "Next:"
    if project != Path.cwd():
        yield f"  cd {project.relative_to(Path.cwd()) if project.is_relative_to(Path.cwd()) else project}"
    if (named := os.environ.get("TIDEGATE_PROJECT")) and Path(named).absolute() != project:
        yield "  unset TIDEGATE_PROJECT"
    if not python and installed_version("pyspark") is None:
        yield "  tidegate init --job-env             make the environment of jobs"
    if (project / "pipelines" / f"{SAMPLE}.py").exists():
        yield f"  tidegate run {SAMPLE:<22} one increment of each flow"
    else:
        yield "  tidegate status                     show every flow"
    tests = f"{python or 'python'} -m pytest"
    yield f"  {tests:<35} run the tests"
    yield "  tidegate setup                      prepare the machine: jobs start in half the time"
