"""``tidegate watermark``: propose the delay of a watermark from the rows that came."""

from __future__ import annotations

import dataclasses
from datetime import timedelta
from typing import Annotated

import typer

from tidegate import formatting
from tidegate.cli import console, project
from tidegate.cli.arguments import AsJson, Name
from tidegate.lake.layout import Layout
from tidegate.pages.shares import percent
from tidegate.planning import delay
from tidegate.spec import Flow

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)


@app.callback()
def _group() -> None:
    """A group also while it has one command."""


@app.command()
def advise(
    name: Name,
    flow: Annotated[str, typer.Argument(metavar="FLOW", help="The flow that appends the rows.")],
    share: Annotated[
        float, typer.Option(metavar="SHARE", help="Which share of the rows may be late.", min=0.0, max=1.0)
    ] = 0.001,
    as_json: AsJson = False,
) -> None:
    """Measure how late rows came, by the batches of bronze, and propose a delay. Starts no JVM.

    Counted are the rows that the flow has written and its late rows, whatever delay is declared. A row is late by a delay if its
    event time is further before the highest event time of earlier batches of bronze. The flow needs no watermark yet, only a table
    without keys that has an event_time.
    """
    environment = project.read()
    resolved = project.resolve(environment, name)
    (chosen,) = project.choose(resolved.pipeline, [flow])
    advice = delay.measure(Layout.of(environment), resolved.flow(flow), share)
    if as_json:
        console.print_json({"format": 1, **dataclasses.asdict(advice)})
        return
    rows = [(each, f"{late:,}", percent(late, advice.rows)) for each, late in advice.late.items()]
    console.print_table(("delay", "late rows", "share"), rows, right=("late rows", "share"))
    console.echo()
    for line in _sentences(chosen, advice, share):
        console.echo(line)


def _sentences(flow: Flow, advice: delay.DelayProposal, share: float) -> list[str]:
    worst = formatting.span(timedelta(seconds=advice.worst_seconds))
    rows, batches = formatting.count(advice.rows, "row"), formatting.count(advice.batches, "batch", "batches")
    lines = [
        f"{rows} of {batches} of bronze: the latest has an event time {worst} before the highest of earlier batches."
        if advice.worst_seconds
        else f"{rows} of {batches} of bronze: none has an event time before the highest of earlier batches."
    ]
    if advice.ahead_seconds > 0:
        ahead = formatting.span(timedelta(seconds=advice.ahead_seconds))
        lines.append(f"Event times are up to {ahead} after the ingestion; those beyond the skew would be quarantined.")
    allowed = f"at most {100 * share:g} %"
    if advice.proposed is None:
        lines.append(f"By none of these delays {allowed} of the rows would be late: windows cannot wait so long.")
        return lines
    declared = ""
    if flow.watermark is not None:
        shorter = delay.DELAYS[advice.proposed] < flow.watermark.delay_seconds
        needs = f"; a shorter delay needs checkpoint_version={flow.checkpoint_version + 1}" if shorter else ""
        declared = f" (declared: {flow.watermark.delay!r}{needs})"
    lines.append(f"Proposed, for {allowed} late rows: watermark=Watermark(delay={advice.proposed!r}){declared}")
    return lines
