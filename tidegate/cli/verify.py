"""``tidegate verify``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import typer

from tidegate import json_codec
from tidegate.advice import Advice, Command, Either, OutsideAct, Then
from tidegate.cli import console, project
from tidegate.cli.arguments import Name
from tidegate.cli.run import execute, print_report
from tidegate.environment import Environment
from tidegate.errors import EX_SOFTWARE, RequestError, TableDiffersError, TidegateError
from tidegate.lake.layout import Layout
from tidegate.lake.place import AttemptPlace
from tidegate.planning.extent import with_size
from tidegate.project import registry
from tidegate.reports import run_result
from tidegate.reports.report import DifferingRow, FlowReport, RunReport, now
from tidegate.requests.request import RunRequest
from tidegate.sources.tables.measure import rows_and_bytes
from tidegate.spec import Flow, Pipeline
from tidegate.status.source import Extent


def verify(
    name: Name,
    flow: Annotated[str, typer.Argument(metavar="FLOW", help="The flow that writes the table.")],
    key: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN=VALUE",
            help="Compare only rows with this value in a key column; may be given several times.",
        ),
    ] = None,
    limit: Annotated[int, typer.Option(metavar="N", help="Name at most this many rows; all are counted.")] = 20,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Compare the table of a flow with what its sources make, and name the rows that differ. Starts a JVM.

    The rows are derived again with today's code, from the version of the source that the table has read: of a table, from its
    rows; of a landing zone, from the files that are still as they were; of a topic, from the messages that it still has. Rows
    that quarantine entries keep out of the table are expected to be missing. Rows that cannot be compared are counted, with the
    reason. Nothing but a report is written, and no lease is taken: a job may run meanwhile.

    The printed keys are values of the data. The name of a column stands for its values.

    Exit codes: 0 no row differs; 3 a row is missing, unexpected or different; 64 also when the flow has not written its table yet;
    75 also when a job has written a part of its rows; 78 also when VACUUM removed the version of the source.
    """
    environment = project.read()
    resolved = project.resolve(environment, name)
    (chosen,) = project.choose(resolved.pipeline, [flow])
    if resolved.flow(flow).error is not None:
        resolved.check_runnable([chosen])
    request = RunRequest.of_verification(
        resolved.pipeline, flow, f"cli__{now()}", requested_by=project.current_user(), limit=limit, keys=key or ()
    )
    returned, report, log = execute(environment, _with_size(environment, resolved.pipeline, chosen, request))
    code = run_result.exit_code(report, returned, log)
    layout, flow_report = Layout.of(environment), _flow_report(report, flow)
    if code or report is None or flow_report is None or flow_report.verification is None:
        print_report(report, returned, log)
        raise typer.Exit(code or EX_SOFTWARE)
    path = AttemptPlace(layout, report.dag_id, report.run_key, report.attempt).differences(flow)
    rows = json_codec.read(path, tuple[DifferingRow, ...]) or ()
    result = flow_report.verification
    if as_json:
        console.print_json(
            {**json_codec.to_plain(result), "rows": json_codec.to_plain(rows), "notes": flow_report.notes}
        )
    else:
        print_report(report, returned, log)
        for row in rows:
            columns = f"  ({', '.join(row.columns)})" if row.columns else ""
            console.echo(f"{row.effect:<10}  {row.key}{columns}")
        more = result.missing + result.unexpected + result.different - len(rows)
        if more:
            console.echo(f"… {more:,} more; --limit names more rows")
    if result.differs:
        counts = f"{result.missing:,} missing, {result.unexpected:,} unexpected, {result.different:,} different"
        raise TableDiffersError(
            flow, chosen.target.name, counts, _remedy(resolved.pipeline, chosen, registry.declarations())
        )


def _remedy(pipeline: Pipeline, flow: Flow, declared: Mapping[str, Pipeline | TidegateError]) -> Advice:
    if flow.is_staged:
        return _run(pipeline.name, flow.name, "full_refresh", "{} derives the table again")
    restore = OutsideAct(f"restore the version of {flow.target.name} before the commit of another writer")
    reingest = _run(pipeline.name, flow.name, "reingest", "{} adds files and messages of which the table has nothing")
    # They have rows of the missing records, which they append once more when the reingest adds these.
    again = [
        _run(name, reader, "full_refresh", f"{{}} derives the table again, which else has rows twice ({table})")
        for name, reader, table in _appending(flow.target.name, declared)
    ]
    return Either(Then(reingest, *again) if again else reingest, restore)


def _run(pipeline: str, flow: str, mode: str, says: str) -> Command:
    return Command.tidegate("run", pipeline, "--flow", flow, "--mode", mode, says=says)


def _appending(table: str, declared: Mapping[str, Pipeline | TidegateError]) -> list[tuple[str, str, str]]:
    """Pipeline, name and target of the flows that append each row of the table to a table without keys."""
    return [
        (name, each.name, each.target.name)
        for name, pipeline in declared.items()
        if not isinstance(pipeline, TidegateError)
        for each in pipeline.flows
        if table in each.source_tables and each.is_staged and not each.target.keys
    ]


def _with_size(environment: Environment, pipeline: Pipeline, flow: Flow, request: RunRequest) -> RunRequest:
    """Both tables are read; a landing zone or a topic is about as large as its table."""
    layout, names = Layout.of(environment), [flow.target.name, *flow.source_tables]
    extents = [Extent(what=each, rows=None, size=rows_and_bytes(layout.read_table(each))[1]) for each in names]
    if extents[0].size is None:
        raise RequestError(
            f"flow {flow.name!r} has not written table {flow.target.name!r} yet, so there is nothing to verify.",
            Command.tidegate("run", pipeline.name, "--flow", flow.name, says="run it first: {}"),
        )
    return with_size(environment, pipeline, request, extents)


def _flow_report(report: RunReport | None, flow: str) -> FlowReport | None:
    return next((each for each in report.flows if each.flow == flow), None) if report is not None else None
