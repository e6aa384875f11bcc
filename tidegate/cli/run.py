"""``tidegate run``."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Annotated

import typer

from tidegate.cli import project

if TYPE_CHECKING:
    from pathlib import Path

    from tidegate.environment import Environment
    from tidegate.report import RunReport
    from tidegate.request import RunRequest


def run(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The pipeline.", autocompletion=project.complete_name)],
    flow: Annotated[
        list[str] | None, typer.Option(metavar="FLOW", help="Only this flow; may be given several times.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Run even if nothing is new.")] = False,
    mode: Annotated[str, project.MODE] = "incremental",
    first: Annotated[str | None, project.FROM] = None,
    last: Annotated[str | None, project.TO] = None,
) -> None:
    """Run a pipeline's flows once, without Airflow: one increment each, then stop.

    When nothing is new it says so and starts no JVM. A flow whose source cannot be read fails alone, with the flows behind
    it; the others run. Ctrl-C stops the job; the next run finishes the batch in hand.

    Exit codes: 0 all is well or nothing was new; 65 a gate refused a batch; the code of the error when a flow or the
    whole job failed (75 when it heals by waiting, 78 when a person must mend something); 70 when the job crashed
    without a report; 130 after Ctrl-C.
    """
    from tidegate.cli import console
    from tidegate.cli.plan import conclusion, decide, print_plan
    from tidegate.layout import Layout
    from tidegate.ops import plans
    from tidegate.planning.extent import sized

    environment = project.read()
    pipeline = project.load(name)
    flows = project.choose(pipeline, flow or ())
    request = project.ask(pipeline, mode, flow, first, last)
    if request.mode != "incremental":
        console.say(f"{name}: {request.told()}")
        raise typer.Exit(attempt(environment, sized(environment, pipeline, request)))
    decided = decide(environment, pipeline, flows)
    plans.record(Layout.of(environment), name, decided.lags)
    print_plan(decided.lags)
    if not decided.work and not force:
        if decided.errors:
            raise decided.errors[0]
        console.say(f"{name}: {conclusion(decided)}; no JVM was started (--force runs anyway)")
        return
    raise typer.Exit(attempt(environment, dataclasses.replace(request, small=decided.small)))


def attempt(environment: Environment, request: RunRequest) -> int:
    """Run one attempt, show it, and return the command's exit code."""
    from tidegate import launch
    from tidegate.cli import child, outcome, watching
    from tidegate.embedded import java
    from tidegate.layout import Layout
    from tidegate.request import fresh_id

    java.find()
    layout = Layout.of(environment)
    layout.open()
    attempt_id, request_id = fresh_id("a"), request.write(layout)
    log = layout.attempt(request.dag_id, request.run_key, attempt_id) / "driver.log"
    with watching.viewer() as show:
        returned, report = child.watch(
            lambda: launch.start(environment, request, request_id, attempt_id, log),
            layout.report(request.dag_id, request.run_key, attempt_id),
            show,
        )
    _tell(environment, report, returned, log)
    return outcome.exit_code(report, returned)


def _tell(environment: Environment, report: RunReport | None, returned: int, log: Path) -> None:
    from tidegate.cli import console, outcome

    for flow in report.flows if report is not None else ():
        for label, text in outcome.tell_flow(flow):
            console.say(f"  {label:<12} {text}" if label else text, style="" if label else flow.state)
    if report is None or outcome.crashed(report):
        console.say()
        for line in outcome.last_words(log):
            console.say(f"  {line}")
        console.complain(f"the job ended with {returned} and without a last word: it crashed. Its whole log: {log}")
        return
    for line in outcome.tell_places(environment, report):
        console.say(line)
    parts = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in report.parts.items() if name != "total")
    console.say(f"{report.dag_id}: {report.parts.get('total', 0.0):.1f} s in the job ({parts})")
    if report.error is not None:
        console.complain(f"{report.error['message']} (its log: {log})")
    elif returned and not outcome.failed(report):
        console.complain(f"the report is complete, but the job's process ended with {returned}; its log: {log}")
