"""Draws batches as stacked bars in SVG: a flow's last batches with axes, and the same small for lists.

All axes start at zero. The pictures are readable without a style sheet: shapes have their light colours as attributes, which the
classes of the style sheet override, also for dark mode. The page has the numbers in a table below the large picture.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from markupsafe import Markup, escape

from tidegate import formatting
from tidegate.ops.journal import Line, Summary
from tidegate.ops.journal_tables import TREND
from tidegate.reports.ledger_line import PARTS, ROWS, LedgerLine, count, label

FILLS = {"written": "#0f766e", "other": "#a3adb8", "quarantined": "#d97706", "refused": "#b42318", "time": "#64748b"}
"""Colours by class, used without the style sheet; they contrast with white and with black."""

_WIDTH, _LEFT, _RIGHT, _TOP, _GAP, _BOTTOM = 960, 60, 6, 30, 46, 40
_HEIGHTS = (150, 64, 64)
_STEP = (_WIDTH - _LEFT - _RIGHT) / TREND
"""Bars have the same width for few batches as for many, so that pages of one flow can be compared."""
_BAR = _STEP * 0.72
_SMALL_WIDTH, _SMALL_HEIGHT = 120, 28


class Bar(Protocol):
    """What is drawn as one bar: a line of the journal, or the state after a batch."""

    @property
    def batch_id(self) -> int:
        """The batch, for the axis."""

    @property
    def outcome(self) -> str:
        """``refused`` is drawn as a cross."""

    @property
    def record(self) -> Any:
        """What layers take their values from; None for a batch without."""

    @property
    def missing(self) -> str:
        """Why there is none."""


@dataclass(frozen=True)
class Layer:
    """One part of each bar."""

    label: str
    kind: str
    """Class in the style sheet."""
    value: Callable[[Any], float]
    """Of the bar's record."""


@dataclass(frozen=True)
class Panel:
    """One plot; panels are stacked and share the x axis."""

    title: str
    layers: tuple[Layer, ...]
    """From the bottom up."""
    unit: str = ""
    """Suffix of the numbers."""

    def values(self, line: Bar) -> list[tuple[str, float]]:
        """Class and value of each layer; none for a batch without a ledger line."""
        return [(layer.kind, layer.value(line.record)) for layer in self.layers] if line.record else []

    def texts(self, line: Bar) -> list[str]:
        """The values as text."""
        digits = 0 if not self.unit else 2 if "%" in self.unit else 1
        return [f"{value:,.{digits}f}" for _, value in self.values(line)] or ["-"] * len(self.layers)

    def tooltip(self, line: Bar) -> str:
        """A batch's values in one phrase."""
        if line.record is None:
            return f"Batch {line.batch_id}: {line.missing}"
        parts = (f"{text}{self.unit} {layer.label}" for text, layer in zip(self.texts(line), self.layers, strict=True))
        return f"Batch {line.batch_id}: {', '.join(parts)}"


@dataclass(frozen=True)
class Trend:
    """The picture, and a table of the same numbers."""

    svg: Markup
    legend: tuple[tuple[str, str], ...]
    """Label and class of each layer."""
    columns: tuple[str, ...]
    lines: tuple[tuple[Line, list[str]], ...]
    """The newest batch first."""


def draw(lines: Sequence[Line], current: Line | None = None) -> Trend | None:
    """Draw a flow's last batches.

    Args:
        lines: Batches, the newest first.
        current: The batch to highlight, if any.

    Returns:
        None if no batch has a ledger line yet.
    """
    shown = list(reversed(lines[:TREND]))
    records = [line.record for line in shown if line.record is not None]
    if not records:
        return None
    panels = _panels(records)
    legend = [(layer.label, layer.kind) for layer in panels[0].layers]
    if any(line.outcome == "refused" for line in shown):
        legend.append(("refused: nothing written", "refused"))
    table = tuple((line, [text for panel in panels for text in panel.texts(line)]) for line in reversed(shown))
    svg = Markup("\n").join(Markup(part) for part in picture(panels, shown, current))
    return Trend(svg, tuple(legend), columns_of(panels), table)


def columns_of(panels: Sequence[Panel]) -> tuple[str, ...]:
    """The columns of the table, one for each layer."""
    return tuple(f"{layer.label}{p.unit and f' ({p.unit.strip()})'}" for p in panels for layer in p.layers)


def small(summary: Summary | None) -> Markup:
    """Rows read by a flow's last batches, the newest at the right edge, the quarantined part at the bottom of each bar."""
    reads, parts = (summary.trend, summary.trend_quarantined) if summary else ((), ())
    maximum = max(reads, default=0) or 1
    step = _SMALL_WIDTH / TREND
    bars = "".join(
        rect
        for slot, (read, part) in enumerate(zip(reads, parts, strict=True), start=TREND - len(reads))
        for rect in _stack(
            (("quarantined", part), ("written", read - part)),
            maximum,
            slot * step,
            step - 1,
            _SMALL_HEIGHT,
            _SMALL_HEIGHT,
        )
    )
    description = "No batch yet." if not reads else (
        f"The last {formatting.count(len(reads), 'batch', 'batches')}, the newest at the right: "
        f"{min(reads):,} to {formatting.count(max(reads), 'row')} each, "
        f"{sum(parts):,} of {sum(reads):,} quarantined."
    )  # fmt: skip
    return Markup(
        f'<svg class="small" viewBox="0 0 {_SMALL_WIDTH} {_SMALL_HEIGHT}" width="{_SMALL_WIDTH}" height="{_SMALL_HEIGHT}" '
        f'preserveAspectRatio="none" role="img" aria-label="{description}"><title>{description}</title>{bars}</svg>'
    )


def _panels(records: Sequence[LedgerLine]) -> tuple[Panel, Panel]:
    about = records[-1].balances[0]
    if "quarantined" not in about.parts:
        layers = tuple(Layer(label(part), PARTS[part].look, partial(count, name=part)) for part in about.parts)
        seconds = Layer("seconds", "time", lambda record: record.seconds)
        return Panel(f"{about.units.capitalize()} {about.verb}", layers), Panel("Seconds", (seconds,), " s")
    rows = (
        Layer("written", "written", lambda record: record.written),
        Layer("quarantined", "quarantined", lambda record: record.quarantined),
        Layer("late, filtered, deduplicated, superseded", "other", _not_written),
    )
    if any(record.files_listed for record in records):
        files = Layer("files quarantined", "quarantined", lambda record: record.files_quarantined)
        return Panel("Rows read", rows[:1]), Panel("Files in quarantine", (files,))
    share = Layer("of rows read quarantined", "quarantined", _quarantined_share)
    return Panel("Rows read", rows), Panel("In quarantine, share of rows read", (share,), " %")


def _not_written(record: LedgerLine) -> float:
    return sum(count(record, part) for part in ROWS.parts if PARTS[part].look == "other")


def _quarantined_share(record: LedgerLine) -> float:
    return 100 * record.quarantined / record.read if record.read else 0.0


def picture(panels: Sequence[Panel], shown: Sequence[Bar], current: Bar | None) -> Iterator[str]:
    """The parts of the picture.

    Args:
        panels: At most three.
        shown: The bars, from the left.
        current: The one to highlight, if any.
    """
    height = _TOP + sum(_HEIGHTS[: len(panels)]) + _GAP * (len(panels) - 1) + _BOTTOM
    title = " and ".join(panel.title.lower() for panel in panels).capitalize()
    yield (
        f'<svg class="trend" viewBox="0 0 {_WIDTH} {height}" role="img" font-family="system-ui, sans-serif" font-size="12" '
        f'aria-label="{title}: bars for batches {shown[0].batch_id} to {shown[-1].batch_id}, the newest on the right. '
        'The table below has the numbers.">'
    )
    here = next((number for number, line in enumerate(shown) if line == current), None)
    if here is not None:
        yield _rect("current", _LEFT + here * _STEP, _TOP - 6, _STEP, height - _BOTTOM - _TOP + 12, "#8b949e40")
    top = _TOP
    for panel, panel_height in zip(panels, _HEIGHTS, strict=False):
        yield from _plot(panel, shown, top, panel_height)
        top += panel_height + _GAP
    yield from _batch_ids(shown, height - _BOTTOM + 24, here)
    yield "</svg>"


def _plot(panel: Panel, shown: Sequence[Bar], top: float, height: float) -> Iterator[str]:
    largest = max(sum(value for _, value in panel.values(line)) for line in shown)
    ticks = scale(largest, whole=not panel.unit, max_ticks=4 if height > 100 else 2)
    baseline = top + height
    yield _text("panel", 0, top - 14, panel.title, weight=600)
    for tick in ticks:
        y = baseline - height * tick / ticks[-1]
        yield (
            f'<line class="{"grid" if tick else "ground"}" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" '
            f'y1="{y:.1f}" y2="{y:.1f}" stroke="{"#8b949e60" if tick else "#8b949e"}"/>'
        )
        yield _text("tick", _LEFT - 8, y + 4, _tick(tick, ticks, panel.unit), anchor="end")
    for number, line in enumerate(shown):
        left = _LEFT + number * _STEP
        middle = left + _STEP / 2
        # The first rectangle makes the tooltip of a low bar accessible over the whole height.
        yield f"<g><title>{panel.tooltip(line)}</title>"
        yield f'<rect x="{left:.1f}" y="{top:.1f}" width="{_STEP:.1f}" height="{height}" fill="none" pointer-events="all"/>'
        yield from _stack(panel.values(line), ticks[-1], middle - _BAR / 2, _BAR, baseline, height)
        if line.outcome == "refused":
            cross = f"M{middle - 5:.1f} {baseline - 11:.1f}l10 10m0 -10l-10 10"
            yield f'<path class="refused" d="{cross}" stroke="{FILLS["refused"]}" stroke-width="2.5" fill="none"/>'
        yield "</g>"


def _stack(
    values: Sequence[tuple[str, float]], maximum: float, left: float, width: float, baseline: float, height: float
) -> Iterator[str]:
    """The parts of one bar from the bottom up; each is at least 1 high, so that a small value is visible."""
    y = baseline
    for kind, value in values:
        if value > 0:
            part = max(height * value / maximum, 1.0)
            y -= part
            yield _rect(kind, left, y, width, part, FILLS[kind])


def _batch_ids(shown: Sequence[Bar], y: float, here: int | None) -> Iterator[str]:
    # Every n-th label, so that labels do not overlap; the newest batch always has one.
    every = math.ceil(len(str(shown[-1].batch_id)) * 8 / _STEP)
    for number, line in enumerate(shown):
        if number == here or (len(shown) - 1 - number) % every == 0:
            middle, weight = _LEFT + (number + 0.5) * _STEP, 700 if number == here else 400
            yield _text("tick", middle, y, str(line.batch_id), anchor="middle", weight=weight)
    yield _text("tick", _LEFT - 8, y, "batch", anchor="end")


def scale(maximum: float, *, whole: bool, max_ticks: int = 4) -> list[float]:
    """Ticks of an axis: from 0 to at least ``maximum``, in steps of 1, 2 or 5 times a power of ten."""
    # If all values are 0, the axis still needs a length.
    maximum = max(maximum, 1 if whole else 0.1)
    least_step = maximum / max_ticks
    power = 10.0 ** math.floor(math.log10(least_step))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= least_step * (1 - 1e-9))
    if whole:
        step = max(step, 1)
    return [number * step for number in range(math.ceil(maximum / step - 1e-9) + 1)]


def _tick(value: float, ticks: Sequence[float], unit: str) -> str:
    digits = max(0, -math.floor(math.log10(ticks[1]))) if ticks[1] < 1 else 0
    for size, letter in ((1_000_000, "M"), (1_000, "k")):
        if value and not unit and ticks[1] >= size:
            return f"{value / size:g}{letter}"
    return f"{value:,.{digits}f}{unit}"


def _rect(kind: str, left: float, top: float, width: float, height: float, fill: str) -> str:
    return (
        f'<rect class="{kind}" x="{left:.1f}" y="{top:.1f}" width="{width:.1f}" height="{height:.1f}" fill="{fill}"/>'
    )


def _text(kind: str, left: float, y: float, text: str, *, anchor: str = "start", weight: int = 400) -> str:
    return (
        f'<text class="{kind}" x="{left:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-weight="{weight}" '
        f'fill="currentColor">{escape(text)}</text>'
    )
