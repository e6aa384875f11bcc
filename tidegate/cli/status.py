"""``tidegate status``."""

from __future__ import annotations

from typing import Annotated

import pendulum
import typer

from tidegate import formatting
from tidegate.cli import console, project
from tidegate.status.flow_status import PATIENCE, FlowStatus, exit_code

_HEADERS = ("flow", "state", "version", "last batch", "rows", "bytes", "quarantined", "position")


def status(
    name: Annotated[
        str | None,
        typer.Argument(metavar="NAME", help="One pipeline; default: all.", autocompletion=project.complete_name),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False,
    timeout: Annotated[
        float, typer.Option(metavar="SECONDS", help="Seconds to wait for the sources.", min=0.1)
    ] = PATIENCE,
) -> None:
    """Show the status of every flow: state, checkpoint, last batch, lag, position, and open quarantine entries.

    Below the table is a line for each flow whose state needs an explanation, with the next step. `docs/reference/states.md`
    lists the states. A line says which intervals of a source are complete, if it declares intervals; --json has all of them.
    Another says how many rows of state a stateful flow keeps, and how far its watermark is behind the clock.

    Starts no JVM.

    The exit code is 0 if every flow could be read, else that of the error in the flow's row.
    """
    environment = project.read()
    statuses = project.statuses(environment, name, timeout)
    if as_json:
        console.print_json({"format": 1, "flows": [each.to_json() for each in statuses]})
    elif statuses:
        console.print_table(_HEADERS, [_row(each) for each in statuses], right=("rows", "bytes"))
        _print_details(statuses)
    else:
        console.echo("No pipeline is declared yet; `tidegate new NAME` creates one.")
    raise typer.Exit(exit_code(statuses))


def _print_details(statuses: list[FlowStatus]) -> None:
    """A line for each state that the numbers do not explain, for intervals, for open alerts, and for each exceeded threshold."""
    for each in statuses:
        status = each.status
        if not status.state.plain:
            # The flow that it waits for has a line of its own.
            text = status.text if status.name != "waits" else status.sentence
            console.echo(f"{each.label}: {text}", style=status.tone)
        completeness = each.lag.completeness.summary() if each.lag is not None and each.lag.completeness else ""
        if completeness and (status.state.plain or completeness not in status.text):
            console.echo(f"{each.label}: {completeness}")
        if each.operator_state is not None:
            console.echo(f"{each.label}: {each.operator_state.summary(pendulum.now('UTC'))}")
        if status.alerts:
            names = ", ".join(status.alerts)
            console.echo(f"{each.label}: open alerts: {names}; see `tidegate alerts {each.pipeline}`", style="bad")
        for warning in each.warnings:
            console.echo(f"{each.label}: warning: {warning}", style="behind")


def _row(each: FlowStatus) -> tuple[str, ...]:
    version = "-" if each.version is None else f"v{each.version}" + (f"/{each.refresh}" if each.refresh else "")
    batch = "-" if each.last_committed is None else str(each.last_committed)
    if each.planned_ms is not None:
        batch += f", {formatting.age(each.planned_ms)}"
    return (each.label, each.status.label, version, batch, *lag_cells(each), _quarantined(each), position(each))


def _quarantined(each: FlowStatus) -> str:
    """The number of open entries, and the age of the oldest."""
    if each.quarantine is None:
        return "?"
    if each.quarantine.oldest_ms is None:
        return "-"
    return f"{each.quarantine.open:,}, oldest {formatting.age(each.quarantine.oldest_ms)}"


def lag_cells(each: FlowStatus) -> tuple[str, str]:
    """Rows and bytes behind; estimates are marked with ``~``."""
    if each.lag is None:
        return "?", "?"
    return console.count(each.lag.rows, exact=each.lag.rows_exact), console.size(
        each.lag.bytes, exact=each.lag.bytes_exact
    )


def position(each: FlowStatus) -> str:
    """The position up to which the flow has read its source."""
    return (each.lag.position if each.lag is not None else None) or "-"
