"""Progress bars of a run that goes on, read from the report that the job writes after every batch."""

from __future__ import annotations

import time
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn

from demo.runs import DagRun, PendingRun
from tidegate.layout import Layout
from tidegate.report import FlowReport, RunReport
from tidegate.wording import count

SECONDS_BETWEEN_LOOKS = 0.25
_ENDED = ("done", "idle", "refused", "failed", "skipped")


def reports_there(layout: Layout, dag_id: str) -> frozenset[Path]:
    """Where the reports of all attempts lie that wrote one."""
    return frozenset(layout.reports(dag_id).glob("*/*/report.json"))


def newest_report(layout: Layout, dag_id: str, known: frozenset[Path]) -> RunReport | None:
    """The report of the last attempt that is not among the known ones."""
    found = reports_there(layout, dag_id) - known
    return RunReport.read(max(found, key=lambda path: path.stat().st_mtime)) if found else None


def watch(
    console: Console, layout: Layout, run: PendingRun, expected: int, known: frozenset[Path]
) -> tuple[DagRun, RunReport | None]:
    """Show a run until it has ended.

    Args:
        console: Where to draw; without a terminal nothing is drawn.
        layout: Where the report appears.
        run: The run.
        expected: Rows that were landed for it, for the length of the bars.
        known: The reports that were there before it began.

    Returns:
        How Airflow says it ended, and the job's own report; None when no Spark was started.

    Raises:
        RunCrashedError: The run has no end.
    """
    columns = (
        SpinnerColumn(finished_text="[green]✔[/]"),
        TextColumn("{task.description:<8}"),
        BarColumn(bar_width=32),
        TextColumn("{task.fields[told]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        waiting = progress.add_task(run.dag_id, total=None, told="Airflow asks whether anything is new")
        bars: dict[str, TaskID] = {}
        while run.going_on:
            run.wait(SECONDS_BETWEEN_LOOKS)
            report = newest_report(layout, run.dag_id, known)
            if report is None:
                if time.time() - run.started > 4:
                    progress.update(waiting, told="Airflow starts Spark")
                continue
            progress.update(waiting, told=_phase(report))
            for flow in report.flows:
                if flow.flow not in bars:
                    bars[flow.flow] = progress.add_task(flow.flow, total=1, told="", start=False)
                _draw(progress, bars[flow.flow], flow, _expected(report, flow, expected))
    return run.result(), newest_report(layout, run.dag_id, known)


def _phase(report: RunReport) -> str:
    if "session" not in report.parts:
        return "the JVM starts"
    return "the application has ended" if report.ended_at else "Spark works"


def _expected(report: RunReport, flow: FlowReport, landed: int) -> int:
    """A landing flow reads what landed, the flow behind it what that one wrote; groups are not known before."""
    place = report.flows.index(flow)
    if place == 0:
        return landed
    above = report.flows[place - 1]
    return above.total("written") if place == 1 and above.state in _ENDED else 0


def _draw(progress: Progress, bar: TaskID, flow: FlowReport, expected: int) -> None:
    if flow.state in ("waiting", "skipped"):
        progress.update(bar, told=flow.state)
        return
    progress.start_task(bar)
    read = flow.total("read")
    batches = count(len(flow.batches), "batch", "batches")
    if flow.state in _ENDED:
        progress.update(bar, total=1, completed=1, told=f"{read:,} rows in {batches}, {flow.state}")
    else:
        told = f"{read:,} rows in {batches}" if flow.batches else "first batch"
        progress.update(bar, total=expected or None, completed=read, told=told)
