"""``tidegate status``."""

from __future__ import annotations

import pendulum
import typer

from tidegate import formatting
from tidegate.alerting.alerts import warnings
from tidegate.cli import console, project, undeclared
from tidegate.cli.arguments import AnyName, AsJson, Patience
from tidegate.lake.layout import Layout
from tidegate.project.resolution import ResolvedPipeline
from tidegate.states import status_of
from tidegate.status.flow_status import PATIENCE, exit_code, to_json
from tidegate.status.reading import Reading

_HEADERS = ("flow", "state", "version", "last batch", "rows", "bytes", "quarantined", "position")


def status(name: AnyName = None, as_json: AsJson = False, timeout: Patience = PATIENCE) -> None:
    """Show the status of every flow: state, checkpoint, last batch, lag, position, and open quarantine entries.

    Below the table is a line for each flow whose state needs an explanation, with the next step. `docs/reference/states.md`
    lists the states. A line says which intervals of a source are complete, if it declares intervals; --json has all of them.
    Another says how many rows of state a stateful flow keeps, and how far its watermark is behind the clock. The last name flows that
    ran and are not declared any more, until `tidegate flow keep`.

    Starts no JVM.

    The exit code is 0 if every flow could be read, else that of the error in the flow's row.
    """
    environment = project.read()
    readings = project.readings(environment, name, timeout)
    layout, pipelines = Layout.of(environment), project.resolve_all(environment, name)
    loaded = [each for _, each in pipelines if isinstance(each, ResolvedPipeline)]
    if as_json:
        removed = [flow for each in loaded for flow in undeclared.undeclared_to_json(layout, each)["removed_flows"]]
        console.print_json({"format": 1, "flows": [to_json(each) for each in readings], "removed_flows": removed})
    elif readings:
        console.print_table(_HEADERS, [_row(each) for each in readings], right=("rows", "bytes"))
        _print_details(readings)
        for pipeline in loaded:
            undeclared.print_removed(layout, pipeline)
    else:
        console.echo("No pipeline is declared yet; `tidegate new NAME` creates one.")
    raise typer.Exit(exit_code(readings))


def _print_details(readings: list[Reading]) -> None:
    """A line for each state that the numbers do not explain, for intervals, for open alerts, and for each exceeded threshold."""
    for each in readings:
        status = status_of(each)
        if not status.state.plain:
            # The flow that it waits for has a line of its own.
            text = status.text if status.name != "waits" else status.sentence
            console.echo(f"{each.label}: {text}", style=status.tone)
        completeness = each.known(Reading.completeness)
        complete = completeness.summary() if completeness is not None else ""
        if complete and (status.state.plain or complete not in status.text):
            console.echo(f"{each.label}: {complete}")
        if kept := each.known(Reading.kept):
            console.echo(f"{each.label}: {kept[0].summary(pendulum.now('UTC'))}")
        if status.alerts:
            names = ", ".join(status.alerts)
            console.echo(f"{each.label}: open alerts: {names}; see `tidegate alerts {each.pipeline}`", style="bad")
        for warning in warnings(each) if each.known(Reading.quarantine) else ():
            console.echo(f"{each.label}: warning: {warning}", style="behind")


def _row(each: Reading) -> tuple[str, ...]:
    place, state, committed = each.known(Reading.place), each.known(Reading.progress), each.known(Reading.committed)
    refresh = f"/{place.refresh}" if place is not None and place.refresh else ""
    version = "-" if each.version is None else f"v{each.version}{refresh}"
    batch = "-" if state is None or state.last_committed is None else str(state.last_committed)
    if committed is not None:
        batch += f", {formatting.age(committed.timestamp_ms)}"
    return (each.label, status_of(each).label, version, batch, *lag_cells(each), _quarantined(each), position(each))


def _quarantined(each: Reading) -> str:
    """The number of open entries, and the age of the oldest."""
    quarantine = each.known(Reading.quarantine)
    if quarantine is None:
        return "?"
    if quarantine.oldest_ms is None:
        return "-"
    return f"{quarantine.open:,}, oldest {formatting.age(quarantine.oldest_ms)}"


def lag_cells(each: Reading) -> tuple[str, str]:
    """Rows and bytes behind; estimates are marked with ``~``."""
    lag = each.lag
    if lag is None:
        return "?", "?"
    return console.count(lag.rows, exact=lag.rows_exact), console.size(lag.size, exact=lag.size_exact)


def position(each: Reading) -> str:
    """The position up to which the flow has read its source."""
    return (each.lag.position if each.lag is not None else None) or "-"
