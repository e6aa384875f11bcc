"""The numbers of the page about whole runs: with executors, and of many arrivals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from benchmarks.scale import arithmetic

_MEGABYTE = 2**20
_MEASURED_ALONE = 2
"""Executors, from which on they share the two cores of the machine."""


def of_executors(measured: dict[str, Any]) -> dict[str, str]:
    """Those of the load with each number of executors."""
    points, rows = measured["points"], measured["rows"]
    lines = []
    for point in points:
        alone = point["executors"] <= _MEASURED_ALONE
        wall, counted = _each(point, "wall"), point["counted"]
        processor = _each(point, "executors")
        parts = [
            f"{point['executors']}",
            spread(wall, "{:.0f}") if alone else "",
            spread([rows / each for each in wall], "{:,.0f}") if alone else "",
            spread(_each(point, "driver"), "{:.0f}"),
            spread(processor, "{:.0f}"),
            spread([1e6 * each / rows for each in processor], "{:,.0f}"),
            f"{sum(counted['requests'].values()):,}",
            f"{counted['received'] / _MEGABYTE:.0f}",
            f"{counted['sent'] / _MEGABYTE:.0f}",
        ]
        lines.append(f"| {' | '.join(parts)} |")
    work = [(point["executors"], min(_each(point, "executors"))) for point in points]
    of_rows, of_each = arithmetic.slope(work)
    driver = min(seconds for point in points for seconds in _each(point, "driver"))

    def seconds_with(executors: float) -> float:
        """With a core for each process: only the work of the rows is divided, since all executors start at the same time."""
        return driver + of_each + of_rows / executors

    return {
        "executors_table": "\n".join(lines),
        "executors_rows": f"{rows:,}",
        "executors_megabytes": f"{measured['bytes'] / _MEGABYTE:.0f}",
        "executors_files": f"{measured['files']}",
        "executors_each": f"{of_each:.0f}",
        "executors_row": f"{1e6 * of_rows / rows:.0f}",
        "executors_driver": f"{driver:.0f}",
        "executors_of_rows": f"{of_rows:.0f}",
        "executors_two": f"{seconds_with(1) / seconds_with(2):.2f}",
        "executors_four": f"{seconds_with(1) / seconds_with(4):.2f}",
        "executors_limit": f"{seconds_with(1) / seconds_with(math.inf):.2f}",
    }


def _each(point: dict[str, Any], name: str) -> list[float]:
    """The value of each run: also of the one that was counted, whose requests go through a proxy."""
    return [run[name] for run in (*point["timed"], point["counted"])]


def of_arrivals(measured: dict[str, Any], arrivals: int) -> dict[str, str]:
    """Those of the memory of a driver for many arrivals."""
    points = measured["points"]
    fixed, rise = arithmetic.slope([(point["files"], point["heap"]) for point in points])
    python_fixed, python_rise = arithmetic.slope([(point["files"], point["python"]) for point in points])
    lines = "\n".join(
        f"| {point['files']:,} | {point['heap'] / _MEGABYTE:,.0f} | {point['jvm'] / _MEGABYTE:,.0f} | "
        f"{point['python'] / _MEGABYTE:,.0f} | {point['processor']:,.0f} |"
        for point in points
    )
    return {
        "arrivals_table": lines,
        "arrivals_largest": f"{points[-1]['files']:,}",
        "arrivals_batch": f"{measured['files_a_batch']:,}",
        "arrivals_heap_bytes": f"{rise:,.0f}",
        "arrivals_heap": f"{(fixed + rise * arrivals) / _MEGABYTE:,.0f}",
        "arrivals_python_bytes": f"{python_rise:,.0f}",
        "arrivals_python": f"{(python_fixed + python_rise * arrivals) / _MEGABYTE:,.0f}",
    }


def spread(values: Sequence[float], form: str) -> str:
    """The least and the greatest of some values, or the one that they are."""
    ends = dict.fromkeys(form.format(value) for value in (min(values), max(values)))
    return " to ".join(ends)
