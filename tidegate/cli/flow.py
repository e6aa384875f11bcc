"""``tidegate flow``: switch a flow off and on, skip a file, accept that a topic lost messages, keep what a removed flow left."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime
from typing import Annotated

import typer

from tidegate.advice import Edit
from tidegate.checkpoints import checkpoint, gap, overrides
from tidegate.checkpoints.overrides import Override
from tidegate.cli import console, project
from tidegate.cli.arguments import AsJson, Name, OneFlow, Reason
from tidegate.errors import RequestError
from tidegate.lake.layout import Layout
from tidegate.lake.place import FlowPlace, PipelinePlace
from tidegate.spec import Flow
from tidegate.status import lost_messages
from tidegate.status.removed import removed_flows

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)


@app.command()
def off(name: Name, flow: OneFlow, reason: Reason) -> None:
    """Switch a flow off, from the next run on, until it is switched on. Starts no JVM.

    Its source is not read and its checkpoint does not move, so nothing is lost or read twice. Flows that read its table
    continue with the table's current contents.
    """
    _switch(name, flow, reason, on=False)


@app.command()
def on(name: Name, flow: OneFlow, reason: Reason) -> None:
    """Switch a flow on again: its next run continues where it stopped. Starts no JVM."""
    _switch(name, flow, reason, on=True)


@app.command()
def skip(
    name: Name,
    flow: OneFlow,
    file: Annotated[str, typer.Argument(metavar="FILE", help="Relative to the landing folder.")],
    reason: Reason,
    undo: Annotated[bool, typer.Option("--undo", help="Undo it: the file is read as usual.")] = False,
) -> None:
    """Quarantine a file without opening it when its batch comes: for a file that stops every run. Starts no JVM.

    Damaged files are quarantined anyway; this is for a file that crashes the whole application. Its entry has the rule
    `skipped_file`, and `tidegate quarantine replay` reads the file later.
    """
    layout, only = _selected_flow(name, flow)
    place = checkpoint.current(FlowPlace(layout, name, only.name), only.checkpoint_version)
    decision = overrides.skip(place, only, file, by=project.current_user(), reason=reason, undo=undo)
    console.echo(f"{name}/{flow}: {decision.summary()}")


@app.command("accept-gap")
def accept_gap(
    name: Name,
    flow: OneFlow,
    offsets: Annotated[
        list[str],
        typer.Argument(
            metavar="OFFSETS...", help="The lost offsets, partition:first-last, as in 0:10-14 or orders/0:10-14."
        ),
    ],
    reason: Reason,
) -> None:
    """Accept that the broker deleted messages before they were read, so that the flow continues after them. Starts no JVM.

    `tidegate plan` and `tidegate status` list the lost offsets; exactly those must be given. The ledger gets a line of
    kind `gap`. If more messages are lost by the next run, the flow stops again and lists them.
    """
    environment = project.read()
    resolved = project.resolve(environment, name)
    (only,) = project.choose(resolved.pipeline, [flow])
    prefix, lost = gap.parse(offsets)
    decision = lost_messages.accept_gap(
        environment, resolved.flow(only.name), lost, by=project.current_user(), reason=reason, prefix=prefix
    )
    console.echo(f"{name}/{flow}: {decision.summary()}")


@app.command()
def keep(
    name: Name,
    flows: Annotated[list[str], typer.Argument(metavar="FLOWS...", help="Flows that are not declared any more.")],
    reason: Reason,
) -> None:
    """Keep what removed flows left: tables, quarantine, checkpoints and ledger. Starts no JVM.

    Nothing of it is changed. `tidegate plan`, `run` and `status` list a flow that ran and is not declared any more until this is
    recorded. Declared again, it goes on where it stopped.
    """
    environment = project.read()
    resolved, layout = project.resolve(environment, name), project.lake(environment)
    removed = {each.place.flow: each for each in removed_flows(layout, resolved.pipeline, resolved.declared)}
    if unknown := [flow for flow in flows if flow not in removed]:
        declared = any(flow.name == unknown[0] for flow in resolved.pipeline.flows)
        raise RequestError(
            f"flow {unknown[0]!r} of {name!r} {'is declared' if declared else 'has left nothing in the lake'}",
            Edit(f"removed flows: {', '.join(removed) or 'none'}", "request"),
        )
    for flow in flows:
        decision = Override(act="keep", by=project.current_user(), reason=reason, what=removed[flow].stopped)
        overrides.record(removed[flow].place, decision)
        console.echo(f"{name}/{flow}: {decision.summary()}")


@app.command()
def show(name: Name, as_json: AsJson = False) -> None:
    """Show the decisions about a pipeline's flows, oldest first, also those that are not declared any more. Starts no JVM."""
    layout = Layout.of(project.read())
    places = PipelinePlace(layout, project.load(name).name).flows_with_checkpoints()
    decisions = [(place.flow, each) for place in places for each in overrides.history(place)]
    decisions.sort(key=lambda decision: datetime.fromisoformat(decision[1].at))
    if as_json:
        output = [{"flow": flow, **asdict(each)} for flow, each in decisions]
        console.print_json({"format": 1, "pipeline": name, "decisions": output})
    elif decisions:
        rows = [(each.at[:16].replace("T", " "), flow, each.summary()) for flow, each in decisions]
        console.print_table(("when", "flow", "decision"), rows)
    else:
        console.echo(f"There are no decisions about the flows of {name!r}.")


def _switch(name: str, flow: str, reason: str, *, on: bool) -> None:

    layout, only = _selected_flow(name, flow)
    decision = overrides.switch(FlowPlace(layout, name, only.name), on=on, by=project.current_user(), reason=reason)
    console.echo(f"{name}/{flow}: {decision.summary()}")


def _selected_flow(name: str, flow: str) -> tuple[Layout, Flow]:

    environment = project.read()
    (only,) = project.choose(project.load(name), [flow])
    return project.lake(environment), only
