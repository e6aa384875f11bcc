"""``tidegate lag``."""

from __future__ import annotations

from typing import Annotated

import typer

from tidegate.cli import project
from tidegate.status.standing import PATIENCE, Standing

_HEADERS = ("flow", "source", "rows", "bytes", "position", "why")


def lag(
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
    """Show how far every flow is behind its source, in rows and bytes. Starts no JVM; estimates carry a ``~``.

    The exit code is 0 when every flow could be read, else that of the error that stands in the flow's row.
    """
    from tidegate.cli import console
    from tidegate.status import standing

    environment = project.read()
    standings = standing.gather(environment, project.load_all(name), timeout)
    if as_json:
        console.print_json({"format": 1, "flows": [_plain(each) for each in standings]})
    else:
        console.print_table(_HEADERS, [_row(each) for each in standings], right=("rows", "bytes"))
    raise typer.Exit(standing.exit_code(standings))


def _plain(each: Standing) -> dict[str, object]:
    told = each.to_json()
    return {name: told[name] for name in ("pipeline", "flow", "lag", "error")}


def _row(each: Standing) -> tuple[str, ...]:
    from tidegate.cli.status import lag_cells, position

    kind = each.lag.kind if each.lag is not None else "?"
    return (each.place, kind, *lag_cells(each), position(each), each.told())
