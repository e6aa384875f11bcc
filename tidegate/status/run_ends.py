"""How the last runs of each flow ended, from requests, run reports and leases. Starts no JVM.

A run that fails may have no batch, so the ledger does not know it. Only the newest attempts are read, whatever the number of
runs.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pendulum

from tidegate import errors
from tidegate.alerting.facts import RunEnds
from tidegate.checkpoints import lease
from tidegate.errors import TidegateError
from tidegate.report import RunReport
from tidegate.request import RunRequest

if TYPE_CHECKING:
    from pathlib import Path

    from tidegate.layout import Layout
    from tidegate.report import FlowReport
    from tidegate.spec import Flow, Pipeline

_RUNS = 50
"""How many runs are read at most: the last ones that got an attempt or a request."""
_TIME = slice(1, 16)
"""The time in the id of an attempt or a request (`tidegate.request.fresh_id`)."""
_STARTING = timedelta(minutes=3)
"""A job without a lease, whose report is no older, may still be starting."""
_BEGINNING = timedelta(seconds=30)
"""The same for a job that has begun with a flow: it takes the lease at once."""
_WAITING = timedelta(minutes=15)
"""After this time a request without an attempt counts as failed, if no other attempt of the pipeline runs."""
_REQUEST = ".request.json"
_LENGTH = 300
"""Characters of an error that a cause quotes."""


@dataclass(frozen=True, kw_only=True)
class _Attempt:
    """One attempt at a run, or a request without one."""

    key: str
    """The run's folder."""
    name: str | None
    """None if there is only a request."""
    request: str | None

    @property
    def time(self) -> str:
        """Sorts by time, to the second."""
        return (self.name or self.request or "")[_TIME]

    @property
    def at(self) -> datetime | None:
        """When it began; None for an id of another form."""
        return _instant(self.time)


@dataclass(frozen=True, kw_only=True)
class _End:
    """How one attempt ended for one flow."""

    failure: str | None = None
    read_all_at: datetime | None = None
    """When an increment began that read all there was."""


def read(layout: Layout, pipeline: Pipeline, now: datetime) -> dict[str, RunEnds]:
    """How the last runs of the pipeline's flows ended, by flow; a flow without a known run is missing.

    An attempt that still runs decides nothing, nor does a flow that was skipped because another one failed.
    """
    last: dict[str, _End] = {}
    caught_up: dict[str, datetime] = {}
    for attempt in _newest(layout, pipeline, now):
        for flow, end in _ends_of(layout, pipeline, attempt, now).items():
            last.setdefault(flow, end)
            if end.read_all_at is not None:
                caught_up.setdefault(flow, end.read_all_at)
        if len(caught_up) == len(pipeline.flows):
            break
    return {flow: RunEnds(failure=end.failure, caught_up_at=caught_up.get(flow)) for flow, end in last.items()}


def _newest(layout: Layout, pipeline: Pipeline, now: datetime) -> list[_Attempt]:
    """The newest attempts, the newest first."""
    try:
        with os.scandir(layout.reports(pipeline.name)) as folders:
            changed = [(folder.stat().st_mtime_ns, folder.name) for folder in folders if folder.is_dir()]
    except FileNotFoundError:
        return []
    attempts: list[_Attempt] = []
    requests: list[_Attempt] = []
    for _, key in sorted(changed, reverse=True)[:_RUNS]:
        names = sorted(entry.name for entry in (layout.reports(pipeline.name) / key).iterdir())
        requested = [name.removesuffix(_REQUEST) for name in names if name.endswith(_REQUEST)]
        attempts += [
            _Attempt(key=key, name=name, request=_before(name, requested)) for name in names if "." not in name
        ]
        requests += [_Attempt(key=key, name=None, request=request) for request in requested]
    attempts.sort(key=lambda attempt: attempt.time, reverse=True)
    newest = max(requests, key=lambda request: request.time, default=None)
    if (
        newest is not None
        and (not attempts or newest.time > attempts[0].time)
        and _is_lost(layout, pipeline, newest, now)
    ):
        return [newest, *attempts]
    return attempts


def _before(attempt: str, requests: list[str]) -> str | None:
    """The last request before an attempt; a run that is cleared has several."""
    return next((each for each in reversed(requests) if each[_TIME] <= attempt[_TIME]), None)


def _is_lost(layout: Layout, pipeline: Pipeline, request: _Attempt, now: datetime) -> bool:
    """Whether a request has waited too long for an attempt. While another run works, it waits for its turn."""
    since = request.at
    return since is not None and now - since >= _WAITING and not _holders(layout, pipeline)


def _ends_of(layout: Layout, pipeline: Pipeline, attempt: _Attempt, now: datetime) -> dict[str, _End]:
    request = _request_of(layout, pipeline, attempt)
    if request is not None and (request.mode == "replay" or request.dry_run):
        return {}
    flows = pipeline.flows if request is None else request.selected(pipeline)
    where = f"reports/{pipeline.name}/{attempt.key}"
    if attempt.name is None:
        return _first(
            pipeline,
            flows,
            f"the last run has no attempt: its job ended at once, or Airflow did not start it ({where})",
        )
    where = f"{where}/{attempt.name}"
    path = layout.report(pipeline.name, attempt.key, attempt.name)
    try:
        report = RunReport.read(path)
    except TidegateError as error:
        return _first(pipeline, flows, f"the report of the last run cannot be read: {error.message}")
    if report is not None and report.ended_at is not None:
        cause: str | None = (
            None if report.error is None else f"the last run failed: {_described(report.error)} ({where})"
        )
    elif _is_alive(layout, pipeline, report, path, now):
        return {}
    else:
        cause = f"the last run crashed: it ended without a final report ({where})"
    reports = report.flows if report is not None else []
    increment = request is None or request.mode == "incremental"
    ends = {each.flow: end for each in reports if (end := _end(each, report, where, increment=increment)) is not None}
    if cause is None:
        return ends
    decided = {*ends, *(each.flow for each in reports if each.state == "skipped")}
    return ends | _first(pipeline, tuple(flow for flow in flows if flow.name not in decided), cause)


def _request_of(layout: Layout, pipeline: Pipeline, attempt: _Attempt) -> RunRequest | None:
    """The request of an attempt; None if it is not known."""
    try:
        return None if attempt.request is None else RunRequest.read(layout, pipeline.name, attempt.key, attempt.request)
    except TidegateError:
        return None


def _end(flow: FlowReport, report: RunReport | None, where: str, *, increment: bool) -> _End | None:
    match flow.state:
        case "done" | "idle":
            return _End(read_all_at=_instant(report.started_at) if increment and report is not None else None)
        case "refused":
            # The batch that waits is an alert of its own.
            return _End()
        case "failed":
            return _End(failure=f"the last run failed: {_described(flow.error or {})} ({where})")
        case _:
            return None


def _first(pipeline: Pipeline, flows: tuple[Flow, ...], cause: str) -> dict[str, _End]:
    """The failure of those flows that are downstream of none of the others."""
    upstreams = {flow.name: pipeline.upstream_of(flow) for flow in flows}
    return {name: _End(failure=cause) for name, upstream in upstreams.items() if upstream not in flows}


def _is_alive(layout: Layout, pipeline: Pipeline, report: RunReport | None, path: Path, now: datetime) -> bool:
    """Whether the job of a report that is not final may still run."""
    if _holders(layout, pipeline):
        return True
    begun = report is not None and any(flow.state == "running" for flow in report.flows)
    file = path if report is not None else path.parent
    changed = datetime.fromtimestamp(file.stat().st_mtime, UTC)
    return now - changed < (_BEGINNING if begun else _STARTING)


def _holders(layout: Layout, pipeline: Pipeline) -> list[str]:
    names = [lease.checkpoint_resource(pipeline.name, flow.name) for flow in pipeline.flows]
    return [holder for name in names if (holder := lease.holder(layout, name)) is not None]


def _described(error: Mapping[str, Any]) -> str:
    """An error in one line. The text of an exception that is not Tidegate's may quote data, so it is left out."""
    kind = str(error.get("kind", "unknown error"))
    if not hasattr(errors, kind):
        return f"{kind}; its traceback is beside the report"
    return _shortened(" ".join(str(error.get("message", "")).split())) or kind


def _shortened(text: str) -> str:
    return text if len(text) <= _LENGTH else f"{text[:_LENGTH]} …"


def _instant(text: str) -> datetime | None:
    try:
        instant = pendulum.parse(text)
    except ValueError:
        return None
    return instant if isinstance(instant, datetime) else None
