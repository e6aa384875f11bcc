"""Makes ``docs/scale.md`` and its picture of the results and of the template beside this file, so that no number is written by hand."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from benchmarks.scale import arithmetic, run_numbers
from benchmarks.scale.run_numbers import spread

HERE = Path(__file__).parent
RESULTS, TEMPLATE = HERE / "results", HERE / "page.template"
DOCS = HERE.parents[1] / "docs"
PAGE, PICTURE = DOCS / "scale.md", DOCS / "pictures" / "scale.svg"
OBJECTS = 10_000_000
ARRIVALS = 1_000_000
FLOWS = 3
"""Flows of a pipeline in the examples: bronze, silver, gold."""
_REPARSED_SECONDS = 30
"""Airflow's ``dag_processor.min_file_process_interval``."""
_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 720, 320, 70, 660, 46, 270


def results() -> dict[str, Any]:
    """What was measured last, by name."""
    return {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(RESULTS.glob("*.json"))}


def write_page() -> None:
    """Write the page and its picture."""
    measured = results()
    PAGE.write_text(page(measured), encoding="utf-8")
    PICTURE.write_text(picture(measured), encoding="utf-8")


def page(measured: dict[str, Any]) -> str:
    """The text of the page."""
    return TEMPLATE.read_text(encoding="utf-8").format_map(numbers(measured))


def numbers(measured: dict[str, Any]) -> dict[str, str]:
    """Each number of the page by its name in the template."""
    return {
        **_of_files(measured["files"]),
        **_of_history(measured["history"]),
        **_of_pipelines(measured["pipelines"]),
        **run_numbers.of_arrivals(measured["arrivals"], ARRIVALS),
        **run_numbers.of_executors(measured["executors"]),
    }


def _of_files(measured: dict[str, Any]) -> dict[str, str]:
    points = measured["points"]
    sizes = [point["files"] for point in points]
    fixed, each = arithmetic.slope([(point["files"], point["idle_processor"]) for point in points])
    memory = [point["idle_memory"] / point["files"] for point in points]
    power = arithmetic.exponent(*((point["files"], point["idle_processor"]) for point in (points[0], points[-1])))
    entry = points[-1]["log_bytes"] / sizes[-1]
    others = {sum(point["idle_requests"].values()) - point["landing_lists"] for point in points}
    year = arithmetic.rewritten_entries(arithmetic.MINUTES_A_YEAR, 1)
    rows = "\n".join(
        f"| {point['files']:,} | {point['landing_lists']:,} | {sum(point['idle_requests'].values()):,} | "
        f"{sum(point['increment_requests'].values()):,} | {point['idle_processor']:.1f} | "
        f"{point['idle_memory'] / 2**20:,.0f} |"
        for point in points
    )
    return {
        "files_table": rows,
        "files_largest": f"{sizes[-1]:,}",
        "files_power": f"{power:.2f}",
        "files_microseconds": f"{each * 1e6:.0f}",
        "files_memory": spread(memory, "{:,.0f}"),
        "files_increment": f"{measured['increment']:,}",
        "files_others": " to ".join(f"{number:,}" for number in sorted({min(others), max(others)})),
        "objects": f"{OBJECTS:,}",
        "objects_lists": f"{arithmetic.pages(OBJECTS):,}",
        "objects_seconds": f"{(fixed + each * OBJECTS):,.0f}",
        "objects_memory": f"{OBJECTS * memory[-1] / 2**30:.1f}",
        "objects_log": f"{OBJECTS * entry / 2**20:,.0f}",
        "objects_lists_a_year": f"{arithmetic.pages(OBJECTS) * arithmetic.MINUTES_A_YEAR / 1e9:.1f}",
        "arrivals": f"{ARRIVALS:,}",
        "arrivals_seconds": f"{(fixed + each * ARRIVALS):,.0f}",
        "arrivals_memory": f"{ARRIVALS * memory[-1] / 2**20:,.0f}",
        "arrivals_batches": f"{ARRIVALS // 1000:,}",
        "arrivals_rewritten": f"{arithmetic.rewritten_entries(ARRIVALS // 1000, 1000):,}",
        "arrivals_ratio": f"{arithmetic.rewritten_entries(ARRIVALS // 1000, 1000) / ARRIVALS:,.0f}",
        "arrivals_gigabytes": f"{arithmetic.rewritten_entries(ARRIVALS // 1000, 1000) * entry / 2**30:.1f}",
        "entry_bytes": f"{entry:.0f}",
        "year_rewritten": f"{year / 1e9:.1f}",
        "year_terabytes": f"{year * entry / 2**40:.2f}",
        "year_ratio": f"{year / arithmetic.MINUTES_A_YEAR:,.0f}",
        "year_ten": f"{year / arithmetic.rewritten_entries(arithmetic.MINUTES_A_YEAR // 10, 10):.0f}",
        "year_last_megabytes": f"{arithmetic.MINUTES_A_YEAR * entry / 2**20:.0f}",
    }


def _of_history(measured: dict[str, Any]) -> dict[str, str]:
    logs, ledger = measured["logs"], measured["ledger"]
    processor = [(log["commits"], min(log["processor"])) for log in logs]
    rows = "\n".join(
        f"| {log['commits']:,} | {_lists(log):,} | {sum(log['requests'].values()) - log['requests']['LIST']:,} | "
        f"{1000 * min(log['processor']):,.0f} to {1000 * max(log['processor']):,.0f} |"
        for log in logs
    )
    kept = FLOWS * arithmetic.MINUTES_OF_LOG
    appends = FLOWS * arithmetic.MINUTES_A_YEAR
    limit = 16 * 2**20
    return {
        "history_table": rows,
        "history_microseconds": f"{arithmetic.slope(processor)[1] * 1e6:.0f}",
        "history_milliseconds": f"{1000 * processor[-1][1]:,.0f}",
        "year_commits": f"{arithmetic.MINUTES_A_YEAR:,}",
        "kept_commits": f"{arithmetic.MINUTES_OF_LOG:,}",
        "kept_lists": f"{arithmetic.pages(arithmetic.MINUTES_OF_LOG):,}",
        "flows": str(FLOWS),
        "ledger_kept": f"{kept:,}",
        "ledger_lists": f"{arithmetic.pages(kept):,}",
        "ledger_rows": f"{appends:,}",
        "ledger_row_bytes": f"{ledger['row_bytes']:.0f}",
        "ledger_megabytes": f"{appends * ledger['row_bytes'] / 2**20:,.0f}",
        "ledger_appends": f"{ledger['appends']:,}",
        "ledger_first": f"{1000 * ledger['first_processor']:.0f}",
        "ledger_last": f"{1000 * ledger['last_processor']:.0f}",
        "ledger_ratio": f"{ledger['last_processor'] / ledger['first_processor']:.2f}",
        "ledger_entries": f"{ledger['log_entries']:,}",
        "ledger_compaction": f"{1000 * ledger['compaction_processor']:,.0f}",
        "ledger_compactions": f"{arithmetic.compactions(appends, 100):,}",
        "bucket_compactions": f"{arithmetic.compactions(appends, 20):,}",
        "ledger_compacted_gigabytes": f"{arithmetic.compacted_bytes(appends, 100, round(ledger['row_bytes']), limit) / 2**30:,.0f}",
        "bucket_compacted_gigabytes": f"{arithmetic.compacted_bytes(appends, 20, round(ledger['row_bytes']), limit) / 2**30:,.0f}",
    }


def _lists(log: dict[str, Any]) -> int:
    """LIST requests of a server for the listings that were counted: those of the long log take several."""
    return int(log["requests"]["LIST"] + log["log_listings"] * (arithmetic.pages(log["commits"]) - 1))


def _of_pipelines(measured: dict[str, Any]) -> dict[str, str]:
    points = measured["points"]
    last = points[-1]
    rows = "\n".join(
        f"| {point['pipelines']:,} | {point['every']['all']:.1f} | {1000 * point['every']['all'] / point['pipelines']:.1f} | "
        f"{point['task']['made']:.2f} | {point['task']['process']:.1f} | {point['plan_processor']:.1f} |"
        for point in points
    )
    sizes = [point["pipelines"] for point in points]
    made = [(point["pipelines"], point["task"]["made"]) for point in points]
    a_task = last["task"]["process"]
    return {
        "pipelines_table": rows,
        "pipelines_largest": f"{sizes[-1]:,}",
        "made_first_power": f"{arithmetic.exponent(*made[:2]):.1f}",
        "made_power": f"{arithmetic.exponent(*made[-2:]):.1f}",
        "pipelines_made": f"{last['every']['made']:.0f}",
        "pipelines_seconds": f"{last['every']['all']:.1f}",
        "pipelines_share": f"{100 * last['every']['all'] / _REPARSED_SECONDS:.0f}",
        "pipelines_interval": str(_REPARSED_SECONDS),
        "task_made": f"{last['task']['made']:.2f}",
        "task_process": f"{a_task:.1f}",
        "task_per_minute": f"{60 / a_task:.0f}",
        "task_cores": f"{last['pipelines'] * a_task / 60:.0f}",
        "task_middle": f"{points[-2]['task']['process']:.1f}",
        "task_first": f"{points[0]['task']['process']:.1f}",
    }


_STYLE = """
    :root { color-scheme: light dark; }
    text { font: 12px system-ui, -apple-system, "Segoe UI", sans-serif; fill: #52606d; }
    .head { font-size: 14px; font-weight: 600; fill: #1f2933; }
    .grid { stroke: #cbd2d9; stroke-width: 1; }
    .line { fill: none; stroke: #2f6fad; stroke-width: 2; }
    .bent { fill: none; stroke: #b42318; stroke-width: 2; }
    .in-line { fill: #2f6fad; }
    .in-bent { fill: #b42318; }
    @media (prefers-color-scheme: dark) {
      text { fill: #b0bac5; }
      .head { fill: #e4e7eb; }
      .grid { stroke: #3e4c59; }
      .line { stroke: #6ba6dd; }
      .bent { stroke: #f97066; }
      .in-line { fill: #6ba6dd; }
      .in-bent { fill: #f97066; }
    }
"""


def picture(measured: dict[str, Any]) -> str:
    """Entries of Spark's log of files that a plan reads, and that Spark has rewritten, by the batches of one file each."""
    del measured
    batches = [10**power for power in range(1, 6)] + [arithmetic.MINUTES_A_YEAR]
    read = [(number, float(number)) for number in batches]
    written = [(number, float(arithmetic.rewritten_entries(number, 1))) for number in batches]
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" height="{_HEIGHT}" role="img">',
        "  <title>Entries of Spark's log of files, by batches of one file each</title>",
        f"  <style>{_STYLE}  </style>",
        f'  <text class="head" x="{_LEFT}" y="22">Entries of the log of files, by batches of one file each</text>',
    ]
    for power in range(1, 12, 2):
        y = _y(10.0**power)
        lines += [
            f'  <line class="grid" x1="{_LEFT}" x2="{_RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>',
            f'  <text x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{_label(power)}</text>',
        ]
    for power in range(1, 6):
        lines.append(f'  <text x="{_x(10**power):.1f}" y="{_BOTTOM + 20}" text-anchor="middle">{_label(power)}</text>')
    lines.append(f'  <text x="{_RIGHT}" y="{_BOTTOM + 38}" text-anchor="end">a year of one batch a minute</text>')
    for style, points in (("line", read), ("bent", written)):
        path = " ".join(f"{_x(number):.1f},{_y(entries):.1f}" for number, entries in points)
        lines.append(f'  <polyline class="{style}" points="{path}"/>')
    lines += [
        f'  <text class="in-bent" x="{_x(20_000):.1f}" y="{_y(3e9):.1f}" text-anchor="end">rewritten since the first batch</text>',
        f'  <text class="in-line" x="{_x(100_000):.1f}" y="{_y(2e3):.1f}" text-anchor="middle">read by each plan</text>',
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _label(power: int) -> str:
    return f"{10**power:,}" if power < 5 else f"10{''.join('⁰¹²³⁴⁵⁶⁷⁸⁹'[int(digit)] for digit in str(power))}"


def _x(number: float) -> float:
    return _LEFT + (math.log10(number) - 1) / (math.log10(arithmetic.MINUTES_A_YEAR) - 1) * (_RIGHT - _LEFT)


def _y(entries: float) -> float:
    return _BOTTOM - (math.log10(entries) - 1) / 10 * (_BOTTOM - _TOP)
