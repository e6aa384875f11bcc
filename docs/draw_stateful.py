"""Draws the pictures of docs/guides/stateful.md from a real run: the commands of the guide, and the tables that they made.

python -m docs.draw_stateful
"""

from __future__ import annotations

import csv
import io
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

from tests.docs.guides import GUIDES, GuideRunner
from tidegate.environment import Environment
from tidegate.lake.layout import Layout
from tidegate.lake.place import FlowPlace, PipelinePlace
from tidegate.ops import query
from tidegate.probes import delta_table
from tidegate.store import Address

PICTURES = Path(__file__).parent / "pictures"
PIPELINE, FLOW = "taps", "silver"
DELAY, LENGTH = timedelta(minutes=10), timedelta(minutes=10)
"""As the guide declares them."""
_WIDTH, _LEFT, _TOP, _BOTTOM = 960, 64, 40, 46

_STYLE = """
    :root { color-scheme: light dark; }
    text { font: 12px system-ui, -apple-system, "Segoe UI", sans-serif; fill: #52606d; }
    .head { font-size: 14px; font-weight: 600; fill: #1f2933; }
    .grid { stroke: #cbd2d9; stroke-width: 1; }
    .run { stroke: #9aa5b1; stroke-width: 1; stroke-dasharray: 5 4; }
    .event { fill: #0f766e; }
    .open { fill: #a3adb8; }
    .late { fill: #b42318; }
    .cross { stroke: #b42318; stroke-width: 1.8; }
    .watermark { fill: none; stroke: #2f6fad; stroke-width: 2; }
    @media (prefers-color-scheme: dark) {
      text { fill: #b0bac5; }
      .head { fill: #e4e7eb; }
      .grid { stroke: #3e4c59; }
      .run { stroke: #616e7c; }
      .event { fill: #2dd4bf; }
      .open { fill: #616e7c; }
      .late { fill: #f97066; }
      .cross { stroke: #f97066; }
      .watermark { stroke: #6ba6dd; }
    }
"""


@dataclass(frozen=True)
class Event:
    """One row of bronze."""

    at: datetime
    """Event time."""
    batch: int
    """The batch of bronze that brought it, from 0."""
    late: bool
    """Whether it is in the late table."""


@dataclass(frozen=True)
class Measured:
    """What the run made."""

    events: tuple[Event, ...]
    """In the order of bronze."""
    watermarks: tuple[datetime | None, ...]
    """Of the rows of each batch of bronze."""
    runs: tuple[int, ...]
    """The first batch of each run."""
    closed: Mapping[datetime, int]
    """Start of each window in the table, to the number of its events."""
    open: Mapping[datetime, int]
    """The same of the windows that are not closed."""


def measure(layout: Layout) -> Measured:
    """Read the lake after the commands of the guide.

    Raises:
        ValueError: The late table has other rows than those that are below the watermark of their batch.
    """
    bronze = sorted(
        _rows(layout.table(f"bronze.{PIPELINE}")), key=lambda row: (row["_ingested_at"], row["_line_number"])
    )
    times = sorted({row["_ingested_at"] for row in bronze})
    late = {row["tap_id"] for row in _rows(FlowPlace(layout, PIPELINE, FLOW).late)}
    events = []
    for row in bronze:
        tap, at = _parsed(row)
        events.append(Event(at, times.index(row["_ingested_at"]), tap in late))
    marks = tuple(_watermark(events, batch) for batch in range(len(times)))
    below = [mark is not None and event.at < mark for event in events for mark in (marks[event.batch],)]
    if below != [event.late for event in events]:
        raise ValueError("the late table does not have the rows that are below the watermark")
    runs = {row["attempt"]: row["batches"] for row in _attempts(layout)}
    starts = [sum(list(runs.values())[:number]) for number in range(len(runs))]
    closed = _sum((row["window_start"], row["taps"]) for row in _rows(layout.table(f"gold.{PIPELINE}_per_window")))
    return Measured(tuple(events), marks, tuple(starts), closed, _open_windows(events, closed))


def pictures(measured: Measured) -> dict[str, str]:
    """The SVG of each picture, by the name of its file."""
    return {
        "stateful-events.svg": "\n".join(_events(measured)) + "\n",
        "stateful-windows.svg": "\n".join(_windows(measured)) + "\n",
    }


def _rows(path: Address) -> list[dict[str, Any]]:
    return query.query(path, delta_table.columns(path), "FROM delta_table")


def _attempts(layout: Layout) -> list[dict[str, Any]]:
    sql = "SELECT attempt, count(*) AS batches FROM delta_table WHERE flow = 'bronze' GROUP BY ALL ORDER BY min(recorded_at)"
    return query.query(PipelinePlace(layout, PIPELINE).ops("ledger"), ("flow", "attempt", "recorded_at"), sql)


def _parsed(row: Mapping[str, Any]) -> tuple[str, datetime]:
    """Id and time of a record of bronze."""
    (record,) = csv.DictReader(io.StringIO(f"{row['_header']}\n{row['line']}\n"))
    return record["tap_id"], datetime.fromisoformat(record["tapped_at"])


def _watermark(events: Iterable[Event], batch: int) -> datetime | None:
    """The highest event time of earlier batches, less the delay."""
    newest = max((event.at for event in events if event.batch < batch), default=None)
    return None if newest is None else newest - DELAY


def _sum(pairs: Iterable[tuple[datetime, int]]) -> dict[datetime, int]:
    total: Counter[datetime] = Counter()
    for start, number in pairs:
        total[start.astimezone(UTC)] += number
    return dict(total)


def _open_windows(events: Iterable[Event], closed: Mapping[datetime, int]) -> dict[datetime, int]:
    """The windows that are not in the table, with the events that came in time: the state has them."""
    starts = Counter(_start(event.at) for event in events if not event.late)
    return {start: number for start, number in starts.items() if start not in closed}


def _start(at: datetime) -> datetime:
    """The start of the window that contains a time."""
    return at - timedelta(minutes=at.minute % 10, seconds=at.second)


def _svg(height: int, title: str, description: str) -> Iterator[str]:
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}" '
        'role="img" aria-labelledby="title description">'
    )
    yield f'<title id="title">{escape(title)}</title>'
    yield f'<desc id="description">{escape(description)}</desc>'
    yield f"<style>{_STYLE}</style>"


def _text(x: float, y: float, text: str, *, kind: str = "", anchor: str = "start") -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _line(kind: str, x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line class="{kind}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def _starts(measured: Measured) -> list[datetime]:
    """The starts of all windows that contain an event."""
    return sorted({_start(event.at) for event in measured.events})


def _events(measured: Measured) -> Iterator[str]:
    height, starts = 430, _starts(measured)
    end, batches = starts[-1] + LENGTH, len(measured.watermarks)
    late = sum(event.late for event in measured.events)
    yield from _svg(
        height,
        "Events, batches of bronze and the watermark",
        f"{len(measured.events)} events in {batches} batches of bronze. The watermark of a batch is the highest event time of the "
        f"batches before it, less ten minutes. {late} events are below it: they are late.",
    )
    step, scale = (_WIDTH - _LEFT - 10) / batches, (height - _TOP - _BOTTOM) / (end - starts[0]).total_seconds()

    def y(at: datetime) -> float:
        return height - _BOTTOM - (at - starts[0]).total_seconds() * scale

    yield _text(0, 18, "Event time", kind="head")
    for at in (*starts, end):
        yield _line("grid", _LEFT, y(at), _WIDTH - 10, y(at))
        yield _text(_LEFT - 8, y(at) + 4, f"{at:%H:%M}", anchor="end")
    for number, first in enumerate(measured.runs, start=1):
        yield _line("run", _LEFT + first * step, _TOP - 16, _LEFT + first * step, height - _BOTTOM)
        yield _text(_LEFT + first * step + 4, _TOP - 6, f"run {number}")
    for batch in range(batches):
        yield _text(_LEFT + (batch + 0.5) * step, height - _BOTTOM + 18, str(batch), anchor="middle")
        own = [event for event in measured.events if event.batch == batch]
        for nth, event in enumerate(own):
            x = _LEFT + (batch + 0.1 + 0.8 * (nth + 0.5) / len(own)) * step
            if event.late:
                yield f'<path class="cross" d="M{x - 4:.1f} {y(event.at) - 4:.1f}l8 8m0 -8l-8 8"/>'
            else:
                yield f'<circle class="event" cx="{x:.1f}" cy="{y(event.at):.1f}" r="2.2"/>'
    path = ""
    for batch, mark in enumerate(measured.watermarks):
        if mark is not None and y(mark) <= height - _BOTTOM:
            path += f"{'L' if path else 'M'}{_LEFT + batch * step:.1f} {y(mark):.1f}H{_LEFT + (batch + 1) * step:.1f}"
    yield f'<path class="watermark" d="{path}"/>'
    yield _text(_WIDTH - 10, height - 8, "batch of bronze", anchor="end")
    x = _LEFT + 260
    yield f'<circle class="event" cx="{x}" cy="14" r="3"/>' + _text(x + 10, 18, "event in time")
    yield f'<path class="cross" d="M{x + 116} 10l8 8m0 -8l-8 8"/>' + _text(x + 130, 18, f"late: {late}")
    yield f'<path class="watermark" d="M{x + 200} 14h24"/>' + _text(
        x + 230, 18, "watermark: highest time of earlier batches, less 10 min"
    )
    yield "</svg>"


def _windows(measured: Measured) -> Iterator[str]:
    height, starts = 260, _starts(measured)
    late = Counter(_start(event.at) for event in measured.events if event.late)
    yield from _svg(
        height,
        "Windows of ten minutes",
        f"{len(measured.closed)} windows are closed and in the table, {len(measured.open)} are open in the state. "
        f"{sum(late.values())} late events are in no window.",
    )
    most = max(measured.closed.get(each, 0) + measured.open.get(each, 0) + late[each] for each in starts)
    step, scale = (_WIDTH - _LEFT - 10) / len(starts), (height - _TOP - _BOTTOM) / most
    yield _text(0, 18, "Events in each window", kind="head")
    for number, start in enumerate(starts):
        top = float(height - _BOTTOM)
        parts = (("event", measured.closed), ("open", measured.open), ("late", late))
        for kind, counts in parts:
            if counts.get(start):
                top -= counts[start] * scale
                x, width = _LEFT + (number + 0.14) * step, step * 0.72
                yield f'<rect class="{kind}" x="{x:.1f}" y="{top:.1f}" width="{width:.1f}" height="{counts[start] * scale:.1f}"/>'
        total = " + ".join(str(counts[start]) for _, counts in parts if counts.get(start))
        yield _text(_LEFT + (number + 0.5) * step, top - 6, total, anchor="middle")
        yield _text(_LEFT + (number + 0.5) * step, height - _BOTTOM + 18, f"{start:%H:%M}", anchor="middle")
    yield _line("grid", _LEFT, height - _BOTTOM, _WIDTH - 10, height - _BOTTOM)
    yield _text(_WIDTH - 10, height - 8, "start of the window", anchor="end")
    legend = ((260, "event", "closed, in the table"), (420, "open", "open, in the state"), (570, "late", "late"))
    for left, kind, text in legend:
        yield f'<rect class="{kind}" x="{_LEFT + left}" y="9" width="10" height="10"/>'
        yield _text(_LEFT + left + 16, 18, text)
    yield "</svg>"


def main() -> None:
    """Run the guide and write the pictures."""
    guide = GUIDES / "stateful.md"
    with tempfile.TemporaryDirectory() as folder:
        runner = GuideRunner(Path(folder), [guide])
        runner.run(guide)
        layout = Layout.of(Environment.read({"TIDEGATE_PROJECT": str(runner.project)}))
        for name, text in pictures(measure(layout)).items():
            (PICTURES / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
