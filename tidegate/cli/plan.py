"""``tidegate plan``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidegate.cli import project

if TYPE_CHECKING:
    from tidegate.environment import Environment
    from tidegate.request import RunRequest
    from tidegate.spec import Flow, Pipeline
    from tidegate.status.lag import Lag, Plan

_HEADERS = ("flow", "work", "rows", "bytes", "why")


def plan(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The pipeline.", autocompletion=project.complete_name)],
    flow: Annotated[
        list[str] | None, typer.Option(metavar="FLOW", help="Only this flow; may be given several times.")
    ] = None,
    mode: Annotated[str, project.MODE] = "incremental",
    first: Annotated[str | None, project.FROM] = None,
    last: Annotated[str | None, project.TO] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False,
) -> None:
    """Say what a run would do, and why. Starts no JVM and changes nothing.

    What is read, what is rewritten, whom it touches, who holds the tables now, how long it may take by the flow's own
    history, and the exact commands: for an increment as for a replay, a reingest or a full refresh.

    The exit code is 0 whether there is work or none; a declaration that would stop the run, or a source that would stop
    its flow, gives its own.
    """
    from tidegate.cli import console
    from tidegate.errors import TidegateError

    environment = project.read()
    pipeline = project.load(name)
    flows = project.choose(pipeline, flow or ())
    request = project.ask(pipeline, mode, flow, first, last)
    if request.mode != "incremental":
        _tell_preview(environment, pipeline, request, as_json=as_json)
        return
    try:
        decided = decide(environment, pipeline, flows)
    except TidegateError:
        raise typer.Exit(_tell_troubles(environment, pipeline, flows, as_json=as_json)) from None
    from tidegate.planning.preview import preview

    seen = preview(environment, pipeline, request, decided.lags)
    if as_json:
        console.print_json({**_plain(pipeline, decided), "preview": seen.to_json()})
    else:
        print_plan(decided.lags)
        console.say(f"{name}: {conclusion(decided)}", style="error" if decided.errors else "")
        for line in seen.lines() if decided.work else ():
            console.say(f"  {line}")
    if decided.errors:
        raise typer.Exit(decided.errors[0].exit_code)


def _tell_preview(environment: Environment, pipeline: Pipeline, request: RunRequest, *, as_json: bool) -> None:
    from tidegate.cli import console
    from tidegate.planning.preview import preview

    seen = preview(environment, pipeline, request)
    if as_json:
        console.print_json({"format": 1, "pipeline": pipeline.name, "mode": request.mode, **seen.to_json()})
        return
    console.say(f"{pipeline.name}: {request.told()}")
    for line in seen.lines():
        console.say(f"  {line}")


def decide(environment: Environment, pipeline: Pipeline, flows: tuple[Flow, ...]) -> Plan:
    """Check the lake and the declarations against their checkpoints, then ask the sources.

    Raises:
        TidegateError: What would stop the whole run before its first batch.
    """
    from tidegate.checkpoints import checkpoint
    from tidegate.layout import Layout
    from tidegate.status import lag

    layout = Layout.of(environment)
    if (layout.lake / "lake.json").exists():
        layout.open()
    for flow in flows:
        checkpoint.check_compatible(layout, pipeline, flow)
    return lag.plan(environment, pipeline, flows)


def print_plan(lags: tuple[Lag, ...]) -> None:
    """Print a line per flow: whether it has work, how much, and why."""
    from tidegate.cli import console

    rows = [
        (
            lag.flow,
            "error" if lag.failed else "yes" if lag.has_work else "no",
            console.count(lag.rows, exact=lag.rows_exact),
            console.size(lag.bytes, exact=lag.bytes_exact),
            lag.reason,
        )
        for lag in lags
    ]
    console.print_table(_HEADERS, rows, right=("rows", "bytes"))


def conclusion(decided: Plan) -> str:
    """The plan in a few words."""
    if failed := [lag.flow for lag in decided.lags if lag.failed]:
        flows = f"flow {failed[0]}" if len(failed) == 1 else f"flows {', '.join(failed)}"
        what = "a run would find work, and fail in" if decided.work else "a run would end with the error of"
        return f"{what} {flows}"
    if decided.work:
        return "a run would find work"
    waits = any(lag.refused for lag in decided.lags)
    return "nothing to do until somebody mends what was refused" if waits else "nothing is new"


def _plain(pipeline: Pipeline, decided: Plan) -> dict[str, Any]:
    flows = [lag.to_json() for lag in decided.lags]
    return {"format": 1, "pipeline": pipeline.name, "work": decided.work, "small": decided.small, "flows": flows}


def _tell_troubles(environment: Environment, pipeline: Pipeline, flows: tuple[Flow, ...], *, as_json: bool) -> int:
    """Show every chosen flow by itself, so that one that fails does not hide the others."""
    from tidegate.cli import console
    from tidegate.cli.status import lag_cells
    from tidegate.report import describe_error
    from tidegate.status import standing

    names = {flow.name for flow in flows}
    found = [
        each for each in standing.gather(environment, [(pipeline.name, pipeline)], _PATIENCE) if each.flow in names
    ]
    if as_json:
        told = [
            (each.lag.to_json() if each.lag else {"flow": each.flow})
            | {"error": describe_error(each.error) if each.error else None}
            for each in found
        ]
        console.print_json({"format": 1, "pipeline": pipeline.name, "work": None, "small": None, "flows": told})
    else:
        rows = []
        for each in found:
            work = "error" if each.error is not None else "yes" if each.lag is not None and each.lag.has_work else "no"
            rows.append((each.flow, work, *lag_cells(each), each.told()))
        console.print_table(_HEADERS, rows, right=("rows", "bytes"))
        console.say(f"{pipeline.name}: a run would stop at the errors above", style="error")
    return standing.exit_code(found)


_PATIENCE = 10.0
"""Seconds; as long as a run itself would wait."""
