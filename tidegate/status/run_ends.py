"""How the last runs of each flow ended, from their requests and reports. Starts no JVM.

A run that fails may have no batch, so the ledger does not know it. Only the newest attempts are read, whatever the number of
runs. A clock orders them, which may be set back: an attempt of the future was before all others.
"""

from __future__ import annotations

import heapq
import re
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

from tidegate.errors import LeaseHeldError, TidegateError
from tidegate.formatting import count
from tidegate.lake.place import PipelinePlace
from tidegate.reports.report import FlowReport, RunReport
from tidegate.requests.request import RunRequest
from tidegate.requests.runs import RUNS
from tidegate.status import freshness
from tidegate.status.attempts import described, may_start, report_of
from tidegate.store import Address

if TYPE_CHECKING:
    from tidegate.lake.layout import Layout
    from tidegate.spec import Pipeline

_RUNS = 50
"""How many runs are read at most: the last ones that got an attempt or a request."""
_NAME = re.compile(r"a\d{8}T\d{6}-\w+|q\d{8}T\d{6}-\w+\.request\.json")
"""The folder of an attempt, or the file of a request (`tidegate.requests.request.fresh_id`)."""
_TIME = "%Y%m%dT%H%M%S"
"""The time in such a name."""
_LISTED_AGAIN = 60.0
"""Seconds after which all runs are listed again, for an old run that was cleared."""
_listed: dict[Address, tuple[int, float, list[str]]] = {}
"""By folder of reports: its modification time, when its runs were listed, and the newest of them."""
_REQUEST = ".request.json"


@dataclass(frozen=True, kw_only=True)
class RunEnds:
    """How the last runs of a flow ended, in every mode that reads what is new, except dry runs."""

    failure: str | None = None
    """Why the last run failed, which run that was, and where its report is; None if it did not fail."""
    crashed: bool = False
    """Whether the last run failed without a final report."""
    of_increment: bool = True
    """Whether the last run was an increment, which the next run repeats if there is work."""
    failed_runs: int = 0
    """How many runs failed since the last one that did not."""
    more: bool = False
    """Whether all runs that were read failed, so that there may be more."""
    caught_up_at: datetime | None = None
    """When the last run began that read all there was; None if none is known."""

    @property
    def runs(self) -> str:
        """``1 run failed``, ``16 runs in a row failed``."""
        many = f"{'at least ' if self.more else ''}{count(self.failed_runs, 'run')}"
        return f"{many} failed" if self.failed_runs < 2 else f"{many} in a row failed"

    @property
    def sentence(self) -> str | None:
        """How many runs failed, if several did, and why the last one did; None if it did not."""
        if self.failure is None or self.failed_runs < 2:
            return self.failure
        return f"{self.runs}; {self.failure}"


def read(layout: Layout, pipeline: Pipeline, now: datetime, *, running: bool) -> dict[str, RunEnds]:
    """How the last runs of the pipeline's flows ended, by flow; a flow without a known run is missing.

    An attempt that may still run decides nothing, nor does a flow that was skipped because another one failed.

    Args:
        running: Whether a job holds a lease of the pipeline.
    """
    failures: dict[str, str | None] = {}
    crashed: set[str] = set()
    manual: set[str] = set()
    failed_runs: dict[str, set[str]] = {}
    succeeded: set[str] = set()
    caught_up: dict[str, datetime] = {}
    # Runs exclude each other, so of several without an end only the newest can be alive.
    may_run = True
    for path, request_id in _newest(PipelinePlace(layout, pipeline.name).reports, now):
        report, cause = report_of(path)
        has_end = report is not None and report.ended_at is not None
        if cause is None and not has_end:
            alive = may_run and (running or may_start(path, report, now))
            may_run = False
            if alive:
                continue
            cause = "the last run crashed: it left no final report"
            if path.name.endswith(_REQUEST):
                cause = "the last run has no attempt: Airflow did not start its job, or the job ended at once"
        request = _request(layout, pipeline, path, request_id)
        if request is not None and (request.dry_run or not RUNS[request.mode].increments):
            continue
        for flow, failure in _failures(pipeline, request, report, cause).items():
            where = path.key
            if flow not in failures:
                failures[flow] = f"{failure.rstrip('.')} ({where})" if failure is not None else None
                if failure is not None and not has_end:
                    crashed.add(flow)
                if request is not None and request.mode != "incremental":
                    manual.add(flow)
            if failure is None:
                succeeded.add(flow)
            elif flow not in succeeded:
                failed_runs.setdefault(flow, set()).add(path.parent.name)
        if report is not None and (request is None or request.mode == "incremental"):
            for each in report.flows:
                if each.state in ("done", "idle"):
                    caught_up.setdefault(each.flow, datetime.fromisoformat(report.started_at))
        if caught_up.keys() >= {flow.name for flow in pipeline.flows}:
            break
    return {
        flow: RunEnds(
            failure=failure,
            crashed=flow in crashed,
            of_increment=flow not in manual,
            failed_runs=len(failed_runs.get(flow, ())),
            more=failure is not None and flow not in succeeded and len(failed_runs[flow]) >= _RUNS,
            caught_up_at=caught_up.get(flow),
        )
        for flow, failure in failures.items()
    }


def _newest_runs(reports: Address, now: datetime) -> list[str]:
    """The names of the runs about which something was written last.

    Each of thousands of folders costs a system call, so they are listed again only after a new run, and once a minute.
    """
    changed = reports.stat().modified_ns
    known = _listed.get(reports)
    if known is None or known[0] != changed or time.monotonic() - known[1] > _LISTED_AGAIN:
        latest = int((now + freshness.SKEW).timestamp() * 1_000_000_000)
        times = ((entry.modified_ns, entry.name) for entry in reports.list() if entry.is_folder)
        newest = heapq.nlargest(_RUNS, times, key=lambda time: (time[0] <= latest, time))
        known = _listed[reports] = (changed, time.monotonic(), [name for _, name in newest])
    return known[2]


def _newest(reports: Address, now: datetime) -> list[tuple[Address, str | None]]:
    """The newest attempts, the newest first: each attempt's folder and the id of its request; a request without one is a file."""
    try:
        newest = _newest_runs(reports, now)
    except FileNotFoundError:
        return []
    attempts: list[tuple[Address, str | None]] = []
    latest = (now + freshness.SKEW).astimezone(UTC).strftime(_TIME)
    for run in newest:
        names = filter(_NAME.fullmatch, (entry.name for entry in (reports / run).list()))
        request = None
        last = ""
        for last in sorted(names, key=partial(_order, latest=latest)):
            if last.endswith(_REQUEST):
                # A run that is cleared has several.
                request = last.removesuffix(_REQUEST)
            else:
                attempts.append((reports / run / last, request))
        if last.endswith(_REQUEST):
            attempts.append((reports / run / last, request))
    return sorted(attempts, key=lambda attempt: _order(attempt[0].name, latest), reverse=True)


def _order(name: str, latest: str) -> tuple[bool, str, bool]:
    """Sorts by time; a request may be as old as its attempt, to the second.

    Args:
        latest: What is after this time came before all others.
    """
    time = name[1:16]
    return time <= latest, time, not name.endswith(_REQUEST)


def _request(layout: Layout, pipeline: Pipeline, attempt: Address, request_id: str | None) -> RunRequest | None:
    try:
        return None if request_id is None else RunRequest.read(layout, pipeline.name, attempt.parent.name, request_id)
    except TidegateError:
        return None


def _failures(
    pipeline: Pipeline, request: RunRequest | None, report: RunReport | None, cause: str | None
) -> dict[str, str | None]:
    """Why each flow of an attempt failed; None for one that did not.

    A batch, a swap or a rewrite that was refused is an alert of its own. A backfill that a gate refused, or on which the transform
    raises, leaves nothing that waits, so it counts as failed.
    """
    reports = report.flows if report is not None else []
    failures = {
        each.flow: described(each.error) if each.error and (each.state == "failed" or _backfill_refused(each)) else None
        for each in reports
        # A flow that found its lease held ends as the job that holds it does, which began earlier.
        if each.state in ("done", "idle", "refused", "failed")
        and (each.error is None or each.error.kind != LeaseHeldError.__name__)
    }
    if cause is not None:
        decided = {*failures, *(each.flow for each in reports if each.state == "skipped")}
        requested = pipeline.flows if request is None else request.selected(pipeline)
        flows = [flow for flow in requested if flow.name not in decided]
        # The alert about a flow names those downstream of it.
        failures |= {
            flow.name: cause for flow in flows if not any(above in flows for above in pipeline.upstream_of(flow))
        }
    return failures


def _backfill_refused(report: FlowReport) -> bool:
    """Whether a verdict refused a backfill."""
    refused = (verdict for verdict in report.verdicts if verdict.outcome == "refused")
    return report.state == "refused" and any(not verdict.is_batch for verdict in refused)
