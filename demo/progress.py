"""Progress bars of a running DAG, from the report that the job writes after every batch."""

from __future__ import annotations

import time
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn

from demo.runs import DagRun, PendingRun
from tidegate.formatting import count
from tidegate.layout import Layout
from tidegate.report import FlowReport, RunReport

POLL_SECONDS = 0.25
_ENDED = ("done", "idle", "refused", "failed", "skipped")


def existing_reports(layout: Layout, dag_id: str) -> frozenset[Path]:
    """The report files of all attempts of a DAG."""
    return frozenset(layout.reports(dag_id).glob("*/*/report.json"))


def newest_report(layout: Layout, dag_id: str, earlier: frozenset[Path]) -> RunReport | None:
    """The newest report that is not among the earlier ones."""
    new = existing_reports(layout, dag_id) - earlier
    return RunReport.read(max(new, key=lambda path: path.stat().st_mtime)) if new else None


def show_progress(
    console: Console, layout: Layout, run: PendingRun, expected: int, earlier: frozenset[Path]
) -> tuple[DagRun, RunReport | None]:
    """Show the progress of a run until it has ended.

    Args:
        console: For the progress bars; they are shown in a terminal only.
        layout: The lake.
        run: The run.
        expected: Number of rows that landed for it, for the length of the bars.
        earlier: The reports that existed before it began.

    Returns:
        The run's result in Airflow, and the job's own report; None when no Spark was started.

    Raises:
        RunCrashedError: The run did not complete.
    """
    columns = (
        SpinnerColumn(finished_text="[green]✔[/]"),
        TextColumn("{task.description:<8}"),
        BarColumn(bar_width=32),
        TextColumn("{task.fields[details]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        waiting = progress.add_task(run.dag_id, total=None, details="Airflow checks for new data")
        bars: dict[str, TaskID] = {}
        while run.running:
            run.wait(POLL_SECONDS)
            report = newest_report(layout, run.dag_id, earlier)
            if report is None:
                if time.time() - run.started > 4:
                    progress.update(waiting, details="Airflow starts Spark")
                continue
            progress.update(waiting, details=_phase(report))
            for flow in report.flows:
                if flow.flow not in bars:
                    bars[flow.flow] = progress.add_task(flow.flow, total=1, details="", start=False)
                _draw(progress, bars[flow.flow], flow, _expected(report, flow, expected))
    return run.result(), newest_report(layout, run.dag_id, earlier)


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
