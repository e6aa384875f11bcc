"""``tidegate setup``."""

from __future__ import annotations

from typing import Annotated

import typer

from tidegate.cli import console, project
from tidegate.formatting import count
from tidegate.requests import launch
from tidegate.runtime import archive, archive_build, jars, java, paths, repository


def setup(
    *,
    only_jars: Annotated[
        bool, typer.Option("--only-jars", help="Leave out the class data archive, whose creation starts a JVM.")
    ] = False,
) -> None:
    """Prepare this machine for the jobs of the project: fetch the jars, create the class data archive.

    Both are in the cache of this user, for all projects. Jars are compared with their checksums and fetched where they are missing
    or damaged. With the class data archive jobs start in half the time; it is created once for each Java and class path, by a small
    job of half a minute. Run it when an image is built, or on each machine of a cluster. A machine without it fetches the jars
    before its first job, and its jobs start without an archive.
    """
    environment = project.read()
    installed = java.find(python=environment.job_python)
    console.echo(f"Java {installed.version} ({installed.executable})")
    wanted = jars.of_set(environment.project, *launch.jar_sets(environment))
    fetched = repository.fetch(jars.missing(wanted, verify=True), console.echo)
    console.echo(f"{count(len(wanted), 'jar')} in {paths.cache_dir()}, {fetched} of them fetched now")
    if only_jars:
        return
    if not archive_build.is_complete(environment.project, environment.job_python):
        console.echo("creating the class data archive (about a minute)")
        archive_build.build(environment.project, environment.job_python)
    existing = archive.find(environment.project, environment.job_python)
    console.echo(f"class data archive: {existing or 'none, so jobs start slower'}")
