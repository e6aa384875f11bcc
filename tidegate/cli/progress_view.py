"""Shows the progress of a run: progress bars on a terminal, otherwise a line per event."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from tidegate.cli import console
from tidegate.formatting import count
from tidegate.reports.report import FlowReport, RunReport


class Viewer(Protocol):
    """Displays the current report."""

    def __call__(self, report: RunReport | None, /) -> None:
        """Display the report; None while the job has not written one."""


@contextmanager
def viewer() -> Iterator[Viewer]:
    """The viewer for standard output: bars on a terminal, otherwise lines."""
    if not sys.stdout.isatty():
        yield Lines()
        return
    with _progress() as progress:
        yield _Bars(progress)


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


class _Bars:
    """A bar per flow; its total is only known if the flow's lag was known at its start."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._first = progress.add_task("starting Spark", total=None, text="")
        self._tasks: dict[str, TaskID] = {}

    def __call__(self, report: RunReport | None, /) -> None:
        """Update the bars."""
        if report is None:
            return
        if any(flow.state != "waiting" for flow in report.flows):
            self._progress.update(self._first, visible=False)
        for flow in report.flows:
            self._flow(flow)

    def _flow(self, flow: FlowReport) -> None:
        if flow.flow not in self._tasks:
            self._tasks[flow.flow] = self._progress.add_task(flow.flow, total=None, text="", start=False)
        task = self._tasks[flow.flow]
        if flow.state == "waiting":
            return
        if not self._progress.tasks[self._progress.task_ids.index(task)].started:
            self._progress.start_task(task)
        groups, read = flow.total("groups"), flow.total("read")
        text = (
            f"{flow.state}, {count(len(flow.batches), 'batch', 'batches')}, {count(groups, 'group')}"
            if groups
            else f"{flow.state}, {count(read, 'row')}"
        )
        if flow.state == "running":
            expected = (flow.lag_before or {}).get("rows")
            self._progress.update(task, completed=read, total=max(expected, read) if expected else None, text=text)
        else:
            self._progress.update(task, completed=1, total=1, text=text)
            self._progress.stop_task(task)


def _progress() -> Progress:

    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=24),
        TextColumn("{task.fields[text]}", markup=False),
        TimeElapsedColumn(),
        console=console.console(),
        transient=True,
    )


def _line(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {console.escaped(text)}", flush=True)
