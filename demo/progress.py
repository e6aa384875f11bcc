"""Progress bars of running DAGs, from the reports that the jobs write after every batch."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn

from demo.runs import PendingRun
from tidegate.formatting import count
from tidegate.lake.layout import Layout
from tidegate.lake.place import PipelinePlace
from tidegate.reports.report import FlowReport, RunReport
from tidegate.store.store import Entry

POLL_SECONDS = 0.25
_ENDED = ("done", "idle", "refused", "failed", "skipped")


def existing_reports(layout: Layout, dag_id: str) -> dict[str, Entry]:
    """The report files of all attempts of a DAG, by their keys."""
    entries = PipelinePlace(layout, dag_id).reports.walk()
    return {entry.key: entry for entry in entries if entry.name == "report.json"}


def newest_report(layout: Layout, dag_id: str, earlier: Collection[str]) -> RunReport | None:
    """The newest report that is not among the earlier ones."""
    new = [entry for key, entry in existing_reports(layout, dag_id).items() if key not in earlier]
    newest = max(new, key=lambda entry: entry.modified_ns, default=None)
    return None if newest is None else RunReport.read(layout.root.at(newest))


@dataclass
class WatchedRun:
    """A run whose progress is shown."""

    run: PendingRun
    layout: Layout
    expected: int
    """Number of rows that landed for it, for the length of the bars."""
    earlier: Collection[str]
    """The keys of the reports that existed before it began."""

    @property
    def report(self) -> RunReport | None:
        """The job's own report; None while no Spark was started."""
        return newest_report(self.layout, self.run.dag_id, self.earlier)


def show_progress(console: Console, watched: Sequence[WatchedRun]) -> None:
    """Show the progress of runs until all have ended; the bars are shown in a terminal only."""
    columns = (
        SpinnerColumn(finished_text="[green]✔[/]"),
        TextColumn("{task.description:<18}"),
        BarColumn(bar_width=32),
        TextColumn("{task.fields[details]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        bars: dict[tuple[str, str], TaskID] = {}
        for each in watched:
            bars[each.run.dag_id, ""] = progress.add_task(
                each.run.dag_id, total=None, details="Airflow checks for new data"
            )
        while any(each.run.running for each in watched):
            next(each.run for each in watched if each.run.running).wait(POLL_SECONDS)
            for each in watched if console.is_terminal else ():
                _update(progress, bars, each)


def _update(progress: Progress, bars: dict[tuple[str, str], TaskID], watched: WatchedRun) -> None:
    """Draw the state of one run, and of its flows once it has a report."""
    name, report = watched.run.dag_id, watched.report
    if report is None:
        if time.time() - watched.run.started > 4:
            progress.update(bars[name, ""], details="Airflow starts Spark")
        return
    progress.update(bars[name, ""], details=_phase(report))
    for flow in report.flows:
        if (name, flow.flow) not in bars:
            bars[name, flow.flow] = progress.add_task(f"{name} {flow.flow}", total=1, details="", start=False)
        _draw(progress, bars[name, flow.flow], flow, _expected(report, flow, watched.expected))


def _phase(report: RunReport) -> str:
    if "session" not in report.parts:
        return "the JVM starts"
    return "the application has ended" if report.ended_at else "Spark processes the batches"


def _expected(report: RunReport, flow: FlowReport, landed: int) -> int:
    """Rows that a flow will read: for the first the landed rows, for the second those that the first wrote; else unknown."""
    index = report.flows.index(flow)
    if index == 0:
        return landed
    upstream = report.flows[index - 1]
    return upstream.total("written") if index == 1 and upstream.state in _ENDED else 0


def _draw(progress: Progress, bar: TaskID, flow: FlowReport, expected: int) -> None:
    if flow.state in ("waiting", "skipped"):
        progress.update(bar, details=flow.state)
        return
    progress.start_task(bar)
    read = flow.total("read")
    batches = count(len(flow.batches), "batch", "batches")
    if flow.state in _ENDED:
        progress.update(bar, total=1, completed=1, details=f"{count(read, 'row')} in {batches}, {flow.state}")
    else:
        details = f"{count(read, 'row')} in {batches}" if flow.batches else "first batch"
        progress.update(bar, total=expected or None, completed=read, details=details)
