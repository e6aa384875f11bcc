"""``tidegate run``."""

from __future__ import annotations

import dataclasses
import sys
from contextlib import suppress
from typing import Annotated

import typer

from tidegate import json_codec
from tidegate.cli import child, console, driver_log, progress_view, project, undeclared
from tidegate.cli.arguments import First, Flows, Gaps, Last, Mode, Name
from tidegate.cli.plan import conclusion, print_plan
from tidegate.environment import Environment
from tidegate.errors import TidegateError
from tidegate.lake import read_once
from tidegate.lake.layout import Layout
from tidegate.lake.place import AttemptPlace
from tidegate.planning import rewrites
from tidegate.planning.extent import with_size
from tidegate.reports import run_result
from tidegate.reports.report import RunReport
from tidegate.reports.report_lines import flow_lines, requests_line
from tidegate.requests import launch
from tidegate.requests.request import RunRequest, fresh_id
from tidegate.runtime import archive_build, java
from tidegate.status import plan as lag_plan
from tidegate.store import Address


def run(
    name: Name,
    flow: Flows = None,
    force: Annotated[bool, typer.Option("--force", help="Run even if nothing is new.")] = False,
    mode: Mode = "incremental",
    first: First = None,
    last: Last = None,
    gaps: Gaps = False,
    accept: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FLOW:WHAT=NUMBER",
            help="Accept that a backfill, a full refresh or a new version deletes or quarantines exactly this number of rows, "
            "for example silver:deleted=355 or silver:quarantined=427; may be given several times.",
        ),
    ] = None,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            help="Derive what a backfill, a full refresh or a new version would write, and show rows before and after, deleted, "
            "changed and quarantined, with the keys of some; write nothing.",
        ),
    ] = False,
) -> None:
    """Run one increment of each flow of a pipeline, without Airflow.

    If nothing is new, no JVM is started. A flow whose source, suite or transform cannot be read fails, and its downstream
    flows are skipped; the others run. So do those of a list with a table that is not valid, whose code the run ends with. Ctrl-C stops
    the job; the next run finishes the pending batch.

    A backfill, a full refresh or a new version that deletes or quarantines too large a share of the rows is refused, unless the
    numbers are accepted by name (--accept). See them before with --dry-run, which starts a JVM.

    Exit codes: 0 success or nothing to do; 65 a batch or a rewrite was refused; the code of the error if a flow
    or the whole job failed (75 if transient, 78 if it needs a person); 70 if the job crashed without a report and the machine's cause is
    unknown; 130 after Ctrl-C.
    """
    environment = project.read()
    resolved = project.resolve(environment, name)
    pipeline = resolved.pipeline
    flows = project.choose(pipeline, flow or ())
    request = project.build_request(pipeline, mode, flow, first, last, gaps=gaps, dry_run=dry_run, accept=accept)
    undeclared.print_undeclared(Layout.of(environment), resolved)
    code = undeclared.exit_code(pipeline, flow)
    if dry_run and not rewrites.has_any(Layout.of(environment), pipeline, request):
        console.echo(
            f"{name}: nothing to judge: no row is replaced; no JVM was started. `tidegate plan` shows what is read"
        )
        raise typer.Exit(code)
    if request.mode != "incremental" or dry_run:
        resolved.check_runnable([each for each in flows if request.applies_to(each)])
        console.echo(f"{name}: {request.summary()}")
        raise typer.Exit(attempt(environment, with_size(environment, pipeline, request)) or code)
    reading = read_once.once(environment)
    run_plan = lag_plan.check_and_decide(reading, resolved, flows)
    lag_plan.record(reading, name, run_plan)
    print_plan(run_plan.readings)
    if not run_plan.work and not force and not accept:
        if run_plan.errors:
            error = run_plan.errors[0]
            raise error.naming(next(each.flow for each in run_plan.readings if each.error is error))
        console.echo(f"{name}: {conclusion(run_plan)}; no JVM was started (--force runs anyway)")
        raise typer.Exit(code)
    sized = dataclasses.replace(request, small=run_plan.small, size=run_plan.size)
    raise typer.Exit(attempt(environment, sized) or code)


def attempt(environment: Environment, request: RunRequest) -> int:
    """Run one attempt, show its progress and its report, and return the command's exit code."""
    returned, report, log = execute(environment, request)
    print_report(report, returned, log)
    if request.dry_run and report is not None:
        _print_samples(Layout.of(environment), report)
    if returned == 0 and sys.stdout.isatty():
        _speed_up(environment)
    return run_result.exit_code(report, returned, log)


def _speed_up(environment: Environment) -> None:
    """Create the class data archive after the first job of this machine, whose results are shown, for the jobs to come.

    For a person at a terminal: a container that runs one job has no use for it, and an image gets it by `tidegate setup`.
    """
    with suppress(KeyboardInterrupt, TidegateError):  # of a cache that cannot be written, which is no error of the run
        if not archive_build.is_complete(environment.project, environment.job_python):
            archive_build.build(
                environment.project, environment.job_python, lambda line: console.echo(f"{line}; Ctrl-C leaves it")
            )


def execute(environment: Environment, request: RunRequest) -> tuple[int, RunReport | None, Address]:
    """Run one attempt and show its progress; the exit code of its process, its last report, and its log."""
    resources = project.load(request.dag_id).resources
    java.find(python=environment.job_python)
    launch.prepare(environment, console.echo)
    layout = Layout.of(environment)
    layout.open()
    attempt_id, request_id = fresh_id("a"), request.write(layout)
    place = AttemptPlace(layout, request.dag_id, request.run_key, attempt_id)
    with driver_log.written(place.folder / "driver.log") as log:
        returned, report = child.watch(
            lambda: launch.start(environment, request, request_id, attempt_id, log.path, resources),
            place.report,
            progress_view.Lines(),
        )
    return returned, report, log.kept


def _print_samples(layout: Layout, report: RunReport) -> None:
    """The keys of some rows, which are values of the data: they are in no report and no log."""
    for flow in report.flows:
        path = AttemptPlace(layout, report.dag_id, report.run_key, report.attempt).sample(flow.flow)
        for effect, keys in (json_codec.read(path, dict[str, list[str]]) or {}).items():
            console.echo(f"{flow.flow}: {effect}, for example {', '.join(keys)}")


def print_report(report: RunReport | None, returned: int, log: Address) -> None:
    """Print what each flow of an attempt did, where to find more, and how it failed."""
    for flow in report.flows if report is not None else ():
        for label, text in flow_lines(flow):
            console.echo(f"  {label:<12} {text}" if label else text, style="" if label else flow.state)
    if report is None or run_result.crashed(report):
        console.echo()
        for line in run_result.log_tail(log):
            console.echo(f"  {line}")
        console.print_error(run_result.describe_crash(returned, log))
        return
    for line in run_result.next_commands(report):
        console.echo(line)
    parts = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in report.parts.items() if name != "total")
    console.echo(f"{report.dag_id}: {report.parts.get('total', 0.0):.1f} s in the job ({parts})")
    if report.requests:
        console.echo(f"{report.dag_id}: {requests_line(report.requests)}")
    if report.error is not None:
        console.print_error(f"{report.error.message} (its log: {log})")
    if returned and (run_result.is_of_spark(returned) or not run_result.failed(report)):
        console.print_error(
            f"the report is complete, but the job's process ended with {run_result.describe_exit(returned)}; its log: {log}"
        )
