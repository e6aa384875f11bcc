"""``tidegate setup``."""

from __future__ import annotations

import subprocess
from typing import Annotated

import typer

from tidegate.cli import console, project
from tidegate.formatting import count
from tidegate.requests import launch
from tidegate.runtime import archive, archive_build, jars, java, job_environment, paths, repository


def setup(
    *,
    only_jars: Annotated[
        bool,
        typer.Option(
            "--only-jars", help="Leave out the bytecode and the class data archive, whose creation starts a JVM."
        ),
    ] = False,
) -> None:
    """Prepare this machine for the jobs of the project: jars, bytecode of the packages, class data archive.

    Jars and archive are in the cache of this user, for all projects. Jars are compared with their checksums and fetched where they are
    missing or damaged. With the class data archive jobs start in half the time; it is created once for each Java and class path, by a
    small job of half a minute. Run it when an image is built, or on each machine of a cluster. A machine without it fetches the jars
    before its first job, and its jobs start without an archive.
    """
    environment = project.read()
    job_environment.of(environment.job_python).check()
    installed = java.find(python=environment.job_python)
    console.echo(f"Java {installed.version} ({installed.executable})")
    wanted = jars.of_set(environment.project, *launch.jar_sets(environment))
    fetched = repository.fetch(jars.missing(wanted, verify=True), console.echo, python=environment.job_python)
    console.echo(f"{count(len(wanted), 'jar')} in {paths.cache_dir()}, {fetched} of them fetched now")
    if only_jars:
        return
    # By the Python of the jobs. Where its packages cannot be written, nothing is compiled, and each job says what that costs.
    subprocess.run([environment.job_python, "-m", "tidegate.runtime.bytecode"], check=False)
    existing = archive.find(environment.project, environment.job_python)
    if existing is None:
        # Also after an attempt that failed, which `make setup` does not repeat.
        existing = archive_build.build(environment.project, environment.job_python, console.echo)
    console.echo(f"class data archive: {existing or 'none, so jobs start slower'}")
