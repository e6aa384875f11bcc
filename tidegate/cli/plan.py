"""``tidegate plan``."""

from __future__ import annotations

from typing import Any

import typer

from tidegate.cli import console, project
from tidegate.cli.arguments import AsJson, First, Flows, Gaps, Last, Mode, Name
from tidegate.cli.status import lag_cells
from tidegate.cli.undeclared import exit_code, print_undeclared, undeclared_to_json
from tidegate.environment import Environment
from tidegate.errors import TidegateError
from tidegate.lake import read_once
from tidegate.lake.layout import Layout
from tidegate.planning.preview import preview
from tidegate.project.resolution import ResolvedPipeline
from tidegate.reports.report import ErrorReport
from tidegate.requests.request import RunRequest
from tidegate.requests.resources import allocation
from tidegate.spec import Flow, Pipeline
from tidegate.states import status_of
from tidegate.status import flow_status
from tidegate.status import plan as lag_plan
from tidegate.status.lag import to_json
from tidegate.status.reading import Reading

_HEADERS = ("flow", "work", "rows", "bytes", "why")


def plan(
    name: Name,
    flow: Flows = None,
    mode: Mode = "incremental",
    first: First = None,
    last: Last = None,
    gaps: Gaps = False,
    as_json: AsJson = False,
) -> None:
    """Show what a run would do, and why. Starts no JVM and changes nothing.

    Shows what is read and rewritten, the affected downstream flows, the current lease holders, the expected duration from
    the flow's history, and the exact commands; for an increment, a backfill, a reingest or a full refresh.

    Below are the tables of a list that are not valid, and flows that ran and are not declared any more, until `tidegate flow keep`.

    The exit code is 0 whether there is work or not, or that of an error that would stop the run, one of its flows or a table of its list.
    """
    environment = read_once.once(project.read())
    resolved = project.resolve(environment, name)
    pipeline = resolved.pipeline
    flows = project.choose(pipeline, flow or ())
    request = project.build_request(pipeline, mode, flow, first, last, gaps=gaps)
    if request.mode != "incremental":
        _print_preview(environment, resolved, request, as_json=as_json)
        raise typer.Exit(exit_code(pipeline, flow))
    try:
        run_plan = lag_plan.check_and_decide(environment, resolved, flows)
    except TidegateError:
        raise typer.Exit(_print_errors(environment, resolved, flows, as_json=as_json)) from None

    if as_json:
        expected = preview(environment, resolved, request, run_plan.readings)
        own = allocation(environment, pipeline.resources).to_json()
        undeclared = undeclared_to_json(Layout.of(environment), resolved)
        values = {**_to_json(pipeline, run_plan), **undeclared, "preview": expected.to_json(), "resources": own}
        console.print_json(values)
    else:
        lines = preview(environment, resolved, request, run_plan.readings).lines() if run_plan.work else ()
        print_plan(run_plan.readings)
        console.echo(f"{name}: {conclusion(run_plan)}", style="error" if run_plan.errors else "")
        for line in lines:
            console.echo(f"  {line}")
        if run_plan.work:
            console.echo(f"  {allocation(environment, pipeline.resources).line()}")
        print_undeclared(Layout.of(environment), resolved)
    code = run_plan.errors[0].exit_code if run_plan.errors else exit_code(pipeline, flow)
    if code:
        raise typer.Exit(code)


def _print_preview(environment: Environment, resolved: ResolvedPipeline, request: RunRequest, *, as_json: bool) -> None:

    name, expected = resolved.pipeline.name, preview(environment, resolved, request)
    resources = allocation(environment, resolved.pipeline.resources)
    if as_json:
        values = {"format": 1, "pipeline": name, "mode": request.mode, **expected.to_json()}
        console.print_json({**values, "resources": resources.to_json()})
    else:
        console.echo(f"{name}: {request.summary()}")
        for line in [*expected.lines(), resources.line()]:
            console.echo(f"  {line}")
        print_undeclared(Layout.of(environment), resolved)
    for each in expected.flows:
        if (error := resolved.flow(each.flow).error) is not None:
            raise typer.Exit(error.exit_code)


def print_plan(readings: tuple[Reading, ...]) -> None:
    """Print a line per flow: whether it has work, how much, and why."""
    rows = [
        (each.flow, "error" if each.failed else "yes" if each.has_work else "no", *lag_cells(each), each.reason)
        for each in readings
    ]
    console.print_table(_HEADERS, rows, right=("rows", "bytes"))


def conclusion(run_plan: lag_plan.Plan) -> str:
    """The plan in a few words."""
    if failed := [each.flow for each in run_plan.readings if each.failed]:
        flows = f"flow {failed[0]}" if len(failed) == 1 else f"flows {', '.join(failed)}"
        what = "a run would find work, and fail in" if run_plan.work else "a run would end with the error of"
        return f"{what} {flows}"
    if run_plan.work:
        return "a run would find work"
    refused = any(each.known(Reading.wait) is not None for each in run_plan.readings)
    return "nothing to do until what was refused is resolved" if refused else "nothing is new"


def _to_json(pipeline: Pipeline, run_plan: lag_plan.Plan) -> dict[str, Any]:
    flows = [to_json(each) for each in run_plan.readings]
    return {"format": 1, "pipeline": pipeline.name, "work": run_plan.work, "small": run_plan.small, "flows": flows}


def _print_errors(
    environment: Environment, resolved: ResolvedPipeline, flows: tuple[Flow, ...], *, as_json: bool
) -> int:
    """Show the status of each selected flow, so that one that fails does not hide the others."""
    name, names = resolved.pipeline.name, {flow.name for flow in flows}
    readings = [each for each in flow_status.gather(environment, [(name, resolved)], _PATIENCE) if each.flow in names]
    if as_json:
        flow_values = [
            (to_json(each) if each.lag else {"flow": each.flow})
            | {"error": ErrorReport.of(each.error).to_json() if each.error else None}
            for each in readings
        ]
        console.print_json({"format": 1, "pipeline": name, "work": None, "small": None, "flows": flow_values})
    else:
        rows = []
        for each in readings:
            work = "error" if each.error is not None else "yes" if each.lag is not None and each.has_work else "no"
            rows.append((each.flow, work, *lag_cells(each), status_of(each).sentence))
        console.print_table(_HEADERS, rows, right=("rows", "bytes"))
        console.echo(f"{name}: a run would stop at the errors above", style="error")
        print_undeclared(Layout.of(environment), resolved)
    return flow_status.exit_code(readings)


_PATIENCE = 10.0
"""Seconds to wait for the sources; as long as a run waits."""
