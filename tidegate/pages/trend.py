"""Draws the trend of a flow's newest batches as SVG: rows or groups by disposition, and quarantined shares or durations.

All axes start at zero. The picture is readable without a style sheet: shapes have their light colours as attributes, which the
classes of the style sheet override, also for dark mode. The page has the same numbers in a table below the picture.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from html import escape

from tidegate.pages.batch import Entry
from tidegate.report import BatchRecord

SHOWN = 30
"""Maximum number of batches in the picture."""

_WIDTH, _LEFT, _RIGHT, _TOP, _GAP, _BOTTOM = 960, 60, 6, 30, 46, 40
_HEIGHTS = (150, 64)
_MAX_BAR_WIDTH = 34.0
FILLS = {"written": "#0f766e", "other": "#a3adb8", "quarantined": "#d97706", "refused": "#b42318", "time": "#64748b"}
"""Colours by class, used without the style sheet; they contrast with white and with black."""


@dataclass(frozen=True)
class Layer:
    """One part of each bar."""

    label: str
    kind: str
    """Class in the style sheet."""
    value: Callable[[BatchRecord], float]


@dataclass(frozen=True)
class Panel:
    """One plot; panels are stacked and share the x axis."""

    title: str
    layers: tuple[Layer, ...]
    """From the bottom up."""
    unit: str = ""
    """Suffix of the numbers."""


@dataclass(frozen=True)
class Trend:
    """The picture, and a table of the same numbers."""

    svg: str
    legend: tuple[tuple[str, str], ...]
    """Label and class of each layer."""
    columns: tuple[str, ...]
    lines: tuple[tuple[Entry, tuple[str, ...]], ...]
    """The newest batch first; a refused batch has no numbers."""


def draw(entries: Sequence[Entry], current: Entry | None) -> Trend | None:
    """Draw a flow's newest batches.

    Args:
        entries: The batches, the newest last; swaps are left out.
        current: The batch to highlight, if any.

    Returns:
        None if no batch has a ledger line yet.
    """
    shown = [entry for entry in entries if not entry.swap][-SHOWN:]
    records = [entry.record for entry in shown if entry.record is not None]
    if not records:
        return None
    panels = _panels(records)
    legend = [(layer.label, layer.kind) for layer in panels[0].layers]
    if len(records) < len(shown):
        legend.append(("refused: nothing written", "refused"))
    layers = [(panel, layer) for panel in panels for layer in panel.layers]
    lines = tuple(
        (
            entry,
            tuple(
                "-" if entry.record is None else _number(layer.value(entry.record), panel) for panel, layer in layers
            ),
        )
        for entry in reversed(shown)
    )
    columns = tuple(f"{layer.label}{panel.unit and f' ({panel.unit.strip()})'}" for panel, layer in layers)
    return Trend("\n".join(_picture(panels, shown, current)), tuple(legend), columns, lines)


def _panels(records: Sequence[BatchRecord]) -> tuple[Panel, ...]:
    if records[-1].kind == "recompute":
        groups = (
            Layer("upserted", "written", lambda record: record.upserted),
            Layer("deleted", "quarantined", lambda record: record.deleted),
            Layer("unchanged", "other", lambda record: record.unchanged),
        )
        seconds = Layer("seconds", "time", lambda record: record.seconds)
        return (Panel("Groups recomputed", groups), Panel("Seconds", (seconds,), " s"))
    rows = (
        Layer("written", "written", lambda record: record.written),
        Layer("quarantined", "quarantined", lambda record: record.quarantined),
        Layer("filtered, deduplicated, superseded", "other", _not_written),
    )
    if any(record.files_listed for record in records):
        files = Layer("files quarantined", "quarantined", lambda record: record.files_quarantined)
        return (Panel("Rows read", rows[:1]), Panel("Files in quarantine", (files,)))
    share = Layer("of rows read quarantined", "quarantined", _quarantined_share)
    return (Panel("Rows read", rows), Panel("In quarantine, share of rows read", (share,), " %"))


def _not_written(record: BatchRecord) -> float:
    return sum(record.filtered.values()) + record.deduplicated + record.superseded + record.already_read


def _quarantined_share(record: BatchRecord) -> float:
    return 100 * record.quarantined / record.read if record.read else 0.0


def _picture(panels: Sequence[Panel], shown: Sequence[Entry], current: Entry | None) -> Iterator[str]:
    height = _TOP + sum(_HEIGHTS) + _GAP + _BOTTOM
    first, last = shown[0], shown[-1]
    description = f"Bars for batches {first.batch_id} to {last.batch_id}, the newest on the right. The table below has the numbers."
    yield (
        f'<svg class="trend" viewBox="0 0 {_WIDTH} {height}" role="img" aria-labelledby="trend-title trend-desc" '
        'font-family="system-ui, sans-serif" font-size="12">'
    )
    yield f'<title id="trend-title">{escape(" and ".join(panel.title.lower() for panel in panels).capitalize())}</title>'
    yield f'<desc id="trend-desc">{escape(description)}</desc>'
    step = (_WIDTH - _LEFT - _RIGHT) / SHOWN
    # Bars have the same width for few batches as for many, so that pages of one flow can be compared.
    lefts = [_LEFT + number * step for number in range(len(shown))]
    top = _TOP
    for entry, left in zip(shown, lefts, strict=True):
        if current is not None and entry.identity == current.identity:
            yield _rect("current", left, _TOP - 6, step, height - _BOTTOM - _TOP + 12, "#8b949e40")
    for panel, panel_height in zip(panels, _HEIGHTS, strict=True):
        yield from _plot(panel, shown, lefts, step, top, panel_height)
        top += panel_height + _GAP
    yield from _batch_ids(shown, lefts, step, height - _BOTTOM + 24, current)
    yield "</svg>"


def _plot(
    panel: Panel, shown: Sequence[Entry], lefts: Sequence[float], step: float, top: float, height: float
) -> Iterator[str]:
    stacks = [sum(layer.value(entry.record) for layer in panel.layers) for entry in shown if entry.record]
    ticks = scale(max(stacks), whole=not panel.unit, max_ticks=4 if height > 100 else 2)
    baseline = top + height
    yield _text("panel", 0, top - 14, panel.title, weight=600)
    for tick in ticks:
        y = baseline - height * tick / ticks[-1]
        yield (
            f'<line class="{"ground" if not tick else "grid"}" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" '
            f'y1="{y:.1f}" y2="{y:.1f}" stroke="{"#8b949e" if not tick else "#8b949e60"}"/>'
        )
        yield _text("tick", _LEFT - 8, y + 4, _tick(tick, ticks, panel.unit), anchor="end")
    width = min(step * 0.72, _MAX_BAR_WIDTH)
    for entry, left in zip(shown, lefts, strict=True):
        middle = left + step / 2
        yield f"<g><title>{escape(_tooltip(panel, entry))}</title>"
        if entry.record is None:
            cross = f"M{middle - 5:.1f} {baseline - 11:.1f}l10 10m0 -10l-10 10"
            yield f'<path class="refused" d="{cross}" stroke="{FILLS["refused"]}" stroke-width="2.5" fill="none"/>'
        else:
            # Makes the tooltip of a low bar accessible over the whole height.
            yield f'<rect x="{left:.1f}" y="{top:.1f}" width="{step:.1f}" height="{height}" fill="none" pointer-events="all"/>'
            yield from _bar(panel, entry.record, ticks[-1], middle - width / 2, width, baseline, height)
        yield "</g>"


def _bar(
    panel: Panel, record: BatchRecord, maximum: float, left: float, width: float, baseline: float, panel_height: float
) -> Iterator[str]:
    y = baseline
    for layer in panel.layers:
        value = layer.value(record)
        if not value:
            continue
        # At least 1, so that a small value is visible.
        height = max(panel_height * value / maximum, 1.0)
        y -= height
        yield _rect(layer.kind, left, y, width, height, FILLS[layer.kind])


def _batch_ids(
    shown: Sequence[Entry], lefts: Sequence[float], step: float, y: float, current: Entry | None
) -> Iterator[str]:
    # Every n-th label, so that labels do not overlap; the newest batch always has one.
    every = math.ceil(len(str(shown[-1].batch_id)) * 8 / step)
    for number, (entry, left) in enumerate(zip(shown, lefts, strict=True)):
        is_current = current is not None and entry.identity == current.identity
        if is_current or (len(shown) - 1 - number) % every == 0:
            yield _text(
                "tick", left + step / 2, y, str(entry.batch_id), anchor="middle", weight=700 if is_current else 400
            )
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


def _number(value: float, panel: Panel) -> str:
    return f"{value:,.0f}" if not panel.unit else f"{value:,.2f}" if "%" in panel.unit else f"{value:,.1f}"


def _tooltip(panel: Panel, entry: Entry) -> str:
    record = entry.record
    if record is None:
        return f"Batch {entry.batch_id}: refused, nothing written"
    values = ", ".join(f"{_number(layer.value(record), panel)}{panel.unit} {layer.label}" for layer in panel.layers)
    return f"Batch {entry.batch_id}: {values}"


def _rect(kind: str, left: float, top: float, width: float, height: float, fill: str) -> str:
    return (
        f'<rect class="{kind}" x="{left:.1f}" y="{top:.1f}" width="{width:.1f}" height="{height:.1f}" fill="{fill}"/>'
    )


def _text(kind: str, left: float, y: float, text: str, *, anchor: str = "start", weight: int = 400) -> str:
    return (
        f'<text class="{kind}" x="{left:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-weight="{weight}" '
        f'fill="currentColor">{escape(text)}</text>'
    )
