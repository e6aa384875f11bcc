"""The attempts of a run, and what is known about the end of each. Starts no JVM."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal

from tidegate import errors
from tidegate.checkpoints import lease
from tidegate.errors import TidegateError
from tidegate.lake.place import PipelinePlace
from tidegate.reports.report import ErrorReport, FlowReport, RunReport
from tidegate.status import freshness
from tidegate.store import Address

_QUIET = timedelta(minutes=15)
"""A run without a lease may still be waiting or starting until nothing was written about it for this time."""
_HANDOVER = timedelta(minutes=1)
"""A flow whose report says that it is running takes its lease first, and returns it last, within this time."""


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """One attempt of a run, and what is known about its end."""

    id: str
    report: RunReport | None
    """None if it wrote none, or one that cannot be read."""
    end: Literal["reported", "running", "unknown", "crashed"]

    @property
    def sentence(self) -> str:
        """What is known about its end; empty if it reported it."""
        return _ENDS[self.end]

    def state_of(self, flow: FlowReport) -> str:
        """The state of a flow in it: an attempt that crashed does not run any more, whatever its report says."""
        if self.end != "crashed":
            return flow.state
        return {"running": "crashed", "waiting": "not reached"}.get(flow.state, flow.state)


_ENDS = {
    "reported": "",
    "running": "it is running and holds a lease",
    "unknown": "it has not reported an end and holds no lease: it is starting, between two flows, or was stopped",
    "crashed": "it reported no end: it was stopped, or it crashed; see the log of the task `run`",
}


def attempts_of(place: PipelinePlace, run_key: str, now: datetime) -> list[Attempt]:
    """The attempts of one run, the newest first."""
    folder = place.reports / run_key
    reports: list[tuple[datetime | None, str, RunReport | None]] = []
    for entry in folder.list():
        if entry.is_folder:
            report, _ = report_of(folder / entry.name)
            started_at = datetime.fromisoformat(report.started_at) if report is not None else None
            reports.append((started_at, entry.name, report))
    newest_first = sorted(reports, key=lambda each: _begin(each[0], each[1], now), reverse=True)
    return [
        Attempt(id=name, report=report, end=_end(place, folder / name, report, now, newest=number == 0))
        for number, (_, name, report) in enumerate(newest_first)
    ]


def may_start(attempt: Address, report: RunReport | None, now: datetime) -> bool:
    """Whether an attempt that reported no end, and holds no lease, may still be waiting, starting, or between two flows.

    Args:
        attempt: Its folder, or the file of a request that has no attempt yet.
    """
    quiet = _HANDOVER if report is not None and any(flow.state == "running" for flow in report.flows) else _QUIET
    return abs(now - datetime.fromtimestamp(attempt.stat().modified_ns / 1e9, UTC)) < quiet


def report_of(attempt: Address) -> tuple[RunReport | None, str | None]:
    """The report of an attempt, if there is one, and what failed apart from its flows."""
    try:
        report = RunReport.read(attempt / "report.json")
    except TidegateError as error:
        return None, f"the report of the last run cannot be read: {error.message}"
    return report, described(report.error) if report is not None and report.error is not None else None


def described(error: ErrorReport) -> str:
    """An error in one line. The text of an exception that is not Tidegate's may quote data, so it is left out."""
    is_own = hasattr(errors, error.kind)
    text = " ".join(error.message.split()) if is_own else f"{error.kind}; its text is in the report"
    return f"the last run failed: {text}"


def _begin(started_at: datetime | None, name: str, now: datetime) -> tuple[bool, bool, datetime, str]:
    """Sorts attempts by their begin. One without a report is about to begin; one of the future came before the clock was set back."""
    return started_at is None, started_at is None or started_at <= now + freshness.SKEW, started_at or now, name


def _end(
    place: PipelinePlace, path: Address, report: RunReport | None, now: datetime, *, newest: bool
) -> Literal["reported", "running", "unknown", "crashed"]:
    if report is not None and report.ended_at is not None:
        return "reported"
    flows = report.flows if report is not None else ()
    holders = [lease.holder(place.layout, lease.checkpoint_resource(place.pipeline, flow.flow)) or "" for flow in flows]
    if any(f"{path.name} of {place.pipeline} " in holder for holder in holders):
        return "running"
    return "unknown" if newest and may_start(path, report, now) else "crashed"
