"""``tidegate landing``: what became of a landing zone that was moved."""

from __future__ import annotations

from typing import Annotated

import typer

from tidegate.advice import Command
from tidegate.cli import console, project
from tidegate.cli.arguments import AnyFlow, AsJson, Name
from tidegate.errors import RequestError
from tidegate.lake.place import PipelinePlace
from tidegate.planning import moved_landing
from tidegate.spec import FileSource

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)


@app.callback()
def landing() -> None:
    """Landing zones: accept that files were moved."""


@app.command()
def moved(
    name: Name,
    flow: AnyFlow = None,
    accept: Annotated[
        bool, typer.Option("--accept", help="Record it, so that files which were read already are not read again.")
    ] = False,
    reason: Annotated[str, typer.Option(metavar="TEXT", help="The reason; it is recorded.")] = "",
    unproven: Annotated[
        int,
        typer.Option(
            metavar="NUMBER",
            help="Accept so many files of a flow by name and size, whose checksum is not known because an earlier version read them.",
        ),
    ] = 0,
    as_json: AsJson = False,
) -> None:
    """Compare a landing zone that was moved with what was read of it. Starts no JVM.

    A file is the one that was read if it has the same name below its landing folder, and the same time and size, or the same size
    and checksum. Only files with another time are opened. Without `--accept` nothing is changed. With it, the next run that
    has a new file lists all files once more, and opens those that were not read; files whose content changed are read again.
    A copy that is torn, the same time with another size, is refused. In a folder that is where it was, runs compare by themselves
    what has a checksum.
    """
    place, pipeline = PipelinePlace(project.lake(project.read()), name), project.load(name)
    chosen = project.choose(pipeline, [flow]) if flow else pipeline.flows
    plans = [
        moved_landing.plan(place.flow(each.name), each)
        for each in chosen
        if flow or isinstance(each.source, FileSource)
    ]
    if as_json:
        console.print_json({"format": 1, "pipeline": name, "flows": [each.to_json() for each in plans]})
        return
    for each in plans:
        for line in each.lines():
            console.echo(line)
    if not accept:
        return
    needed = [each for each in plans if each.is_needed]
    if not needed:
        raise RequestError(
            "no landing folder was moved, and no file has another time",
            Command.tidegate("plan", name, says="`{}` shows what the next run reads"),
        )
    for each in needed:
        decision = moved_landing.accept(each, by=project.current_user(), reason=reason, unproven=unproven)
        console.echo(f"{name}/{each.place.flow}: {decision.summary()}")
