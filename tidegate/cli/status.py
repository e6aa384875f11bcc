"""``tidegate status``."""

from __future__ import annotations

from typing import Annotated

import typer

from tidegate import wording
from tidegate.cli import project
from tidegate.status.standing import PATIENCE, Standing

_HEADERS = ("flow", "state", "version", "last batch", "rows", "bytes", "quarantined", "position")


def status(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME", help="One pipeline; all of them without it.", autocompletion=project.complete_name
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False,
    timeout: Annotated[
        float, typer.Option(metavar="SECONDS", help="Seconds to wait for the sources.", min=0.1)
    ] = PATIENCE,
) -> None:
    """Show where every flow stands: checkpoint, lease, last batch, lag, position, and what is open in quarantine.

    Starts no JVM.

    The exit code is 0 when every flow could be read, else that of the error that stands in the flow's row.
    """
    from tidegate.cli import console
    from tidegate.status import standing

    environment = project.read()
    standings = standing.gather(environment, project.load_all(name), timeout)
    if as_json:
        console.print_json({"format": 1, "flows": [each.to_json() for each in standings]})
    elif standings:
        console.print_table(_HEADERS, [_row(each) for each in standings], right=("rows", "bytes"))
        _tell_below(standings)
    else:
        console.say("No pipeline is declared yet; `tidegate new NAME` makes one.")
    raise typer.Exit(standing.exit_code(standings))


def _tell_below(standings: list[Standing]) -> None:
    """Who holds a lease, why a row says ``error`` or ``refused``, and which thresholds were passed: a line each."""
    from tidegate.cli import console

    for each in standings:
        if each.holder is not None:
            console.say(f"{each.place}: held by {each.holder}", style="running")
        if each.state in ("error", "refused", "off"):
            console.say(f"{each.place}: {each.told()}", style=each.state)
        for warning in each.warnings:
            console.say(f"{each.place}: warning: {warning}", style="behind")


def _row(each: Standing) -> tuple[str, ...]:
    version = "-" if each.version is None else f"v{each.version}" + (f"/{each.refresh}" if each.refresh else "")
    batch = "-" if each.last_committed is None else str(each.last_committed)
    if each.planned_ms is not None:
        batch += f", {wording.age(each.planned_ms)}"
    return (each.place, each.state, version, batch, *lag_cells(each), _quarantined(each), position(each))


def _quarantined(each: Standing) -> str:
    """How many entries are open, and since when the oldest."""
    if each.quarantine is None:
        return "?"
    if each.quarantine.oldest_ms is None:
        return "-"
    return f"{each.quarantine.open:,}, oldest {wording.age(each.quarantine.oldest_ms)}"


def lag_cells(each: Standing) -> tuple[str, str]:
    """Rows and bytes behind; estimates carry a ``~``."""
    from tidegate.cli import console

    if each.lag is None:
        return "?", "?"
    return console.count(each.lag.rows, exact=each.lag.rows_exact), console.size(
        each.lag.bytes, exact=each.lag.bytes_exact
    )


def position(each: Standing) -> str:
    """How far the flow has read its source."""
    return (each.lag.position if each.lag is not None else None) or "-"
