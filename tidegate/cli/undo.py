"""``tidegate undo``."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from tidegate.advice import Command, Edit
from tidegate.cli import console, project
from tidegate.cli.arguments import Flows
from tidegate.cli.run import attempt
from tidegate.errors import RequestError
from tidegate.formatting import count
from tidegate.lake.layout import Layout
from tidegate.lake.place import PipelinePlace
from tidegate.project import registry
from tidegate.reports.report import now
from tidegate.requests.request import RunRequest
from tidegate.runs.undo import plan as planning

_SHOWN = 5
"""Keys that are printed of the rows of each kind."""


def undo(
    run_id: Annotated[str, typer.Argument(metavar="RUN", help="The id of the run, or its key in the ledger.")],
    pipeline: Annotated[
        str | None, typer.Option(metavar="NAME", help="The pipeline; needed if several have a run of this id.")
    ] = None,
    flow: Flows = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be put back and what left; change nothing.")
    ] = False,
) -> None:
    """Put back the rows that a backfill or a replay changed, as they were before that run. Starts a JVM.

    A row that changed again since that run is left as it is. Quarantine entries that the run closed are open again, and
    those that it created are withdrawn. Downstream flows read the changes with their next run. An undo is a run as
    well: undoing it puts back what it changed. The printed keys are values of the data.

    Exit codes: those of `tidegate run`; 64 also when the run has nothing that can be put back, or was undone already.
    """
    environment = project.read()
    layout = Layout.of(environment)
    name = pipeline or _pipeline_of(layout, run_id)
    declared = project.resolve(environment, name).pipeline
    project.choose(declared, flow or ())
    params = {"mode": "undo", "undo_run": run_id, "flows": flow or [], "dry_run": dry_run}
    request = RunRequest.check(declared, f"cli__{now()}", params, requested_by=project.current_user())
    request, lines = planning.plan(layout, declared, request)
    for line in lines:
        console.echo(line)
    code = attempt(environment, request)
    for each in request.flows:
        _print_keys(layout, request, each)
    raise typer.Exit(code)


def _pipeline_of(layout: Layout, run_id: str) -> str:
    """The pipeline whose ledger has the run."""
    owners = [
        name
        for name in registry.names()
        if planning.find(planning.read(PipelinePlace(layout, name), run_id), run_id) is not None
    ]
    if len(owners) == 1:
        return owners[0]
    if owners:
        raise RequestError(
            f"several pipelines have a run {run_id!r}: {', '.join(owners)}",
            Edit("choose one with --pipeline", "request"),
        )
    raise RequestError(
        f"no ledger has a line of run {run_id!r}: it wrote nothing, or has another id.",
        Command.tidegate("ledger", "NAME", "--json", says="`{}` shows the run_key of each line"),
    )


def _print_keys(layout: Layout, request: RunRequest, flow: str) -> None:
    """Print some keys of the rows that were put back and left, from the file that the last attempt wrote."""
    run = PipelinePlace(layout, request.dag_id).reports / request.run_key
    files = [run / attempt.name / f"undo-{flow}.json" for attempt in run.list() if attempt.is_folder]
    files = [file for file in files if file.exists()]
    if not files:
        return
    keys: dict[str, Any] = json.loads(files[-1].read().data)
    for name, words in (
        ("put_back", "to put back" if request.dry_run else "put back"),
        ("left", "left, changed since"),
    ):
        rows = keys[name]
        if rows:
            shown = "; ".join(", ".join(f"{key}={value}" for key, value in row.items()) for row in rows[:_SHOWN])
            more = f"; … all {count(len(rows), 'key')} in {files[-1]}" if len(rows) > _SHOWN else ""
            console.echo(f"{flow}: {words}: {shown}{more}")
