"""`Run`: one attempt at a request, for one flow, with the flow's part of the run report."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tidegate.lake.place import AttemptPlace
from tidegate.reports.ledger_line import LedgerLine
from tidegate.reports.report import FlowReport
from tidegate.reports.verdict import Verdict
from tidegate.requests.request import RunRequest


@dataclass(frozen=True, kw_only=True)
class Run:
    """One attempt at a request, for one flow."""

    request: RunRequest
    place: AttemptPlace
    """The attempt in the lake."""
    report: FlowReport
    publish: Callable[[], None]
    """Writes the run report to the lake; called after each change of ``report``."""

    def record_batch(self, record: LedgerLine) -> None:
        """Add a finished batch to the report."""
        self.report.batches.append(record)
        self.publish()

    def record_verdict(self, verdict: Verdict) -> None:
        """Add a verdict to the report."""
        self.report.verdicts.append(verdict)
        self.publish()
