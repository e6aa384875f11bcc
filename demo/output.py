"""Prints the output of the demo: landed files and messages, the result of each flow, quarantine, rows of gold."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from demo import clicks_feed, flights_feed
from demo.checks import Check, query, table
from demo.flights_feed import Landed
from demo.runs import DagRun
from tidegate.formatting import count, size
from tidegate.lake.layout import Layout
from tidegate.lake.place import FlowPlace
from tidegate.reports.report import FlowReport, RunReport
from tidegate.spec import Pipeline
from tidegate.status.reading import Reading

EXAMPLES_SHOWN = 14


def heading(console: Console, text: str) -> None:
    """Print a horizontal line with a title."""
    console.print()
    console.rule(f"[bold]{text}", align="left", style="blue")


def landed_files(console: Console, files: Sequence[Landed], folder: str = flights_feed.FOLDER) -> None:
    """Print the files of a wave in one landing folder; ordinary days take one line together."""
    plain = [file for file in files if not file.what]
    odd = [file for file in files if file.what]
    total = f"{count(len(files), 'file')}, {count(sum(f.rows for f in files), 'record')}, {size(sum(f.size for f in files))}"
    console.print(f"[bold]Landed[/] in {folder}/: {total}")
    if plain:
        console.print(f"  {plain[0].name} … {plain[-1].name}: {count(len(plain), 'ordinary day')}", highlight=False)
    for file in odd:
        console.print(f"  {file.name}", style="yellow", end="", markup=False, highlight=False)
        console.print(f": {count(file.rows, 'record')}, {file.what}", highlight=False)


def landed_messages(console: Console, counts: Mapping[str, int], topic: str = clicks_feed.TOPIC) -> None:
    """Print the number of messages of a wave in one topic, by kind."""
    kinds = ", ".join(f"{number:,} {kind}" for kind, number in sorted(counts.items(), key=lambda item: -item[1]))
    sent = count(sum(counts.values()), "message")
    console.print(f"[bold]Sent[/] to topic {topic}: {sent} ({kinds})", highlight=False, soft_wrap=True)


def run_result(
    console: Console, run: DagRun, report: RunReport | None, before: Sequence[Reading], after: Sequence[Reading]
) -> None:
    """Print the result of a DAG run, with a row per flow."""
    names = ("plan", "run", *(each.flow for each in after))
    tasks = "  ".join(_coloured(name, run.tasks[name]) for name in names if name in run.tasks)
    console.print(f"\n[bold]{run.dag_id}[/]  {tasks}  [dim]{run.seconds:.1f} s[/]", highlight=False, soft_wrap=True)
    if report is None:
        console.print(f"  {after[0].reason.capitalize()}: the run ended in `plan`, and no JVM was started.")
        return
    console.print(_flows(report))
    console.print(f"  lag before: {_lag(before)}; now: {_lag(after)}{_opened(report)}", highlight=False)
    seconds = ", ".join(f"{part} {report.parts[part]:.1f} s" for part in ("session", "flows") if part in report.parts)
    console.print(f"  [dim]{'; '.join([seconds, *report.notes])}[/]", highlight=False)
    for subject, error in (
        ("the run", report.error),
        *((f"{flow.flow} {flow.state}", flow.error) for flow in report.flows),
    ):
        if error:
            console.print(f"  [red]{subject}[/]: ", end="")
            console.print(f"{error.kind}: {error.message}", markup=False, highlight=False)


def quarantined(console: Console, layout: Layout, pipeline: Pipeline, report: RunReport) -> None:
    """Print the quarantine entries of this run by rule, each with the source of one example, never the record itself."""
    groups: list[tuple[Any, ...]] = []
    for flow in report.flows:
        first = min((batch.batch_id for batch in flow.batches), default=None)
        rows = table(FlowPlace(layout, pipeline.name, flow.flow).quarantine)
        if rows is None or first is None or not flow.total("quarantined") + flow.total("files_quarantined"):
            continue
        groups += query(
            "SELECT rule, level, count(*), arg_min(source, _row_id) FROM"
            f" (SELECT unnest(rules) AS rule, * FROM q WHERE _batch_id >= {first}) GROUP BY ALL ORDER BY 3 DESC, 1",
            q=rows,
        )
    if not groups:
        return
    console.print("  [bold]in quarantine[/], by rule")
    shown = _table("rule", "rows", "for example", right=("rows",))
    for rule, level, number, source in groups[:EXAMPLES_SHOWN]:
        shown.add_row(
            _plain(rule), f"{number:,}" if level == "row" else count(number, "file"), _plain(_location(source))
        )
    console.print(shown)
    if len(groups) > EXAMPLES_SHOWN:
        console.print(f"  [dim]… and {len(groups) - EXAMPLES_SHOWN} more rules[/]")


def gold(console: Console, layout: Layout, name: str, sql: str, title: str) -> None:
    """Print rows of a gold table, read without a JVM.

    Args:
        sql: A query of the view ``gold``.
        title: A description of the rows.
    """
    import duckdb

    rows = table(layout.table(name))
    if rows is None:
        return
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.register("gold", rows)
        result = connection.execute(sql)
        names = [described[0] for described in result.description or ()]
        shown = _table(*names, right=set(names) - {"day", "carrier", "airline", "page", "hour", "rule"})
        for row in result.fetchall():
            shown.add_row(*map(_cell, row))
    console.print(f"[bold]{name}[/], {title}", highlight=False)
    console.print(shown)


def checked(console: Console, checks: Sequence[Check]) -> None:
    """Print the results of the final checks."""
    for check in checks:
        mark = "[green]✔[/]" if check.passed else "[bold red]✘[/]"
        console.print(f"  {mark} {check.what} [dim]({check.details})[/]", highlight=False)


def _flows(report: RunReport) -> Table:
    late = ("late",) if any(flow.total("late") for flow in report.flows) else ()
    counts = ("batches", "read", "written", "quarantined", *late, "filtered", "replaced", "time")
    shown = _table("flow", *counts, right=counts)
    for flow in report.flows:
        shown.add_row(
            flow.flow,
            str(len(flow.batches)),
            f"{flow.total('read'):,}",
            _written(flow),
            _quarantined(flow),
            *(f"{flow.total(name):,}" for name in late),
            f"{flow.total('filtered'):,}",
            f"{flow.total('deduplicated') + flow.total('superseded'):,}",
            f"{flow.seconds:.1f} s",
            style={"refused": "yellow", "failed": "red"}.get(flow.state, ""),
        )
    return shown


def _table(*names: str, right: Collection[str]) -> Table:
    """A table without borders, indented by two, with the columns in ``right`` aligned to the right."""
    shown = Table(box=None, padding=(0, 0, 0, 2), header_style="dim")
    for name in names:
        shown.add_column(name, justify="right" if name in right else "left", no_wrap=name in right)
    return shown


def _written(flow: FlowReport) -> str:
    groups = flow.total("upserted") + flow.total("deleted")
    return count(groups, "group") if flow.total("groups") else f"{flow.total('written'):,}"


def _quarantined(flow: FlowReport) -> str:
    files = flow.total("files_quarantined")
    rows = flow.total("quarantined")
    return " + ".join([f"{rows:,}"] * bool(rows or not files) + [count(files, "file")] * bool(files))


def _lag(readings: Sequence[Reading]) -> str:
    """The lag of the flows in one phrase."""
    units = {"files": "file", "kafka": "message", "change_feed": "commit"}
    parts = []
    for each in readings:
        lag, kind = each.backlog, each.source_kind
        if lag.behind:
            measured = f" ({size(lag.size)})" if lag.size and kind == "files" else ""
            parts.append(f"{each.flow} {count(lag.behind, units[kind])}{measured}")
    return ", ".join(parts) or "none"


def _opened(report: RunReport) -> str:
    listed = sum(flow.total("files_listed") for flow in report.flows)
    return f"; opened {count(listed, 'file')} and no other" if listed else ""


def _coloured(task: str, state: str) -> str:
    colour = {"success": "green", "skipped": "dim", "failed": "red"}.get(state, "yellow")
    return f"[{colour}]{task} {state}[/]"


def _location(source: str | None) -> str:
    """The short coordinates of a record: file name and line, or partition and offset."""
    try:
        coordinates = json.loads(source or "{}")
    except ValueError:
        return ""
    if "offset" in coordinates:
        return f"partition {coordinates['partition']}, offset {coordinates['offset']}"
    name = str(coordinates.get("path", "")).rpartition("/")[2]
    return f"{name}, line {coordinates['line']}" if "line" in coordinates else name


def _cell(value: Any) -> str:
    return (
        f"{value:.1f}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else _plain(str(value))
    )


def _plain(text: str) -> str:
    return text.replace("[", "\\[")
