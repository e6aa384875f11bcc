"""``tidegate docs``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tidegate.cli import console, project
from tidegate.cli.arguments import Name
from tidegate.lake.layout import Layout
from tidegate.lake.place import PipelinePlace
from tidegate.pages import site
from tidegate.states import status_of
from tidegate.status import flow_status
from tidegate.store import Address


def docs(
    name: Name,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Write to this folder, which must be empty or hold an earlier export; by default in the lake.",
        ),
    ] = None,
    newest: Annotated[
        int,
        typer.Option(
            min=1, metavar="N", help="Export the newest N batches, backfills, replays and decisions of each flow."
        ),
    ] = site.NEWEST,
) -> None:
    """Export the pages about a pipeline's batches as static files, and print the path of the index. Starts no JVM.

    The files are made from ledger, verdicts, schema history, quarantine and alerts, and replace an earlier export. They state the
    status of the flows at the time of the export, need no network and run no script. Airflow serves the same pages of all
    batches, with the present status.
    """
    environment = project.read()
    layout, pipeline = Layout.of(environment), project.load(name)
    statuses = {each.flow: status_of(each) for each in project.readings(environment, name, flow_status.PATIENCE)}
    folder = Address.local(out.resolve()) if out else PipelinePlace(layout, pipeline.name).docs
    console.echo(str(site.export(layout, pipeline, folder, newest, statuses)))
