"""The status of every flow: readings of all flows, made in parallel within a deadline. Starts no JVM.

`tidegate.states` says what they mean.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

import pendulum

from tidegate.advice import OutsideAct
from tidegate.alerting.alerts import warnings
from tidegate.checkpoints import checkpoint
from tidegate.errors import SourceUnavailableError, TidegateError, classify
from tidegate.lake import read_once
from tidegate.lake.layout import Layout
from tidegate.ops import contents
from tidegate.reports.report import ErrorReport
from tidegate.states import status_of
from tidegate.status import lag, run_ends, source, upstream
from tidegate.status.reading import Reading
from tidegate.status.run_ends import RunEnds

if TYPE_CHECKING:
    from datetime import datetime

    from tidegate.environment import Environment
    from tidegate.project.resolution import ResolvedPipeline

PATIENCE = 1.5
"""Default number of seconds that a command or a page waits for the next source to answer."""


def to_json(reading: Reading) -> dict[str, Any]:
    """The status of a flow, JSON-serializable. What could not be read is None, and ``error`` has the reason."""
    status, place, quarantine = status_of(reading), reading.known(Reading.place), reading.known(Reading.quarantine)
    state, committed = reading.known(Reading.progress), reading.known(Reading.committed)
    completeness = reading.known(Reading.completeness)
    kept = reading.known(Reading.kept)
    return {
        "pipeline": reading.pipeline,
        "flow": reading.flow or None,
        "target": reading.target or None,
        "state": status.name,
        "sentence": status.sentence,
        "needs_person": status.needs_person,
        "next_step": status.next_step or None,
        "read_at": reading.at.isoformat(),
        "failed_runs": reading.ends.failed_runs if reading.ends is not None else 0,
        "alerts": list(reading.alerts),
        "checkpoint_version": reading.version,
        "refresh": place.refresh if place is not None else None,
        "lease": reading.known(Reading.holder),
        "last_planned_batch": state.last_planned if state is not None else None,
        "last_committed_batch": state.last_committed if state is not None else None,
        "last_committed_planned_at_ms": committed.timestamp_ms if committed is not None else None,
        "lag": lag.to_json(reading) | {"error": None} if reading.lag is not None else None,
        "completeness": completeness.to_json() if completeness is not None else None,
        "quarantine": {
            "open": quarantine.open,
            "states": dict(quarantine.states),
            "oldest_open_at_ms": quarantine.oldest_ms,
            "warnings": list(warnings(reading)),
        }
        if quarantine is not None
        else None,
        "operator_state": kept[0].to_json(pendulum.now("UTC")) if kept else None,
        "error": ErrorReport.of(reading.error).to_json() if reading.error is not None else None,
    }


def gather(
    environment: Environment,
    pipelines: Sequence[tuple[str, ResolvedPipeline | TidegateError]],
    patience: float,
    now: datetime | None = None,
) -> list[Reading]:
    """Readings of the flows of some pipelines, in graph order, each with its last runs and with the flows above it.

    An error only affects its own flow: an unavailable broker does not hide the other flows.

    Args:
        pipelines: Pipelines by name, or the error why one does not load. A flow waits for a flow above it only if the
            pipeline of that flow is among them.
        patience: Seconds without an answer of any source, after which those that have not answered count as unavailable. So many
            flows may take as long as they need, and a source that hangs delays them once.
        now: The time of the reading, by default the present.
    """
    now, environment = now or pendulum.now("UTC"), read_once.once(environment)
    for name, pipeline in pipelines:
        if not isinstance(pipeline, TidegateError):
            contents.known(environment, name, more=True)
    layout = Layout.of(environment)
    layout.check()
    readings = []
    for name, pipeline in pipelines:
        if isinstance(pipeline, TidegateError):
            readings.append(Reading(layout=layout, clusters=environment.cluster, declared=name, at=now, error=pipeline))
        else:
            readings += [Reading.of(environment, flow, now) for flow in pipeline.flows]
            readings += [
                Reading(
                    layout=layout,
                    clusters=environment.cluster,
                    declared=f"{name}/{each.name}",
                    at=now,
                    error=each.error,
                )
                for each in pipeline.pipeline.invalid_tables
            ]
    of_pipelines = {
        name: [*own] for name, own in groupby(_read_all(readings, patience), key=lambda each: each.pipeline)
    }
    with_ends: list[Reading] = []
    for name, pipeline in pipelines:
        own = of_pipelines.get(name, [])
        with_ends += own if isinstance(pipeline, TidegateError) else _with_ends(layout, pipeline, own, now)
    return upstream.connected(with_ends)


def _with_ends(
    layout: Layout, resolved: ResolvedPipeline, readings: Sequence[Reading], now: datetime
) -> Sequence[Reading]:
    """Readings of a pipeline with how its last runs ended; a failed increment counts as long as the pipeline has work."""
    running = any(each.holder is not None for each in readings if each.flow)
    try:
        ends = run_ends.read(layout, resolved.pipeline, now, running=running)
    except (FileNotFoundError, ValueError):
        # Reports may be deleted meanwhile, or have been edited; then it is unknown how the runs ended.
        return readings
    except OSError as error:
        return [each.given(error=each.error or classify(error, "the reports of its runs")) for each in readings]
    if not any(each.lag is None or each.has_work for each in readings if each.flow):
        # There is nothing left of what failed, and no run would start, whose success could end the failure.
        ends |= {flow: RunEnds(caught_up_at=own.caught_up_at) for flow, own in ends.items() if own.of_increment}
    return [each.given(ends=ends.get(each.flow)) for each in readings]


def exit_code(readings: Sequence[Reading]) -> int:
    """0, or the exit code of the first error; permanent errors come before transient ones."""
    errors = [each.error for each in readings if each.error is not None]
    return min(errors, key=lambda error: error.transient).exit_code if errors else 0


def _read(reading: Reading) -> None:
    of_checkpoint = (Reading.place, Reading.quarantine, Reading.kept, Reading.progress, Reading.committed)
    reading.ask(Reading.holder, Reading.off, *of_checkpoint)
    checkpoint.check_compatible(reading.layout, reading.resolved)
    reading.measure()


def _read_all(readings: Sequence[Reading], patience: float) -> list[Reading]:
    """The readings, read as far as they come until none has ended for so many seconds."""
    errors: dict[Reading, TidegateError] = {}
    late: dict[Reading, Reading] = {}
    newest_end = time.monotonic()

    def read(reading: Reading) -> None:
        nonlocal newest_end
        try:
            _read(reading)
        except Exception as error:
            errors[reading] = classify(error)
        newest_end = time.monotonic()

    pending = [each for each in readings if each.error is None]
    threads = [
        threading.Thread(target=read, args=(each,), name="tidegate-flow-status", daemon=True) for each in pending
    ]
    for thread in threads:
        thread.start()
    newest_end = time.monotonic()
    for reading, thread in zip(pending, threads, strict=True):
        while thread.is_alive() and (remaining := newest_end + patience - time.monotonic()) > 0:
            thread.join(remaining)
        if thread.is_alive():
            late[reading] = _late(reading, patience)
    return [late.get(each) or (each.ended(errors[each]) if each in errors else each) for each in readings]


def _late(reading: Reading, patience: float) -> Reading:
    error = SourceUnavailableError(
        f"its source did not answer within {patience:g} s", OutsideAct("try again, or with a longer --timeout")
    )
    return reading.ended(error, late=source.load(reading.resolved.flow).is_local)
