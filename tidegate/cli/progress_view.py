"""Shows the progress of a run: a line per event."""

from __future__ import annotations

import time

from tidegate.cli import console
from tidegate.formatting import count
from tidegate.reports.report import FlowReport, RunReport


class Lines:
    """Prints a line with the time for every state change of a flow and for every batch."""

    def __init__(self) -> None:
        self._started = False
        self._states: dict[str, str] = {}
        self._batches: dict[str, int] = {}

    def __call__(self, report: RunReport | None, /) -> None:
        """Print changes since the last call."""
        if not self._started:
            self._started = True
            _line("starting Spark")
        for flow in report.flows if report is not None else ():
            self._flow(flow)

    def _flow(self, flow: FlowReport) -> None:
        if flow.state == "running" and self._states.get(flow.flow) != "running":
            _line(f"{flow.flow}: running")
        for batch in flow.batches[self._batches.get(flow.flow, 0) :]:
            about = batch.balances[0]
            what = count(about.amount(batch), about.unit, about.units)
            _line(f"{flow.flow}: batch {batch.batch_id}, {what}, {batch.seconds:.1f} s")
        if flow.state not in ("waiting", "running") and self._states.get(flow.flow) != flow.state:
            _line(f"{flow.flow}: {flow.state}")
        self._states[flow.flow], self._batches[flow.flow] = flow.state, len(flow.batches)


def _line(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {console.escaped(text)}", flush=True)
