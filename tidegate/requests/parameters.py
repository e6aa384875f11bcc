"""The parameters of a run, as a form or the command line gives them: each is validated before it is in a request."""

from __future__ import annotations

import re
from typing import Any

from tidegate.advice import Edit
from tidegate.errors import RequestError
from tidegate.reports.impact import accepting_flow
from tidegate.requests.runs import RUNS, modes
from tidegate.spec import Pipeline
from tidegate.times.window import Window

KEYS = ("mode", "flows", "from_date", "to_date", "gaps", "undo_run", "dry_run", "accept")
"""The parameters with which a run can be triggered."""
RUN_ID = r"[^\x00-\x20\x7f'\x22`\\]{1,250}"
"""A run id of Airflow or of the command line, or a run's key; Airflow's ids have at most 250 characters."""


def mode_and_dry_run(params: dict[str, Any]) -> tuple[str, bool]:
    """The kind of run, and whether it is only to judge; raises for a key that is no parameter."""
    unknown = sorted(set(params) - set(KEYS))
    if unknown:
        raise RequestError(
            f"unknown key {', '.join(map(repr, unknown))}", Edit(f"allowed: {', '.join(KEYS)}", "request")
        )
    mode = params.get("mode", "incremental")
    if mode not in tuple(modes()):
        raise RequestError(f"mode={mode!r} is not allowed", Edit(f"allowed: {', '.join(modes())}", "request"))
    return mode, _flag("dry_run", params.get("dry_run"))


def _flag(name: str, value: object) -> bool:
    if not isinstance(value, bool | None):
        raise RequestError(f"{name}={value!r} is not allowed", Edit("allowed: true, false", "request"))
    return bool(value)


def gaps_only(mode: str, value: object) -> bool:
    """Whether only the gaps of intervals are read."""
    gaps = _flag("gaps", value)
    if gaps and not RUNS[mode].gaps:
        allowed = ", ".join(name for name, kind in RUNS.items() if kind.gaps)
        raise RequestError(
            f"gaps cannot be used with mode={mode!r}",
            Edit(
                f"allowed with: {allowed}, which reads the files of days or hours that are not complete; the "
                "flows below read what it adds",
                "request",
            ),
        )
    return gaps


def flow_names(pipeline: Pipeline, requested: object) -> tuple[str, ...]:
    """The selected flows in graph order; none for all."""
    flows = requested or ()
    names = [flow.name for flow in pipeline.flows]
    if not isinstance(flows, list | tuple):
        raise RequestError(
            f"flows={flows!r} is not a list", Edit(f"pipeline {pipeline.name!r} has: {', '.join(names)}", "request")
        )
    if unknown := [name for name in flows if name not in names]:
        quoted = ", ".join(map(repr, unknown))
        raise RequestError(
            f"pipeline {pipeline.name!r} has no flow {quoted}", Edit(f"it has: {', '.join(names)}", "request")
        )
    return tuple(name for name in names if name in flows)


def accepted(pipeline: Pipeline, requested: object) -> tuple[str, ...]:
    """The accepted numbers, as ``silver:deleted=355``."""
    named = requested or ()
    if not isinstance(named, list | tuple):
        raise RequestError(f"accept={named!r} is not a list", Edit("write it as in ['silver:deleted=355']", "request"))
    keyed = [flow.name for flow in pipeline.flows if flow.is_staged]
    names = [flow.name for flow in pipeline.flows]
    for each in named:
        if accepting_flow(each) not in (names if ":lost=" in str(each) else keyed):
            raise RequestError(
                f"accept={each!r} is not allowed",
                Edit(
                    "allowed: <flow>:deleted=<number> and <flow>:quarantined=<number>, with a flow of "
                    f"{', '.join(keyed) or 'a derived table, of which this pipeline has none'}; of a recovery <flow>:lost=<number>",
                    "request",
                ),
            )
    return tuple(named)


def window_of(pipeline: Pipeline, mode: str, first: object, last: object) -> Window | None:
    """The window between two dates, in the time zone of the pipeline."""
    if first is None and last is None:
        if RUNS[mode].window == "required":
            raise RequestError(
                f"mode={mode!r} needs from_date and to_date",
                Edit("add them, for example 2026-03-01 and 2026-03-07", "request"),
            )
        return None
    if RUNS[mode].window == "none":
        allowed = ", ".join(name for name, kind in RUNS.items() if kind.window != "none")
        raise RequestError(
            f"from_date and to_date cannot be used with mode={mode!r}", Edit(f"allowed with: {allowed}", "request")
        )
    if first is None or last is None:
        raise RequestError(
            "from_date and to_date are only allowed together", Edit("add the one that is missing", "request")
        )
    return Window.of_dates(first, last, pipeline.timezone)


def undone_run(mode: str, run: object) -> str | None:
    """The run that an undo is about."""
    if run is None:
        if RUNS[mode].of_run:
            raise RequestError(
                f"mode={mode!r} needs undo_run, the id of the run",
                Edit(
                    "it is the run_key of the run's lines in the ledger; on the command line use the command undo",
                    "request",
                ),
            )
        return None
    if not RUNS[mode].of_run:
        raise RequestError(f"undo_run cannot be used with mode={mode!r}", Edit("allowed with: undo", "request"))
    if not isinstance(run, str) or not re.fullmatch(RUN_ID, run):
        raise RequestError(
            f"undo_run={run!r} is not the id of a run",
            Edit("it is the run_key of the run's lines in the ledger", "request"),
        )
    return run
