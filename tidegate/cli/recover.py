"""``tidegate recover``."""

from __future__ import annotations

from typing import Annotated

import typer

from tidegate.advice import Edit
from tidegate.cli import console, project
from tidegate.cli.run import attempt
from tidegate.environment import Environment
from tidegate.errors import NotRecoveredError, RequestError, TidegateError
from tidegate.planning.recovery_steps import Key
from tidegate.project import resolution
from tidegate.reports.report import now
from tidegate.requests.request import RunRequest
from tidegate.runs.recover import plan as recovery
from tidegate.runs.recover.plan import Recovery


def recover(
    table: Annotated[
        str | None,
        typer.Argument(metavar="TABLE", help="Only this table, and what stands on it; by default the whole lake."),
    ] = None,
    plan: Annotated[
        bool, typer.Option("--plan", help="Show what is damaged, what would be done and what is lost; change nothing.")
    ] = False,
    accept: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PIPELINE/FLOW:WHAT=NUMBER",
            help="Accept that exactly this number is lost, because no source has it any more, or that a swap deletes or quarantines "
            "this number of rows, for example shop/bronze:lost=2; may be given several times.",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the plan as JSON, and change nothing.")] = False,
) -> None:
    """Derive again what damage of tables or checkpoints has reached, in the order of the graph.

    Damage is a table that is gone, was restored or put back, or cannot be read; a checkpoint that is gone, older than its table or
    torn; and a table of which a flow has read what is no longer there. Nothing is deleted: what cannot be read is moved aside in
    the lake, and its place is printed. A flow that can follow the changes of a recovered table reads them with an increment.

    The plan is printed first and starts no JVM; without damage nothing else happens. What no source has any more must be accepted by
    number, or nothing is changed. If the command is interrupted, start it again: it looks at the lake and goes on.

    Exit codes: those of `tidegate run`; 65 also when a loss is not accepted, or something is still damaged afterwards; the code of
    the error of a flow that cannot be judged.
    """
    environment = project.read()
    accepted = _accepted(accept or ())
    made = _make(environment, table)
    if as_json:
        console.print_json(made.to_json())
        return
    for line in made.lines():
        console.echo(line)
    if not made.steps:
        console.echo("nothing to recover; no JVM was started")
        _raise_unknown(made)
        return
    if not plan:
        recovery.check_accepted(made, accepted, table)
        _run(environment, made, accepted, table)


def _accepted(texts: list[str] | tuple[str, ...]) -> set[tuple[str, str]]:
    accepted = set()
    for text in texts:
        pipeline, slash, name = text.partition("/")
        if not slash:
            raise RequestError(
                f"accept={text!r} is not allowed",
                Edit("write <pipeline>/<flow>:<what>=<number>, for example shop/bronze:lost=2", "request"),
            )
        accepted.add((pipeline, name))
    return accepted


def _make(environment: Environment, table: str | None) -> Recovery:
    return recovery.make(environment, resolution.load_all(environment.project), table)


def _run(environment: Environment, made: Recovery, accepted: set[tuple[str, str]], table: str | None) -> None:
    """Do the steps, those of one pipeline in one job, and look at the lake again after each job."""
    left: list[Key] = [each.step.key for each in made.steps]
    while left:
        pipeline = left[0][0]
        number = next((at for at, key in enumerate(left) if key[0] != pipeline), len(left))
        flows, left = left[:number], left[number:]
        params = {
            "mode": "recover",
            "flows": [flow for _, flow in flows],
            "accept": sorted(name for of, name in accepted if of == pipeline),
        }
        declared = project.load(pipeline)
        request = RunRequest.check(declared, f"cli__{now()}", params, requested_by=project.current_user())
        if code := attempt(environment, request):
            raise typer.Exit(code)
        made = _make(environment, table)
        if again := [each.summary() for each in made.damages if (each.pipeline, each.flow) in flows]:
            raise NotRecoveredError(again)
        left += [each.step.key for each in made.steps if each.step.key not in left]
    _raise_unknown(made)
    console.echo("recovered: nothing is damaged any more")


def _raise_unknown(made: Recovery) -> None:
    for error in made.unknown.values():
        assert isinstance(error, TidegateError)
        raise error
