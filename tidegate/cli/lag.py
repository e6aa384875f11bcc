"""``tidegate lag``."""

from __future__ import annotations

import typer

from tidegate.cli import console, project
from tidegate.cli.arguments import AnyName, AsJson, Patience
from tidegate.cli.status import lag_cells, position
from tidegate.states import status_of
from tidegate.status.flow_status import PATIENCE, exit_code, to_json
from tidegate.status.reading import Reading

_HEADERS = ("flow", "source", "rows", "bytes", "position", "why")


def lag(name: AnyName = None, as_json: AsJson = False, timeout: Patience = PATIENCE) -> None:
    """Show how far every flow is behind its source, in rows and bytes. Starts no JVM; estimates carry a ``~``.

    The exit code is 0 if every flow could be read, else that of the error in the flow's row.
    """
    environment = project.read()
    readings = project.readings(environment, name, timeout)
    if as_json:
        console.print_json({"format": 1, "flows": [_to_json(each) for each in readings]})
    else:
        console.print_table(_HEADERS, [_row(each) for each in readings], right=("rows", "bytes"))
    raise typer.Exit(exit_code(readings))


def _to_json(each: Reading) -> dict[str, object]:
    values = to_json(each)
    return {name: values[name] for name in ("pipeline", "flow", "lag", "error")}


def _row(each: Reading) -> tuple[str, ...]:
    kind = each.source_kind if each.lag is not None else "?"
    return (each.label, kind, *lag_cells(each), position(each), status_of(each).sentence)
