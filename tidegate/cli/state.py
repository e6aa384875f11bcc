"""``tidegate state``: what a stateful flow remembers between batches; contents only on request."""

from __future__ import annotations

from typing import Annotated

import pendulum
import typer

from tidegate import formatting, json_codec
from tidegate.cli import console, project
from tidegate.cli.arguments import AsJson, Name
from tidegate.cli.run import execute, print_report
from tidegate.errors import EX_SOFTWARE
from tidegate.lake.layout import Layout
from tidegate.lake.place import AttemptPlace, PipelinePlace
from tidegate.ops import metrics
from tidegate.planning.extent import with_size
from tidegate.reports import run_result
from tidegate.reports.report import now
from tidegate.reports.stored_state import StateTable, StoredState
from tidegate.requests.request import RunRequest
from tidegate.status.source import Extent

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)


@app.command()
def show(
    name: Name,
    flow: Annotated[str, typer.Argument(metavar="FLOW", help="The stateful flow.")],
    key: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN=VALUE", help="Only rows with this value in a column of the key; may be given several times."
        ),
    ] = None,
    limit: Annotated[int, typer.Option(metavar="N", help="At most this many rows of each part of the state.")] = 20,
    as_json: AsJson = False,
) -> None:
    """Print rows of a flow's state, as of its last complete batch. Starts a JVM.

    The state of windows, sessions and deduplication is one table. Custom state has one for each of its variables, and one for its
    timers. The rows are in no order. Nothing but a report is written, and no lease is taken: a job may run meanwhile.

    The output has values of the data, which may be personal. `tidegate status` has only the size of the state.

    Exit codes: 0 success; 64 also when no batch of the flow is complete; 78 also when files of the state are damaged.
    """
    environment = project.read()
    resolved = project.resolve(environment, name)
    (chosen,) = project.choose(resolved.pipeline, [flow])
    request = RunRequest.of_state(
        resolved.pipeline, flow, f"cli__{now()}", requested_by=project.current_user(), limit=limit, keys=key or ()
    )
    layout = Layout.of(environment)
    figures = metrics.state_figures(PipelinePlace(layout, name).ops("progress"), chosen.name)
    extent = Extent(what="state", rows=None, size=figures[0].state_bytes if figures else None)
    returned, report, log = execute(environment, with_size(environment, resolved.pipeline, request, [extent]))
    code = run_result.exit_code(report, returned, log)
    if code or report is None:
        print_report(report, returned, log)
        raise typer.Exit(code or EX_SOFTWARE)
    state = json_codec.read(AttemptPlace(layout, name, report.run_key, report.attempt).stored_state(flow), StoredState)
    assert state is not None
    if as_json:
        figures_now = figures[0].to_json(pendulum.now("UTC")) if figures else None
        console.print_json(
            {"format": 1, "pipeline": name, "flow": flow, **json_codec.to_plain(state), "figures": figures_now}
        )
        return
    partitions = formatting.count(state.partitions, "partition")
    console.echo(f"{name}/{flow}: {state.operator} after batch {state.batch_id}, in {partitions}")
    if figures:
        console.echo(f"{name}/{flow}: {figures[0].summary(pendulum.now('UTC'))}")
    for table in state.tables:
        _print(table)


def _print(table: StateTable) -> None:
    if table.name:
        console.echo(f"{table.name} ({table.kind})" if table.kind != table.name else table.name, style="bold")
    if not table.rows:
        console.echo("  no rows")
        return
    console.print_table(table.columns, [["NULL" if each is None else each for each in row] for row in table.rows])
    if table.more:
        console.echo("… there are more; --limit shows more rows, --key those of one key")
