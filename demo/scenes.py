"""What the demo prints: what landed, how each flow fared, what is in quarantine and why, rows of gold."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from demo.checks import Check, query, table
from demo.flights_feed import Landed
from demo.runs import DagRun
from tidegate.layout import Layout
from tidegate.report import FlowReport, RunReport
from tidegate.spec import Pipeline
from tidegate.status.lag import Lag
from tidegate.wording import count, size

EXAMPLES_SHOWN = 14


def heading(console: Console, text: str) -> None:
    """A line across, with a title."""
    console.print()
    console.rule(f"[bold]{text}", align="left", style="blue")


def landed_files(console: Console, files: Sequence[Landed]) -> None:
    """The files of a wave; the ordinary ones as one line."""
    plain = [file for file in files if not file.what]
    odd = [file for file in files if file.what]
    total = f"{count(len(files), 'file')}, {sum(f.rows for f in files):,} records, {size(sum(f.size for f in files))}"
    console.print(f"[bold]Landed[/] in flights/: {total}")
    if plain:
        console.print(f"  {plain[0].name} … {plain[-1].name}: {count(len(plain), 'ordinary day')}", highlight=False)
    for file in odd:
        console.print(f"  {file.name}", style="yellow", end="", markup=False, highlight=False)
        console.print(f": {count(file.rows, 'record')}, {file.what}", highlight=False)


def landed_messages(console: Console, counts: Mapping[str, int]) -> None:
    """The messages of a wave, by kind."""
    kinds = ", ".join(f"{number:,} {kind}" for kind, number in sorted(counts.items(), key=lambda item: -item[1]))
    console.print(f"[bold]Sent[/] to topic clickstream: {sum(counts.values()):,} messages ({kinds})", highlight=False)


def run_told(
    console: Console, run: DagRun, report: RunReport | None, before: Sequence[Lag], after: Sequence[Lag]
) -> None:
    """How a run of a DAG went, flow by flow."""
    tasks = "  ".join(_coloured(task, state) for task, state in _in_order(run).items())
    console.print(f"\n[bold]{run.dag_id}[/]  {tasks}  [dim]{run.seconds:.1f} s[/]", highlight=False)
    if report is None:
        console.print(f"  {after[0].reason.capitalize()}: the run ended in `plan`, and no JVM was started.")
        return
    console.print(_flows(report))
    console.print(f"  behind before: {_behind(before)}; now: {_behind(after)}{_opened(report)}", highlight=False)
    seconds = ", ".join(f"{part} {report.parts[part]:.1f} s" for part in ("session", "flows") if part in report.parts)
    console.print(f"  [dim]{'; '.join([seconds, *report.notes])}[/]", highlight=False)
    for told, error in (
        ("the run", report.error),
        *((f"{flow.flow} {flow.state}", flow.error) for flow in report.flows),
    ):
        if error:
            console.print(f"  [red]{told}[/]: ", end="")
            console.print(f"{error['kind']}: {error['message']}", markup=False, highlight=False)


def quarantined(console: Console, layout: Layout, pipeline: Pipeline, report: RunReport) -> None:
    """What this run set aside, by rule, with the source of one example each. Never the record itself."""
    found: list[tuple[Any, ...]] = []
    for flow in report.flows:
        first = min((batch.batch_id for batch in flow.batches), default=None)
        rows = table(layout.quarantine(pipeline.name, flow.flow))
        if rows is None or first is None or not flow.total("quarantined") + flow.total("files_quarantined"):
            continue
        found += query(
            "SELECT rule, level, count(*), arg_min(source, _row_id) FROM"
            f" (SELECT unnest(rules) AS rule, * FROM q WHERE _batch_id >= {first}) GROUP BY ALL ORDER BY 3 DESC, 1",
            q=rows,
        )
    if not found:
        return
    console.print("  [bold]in quarantine[/], by rule")
    shown = _table("rule", "rows", "for example", right=("rows",))
    for rule, level, number, source in found[:EXAMPLES_SHOWN]:
        shown.add_row(_plain(rule), f"{number:,}" if level == "row" else count(number, "file"), _plain(_place(source)))
    console.print(shown)
    if len(found) > EXAMPLES_SHOWN:
        console.print(f"  [dim]… and {len(found) - EXAMPLES_SHOWN} more rules[/]")


def gold(console: Console, layout: Layout, name: str, sql: str, title: str) -> None:
    """Some rows of a gold table, read without a JVM.

    Args:
        console: Where to print.
        layout: The lake.
        name: The table.
        sql: A query over ``gold``.
        title: What the rows are.
    """
    import duckdb

    rows = table(layout.table(name))
    if rows is None:
        return
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.register("gold", rows)
        found = connection.execute(sql)
        names = [described[0] for described in found.description or ()]
        shown = _table(*names, right=set(names) - {"day", "carrier", "page", "hour"})
        for row in found.fetchall():
            shown.add_row(*(f"{cell:.1f}" if isinstance(cell, float) else _plain(str(cell)) for cell in row))
    console.print(f"[bold]{name}[/], {title}", highlight=False)
    console.print(shown)


def checked(console: Console, checks: Sequence[Check]) -> None:
    """What was checked in the end."""
    for check in checks:
        mark = "[green]✔[/]" if check.fine else "[bold red]✘[/]"
        console.print(f"  {mark} {check.what} [dim]({check.told})[/]", highlight=False)


def _flows(report: RunReport) -> Table:
    counts = ("batches", "read", "written", "quarantined", "set aside", "replaced", "time")
    shown = _table("flow", *counts, right=counts)
    for flow in report.flows:
        shown.add_row(
            flow.flow,
            str(len(flow.batches)),
            f"{flow.total('read'):,}",
            _written(flow),
            _quarantined(flow),
            f"{flow.total('filtered'):,}",
            f"{flow.total('deduplicated') + flow.total('superseded'):,}",
            f"{flow.seconds:.1f} s",
            style={"refused": "yellow", "failed": "red"}.get(flow.state, ""),
        )
    return shown


def _table(*names: str, right: Collection[str]) -> Table:
    """A plain table, indented by two, whose columns named in ``right`` are set to the right."""
    shown = Table(box=None, padding=(0, 0, 0, 2), header_style="dim")
    for name in names:
        shown.add_column(name, justify="right" if name in right else "left", no_wrap=name in right)
    return shown


def _written(flow: FlowReport) -> str:
    groups = flow.total("upserted") + flow.total("deleted")
    return f"{groups:,} groups" if flow.total("groups") else f"{flow.total('written'):,}"


def _quarantined(flow: FlowReport) -> str:
    files = flow.total("files_quarantined")
    rows = flow.total("quarantined")
    return " + ".join([f"{rows:,}"] * bool(rows or not files) + [count(files, "file")] * bool(files))


def _behind(lags: Sequence[Lag]) -> str:
    """How far the flows are behind, in few words."""
    words = {"files": "file", "kafka": "message", "change_feed": "commit"}
    told = []
    for lag in lags:
        if lag.behind:
            measured = f" ({size(lag.bytes)})" if lag.bytes and lag.kind == "files" else ""
            told.append(f"{lag.flow} {count(lag.behind, words[lag.kind])}{measured}")
    return ", ".join(told) or "nothing"


def _opened(report: RunReport) -> str:
    listed = sum(flow.total("files_listed") for flow in report.flows)
    return f"; opened {count(listed, 'file')} and no other" if listed else ""


def _in_order(run: DagRun) -> dict[str, str]:
    first = [task for task in ("plan", "run", "bronze", "silver", "gold") if task in run.tasks]
    return {task: run.tasks[task] for task in [*first, *sorted(set(run.tasks) - set(first))]}


def _coloured(task: str, state: str) -> str:
    colour = {"success": "green", "skipped": "dim", "failed": "red"}.get(state, "yellow")
    return f"[{colour}]{task} {state}[/]"


def _place(source: str | None) -> str:
    """The coordinates of a record, short: a file's name and line, or a partition and an offset."""
    try:
        told = json.loads(source or "{}")
    except ValueError:
        return ""
    if "offset" in told:
        return f"partition {told['partition']}, offset {told['offset']}"
    name = str(told.get("path", "")).rpartition("/")[2]
    return f"{name}, line {told['line']}" if "line" in told else name


def _plain(text: str) -> str:
    return text.replace("[", "\\[")
