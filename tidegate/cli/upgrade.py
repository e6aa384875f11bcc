"""``tidegate upgrade``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import typer

from tidegate import __version__
from tidegate.cli import console, project
from tidegate.environment import Environment
from tidegate.errors import SetupError
from tidegate.formatting import count
from tidegate.lake.layout import Layout
from tidegate.ops import upgrade as lakes
from tidegate.reports.report import now
from tidegate.requests import launch
from tidegate.runtime import jars, job_environment
from tidegate.scaffolding import requirements_file


def upgrade(
    apply: Annotated[bool, typer.Option("--apply", help="Make the changes, after they were shown.")] = False,
) -> None:
    """Show what this version of Tidegate changes in lake and project, and with --apply change it. Starts no JVM.

    In the lake: the changes between its format and that of this version. In the project: which version requirements.txt names. What you
    have to do yourself comes last: the environment of the jobs, and the jars of this version.

    No run may be in progress. An older Tidegate refuses the lake from the first change on, and this one until the last. If the command is
    interrupted, give it again: it makes the changes that are missing.
    """
    environment = project.read()
    layout = Layout.of(environment)
    plan = lakes.plan(layout)
    versions = requirements_file.other_versions(environment.project)
    for line in (*_of_lake(layout, plan), *(f"{requirements_file.FILE}: {each}" for each in versions)):
        console.echo(line)
    if plan.is_needed or versions:
        if apply:
            for change in lakes.upgrade(layout, project.current_user(), now()):
                console.echo(f"changed  {change.says}")
            if versions:
                requirements_file.name_this_version(environment.project)
            console.echo(f"lake and project are those of Tidegate {__version__}")
        else:
            console.echo("nothing was changed; `tidegate upgrade --apply` makes these changes")
    for line in _of_machine(environment):
        console.echo(line)


def _of_lake(layout: Layout, plan: lakes.UpgradePlan) -> Iterator[str]:
    if not plan.exists:
        yield f"lake: there is none at {layout.root} yet"
    elif not plan.is_needed:
        yield f"lake: {layout.root} has format {plan.format}, as this version, {__version__}, needs it"
    else:
        begun = "; an upgrade was interrupted, and goes on" if plan.is_begun else ""
        yield f"lake: {layout.root}, from format {plan.format} to {plan.target}{begun}"
        for migration in plan.migrations:
            yield f"  format {migration.format}: {migration.says}"
        for change in plan.changes:
            yield f"  would change  {change.says}"
        for resource, holder in plan.in_use:
            yield f"  in use: {resource} by {holder}; wait for its end"


def _of_machine(environment: Environment) -> Iterator[str]:
    """What a person has to do on this machine."""
    try:
        job_environment.of(environment.job_python).check()
    except SetupError as error:
        yield f"environment of the jobs: {error.message}"
    absent = jars.missing(jars.of_set(environment.project, *launch.jar_sets(environment)))
    if absent:
        yield f"jars: {count(len(absent), 'jar')} of this version not here yet; `tidegate setup` fetches them"
