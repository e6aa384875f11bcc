"""``tidegate cancel``."""

from __future__ import annotations

from typing import Annotated

import typer

from tidegate.advice import OutsideAct
from tidegate.checkpoints import recorded_attempt
from tidegate.checkpoints.recorded_attempt import Cancellation
from tidegate.cli import console, project
from tidegate.cli.arguments import Reason
from tidegate.errors import RequestError
from tidegate.lake.layout import Layout, run_key
from tidegate.lake.place import AttemptPlace, RunPlace
from tidegate.project import registry
from tidegate.reports.report import RunReport, now


def cancel(
    run_id: Annotated[str, typer.Argument(metavar="RUN", help="The id of the run, as Airflow shows it.")],
    reason: Reason,
    pipeline: Annotated[
        str | None, typer.Option(metavar="NAME", help="The pipeline; needed if several have a run of this id.")
    ] = None,
) -> None:
    """End a run whose driver is on a cluster; who, when and why is recorded. Starts no JVM.

    The driver reads it before its next write, of a lake in a bucket within ten seconds, and ends; its report says who cancelled it.
    What was committed stays, and the next run finishes the pending batch. A step that computes for long is ended by the
    cluster's own command. The task fails and is not tried again; when it is cleared, an application that is still there is killed.
    """
    layout = Layout.of(project.read())
    names = [pipeline] if pipeline else registry.names()
    places = [
        place for name in names if recorded_attempt.read(place := RunPlace(layout, name, run_key(run_id))) is not None
    ]
    if len(places) != 1:
        raise RequestError(
            f"no driver of run {run_id!r} was submitted to a cluster"
            if not places
            else f"several pipelines have a run {run_id!r}: {', '.join(each.pipeline for each in places)}",
            OutsideAct("a driver in client mode ends with its task: mark that as failed")
            if not places
            else OutsideAct("choose one with --pipeline"),
        )
    (place,) = places
    known = recorded_attempt.read(place)
    assert known is not None
    report = RunReport.read(AttemptPlace(layout, place.pipeline, place.run_key, known.attempt).report)
    if report is not None and report.ended_at is not None:
        raise RequestError(
            f"attempt {known.attempt} of run {run_id!r} ended at {report.ended_at}",
            OutsideAct("there is nothing to cancel"),
        )
    cancelled = recorded_attempt.cancel(place, Cancellation(by=project.current_user(), at=now(), reason=reason))
    assert cancelled is not None
    console.echo(f"attempt {cancelled.attempt} of {place.pipeline} ends before its next write: {cancelled.cancelled}")
    if cancelled.application is not None:
        console.echo(f"Its application is {cancelled.application}.")
