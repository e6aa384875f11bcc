"""The trend of a flow's newest batches as an SVG picture: what came and where it went, and what did not pass.

All axes begin at zero. The picture needs neither a script nor a style sheet to be read: shapes carry their light
colours as attributes, which the style sheet's classes override, also for dark. The page shows the same numbers as a
table below it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from html import escape

from tidegate.pages.batch import Entry
from tidegate.report import BatchRecord

SHOWN = 30
"""Batches in the picture."""

_WIDTH, _LEFT, _RIGHT, _TOP, _GAP, _BOTTOM = 960, 60, 6, 30, 46, 40
_HEIGHTS = (150, 64)
_BAR_AT_MOST = 34.0
FILLS = {"written": "#0f766e", "aside": "#a3adb8", "quarantined": "#d97706", "refused": "#b42318", "time": "#64748b"}
"""Colours by class, for when there is no style sheet: they stand out from white and from black."""


@dataclass(frozen=True)
class Layer:
    """One part of each bar."""

    label: str
    kind: str
    """A class of the style sheet."""
    value: Callable[[BatchRecord], float]


@dataclass(frozen=True)
class Panel:
    """One plot; panels stand below each other over the same batches."""

    title: str
    layers: tuple[Layer, ...]
    """From the ground up."""
    unit: str = ""
    """Behind the numbers."""


@dataclass(frozen=True)
class Trend:
    """The picture and the table that tells the same."""

    svg: str
    legend: tuple[tuple[str, str], ...]
    """What a reader calls it, and its class."""
    columns: tuple[str, ...]
    lines: tuple[tuple[Entry, tuple[str, ...]], ...]
    """The newest first; a batch that waits has no numbers."""


def draw(entries: Sequence[Entry], here: Entry | None) -> Trend | None:
    """Draw a flow's newest batches.

    Args:
        entries: The newest last; swaps are left out, because they are no batches of the source.
        here: The batch to mark; None to mark none.

    Returns:
        None if none of them wrote anything yet.
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
            tuple("-" if entry.record is None else _told(layer.value(entry.record), panel) for panel, layer in layers),
        )
        for entry in reversed(shown)
    )
    columns = tuple(f"{layer.label}{panel.unit and f' ({panel.unit.strip()})'}" for panel, layer in layers)
    return Trend("\n".join(_picture(panels, shown, here)), tuple(legend), columns, lines)


def _panels(records: Sequence[BatchRecord]) -> tuple[Panel, ...]:
    if records[-1].kind == "recompute":
        groups = (
            Layer("upserted", "written", lambda record: record.upserted),
            Layer("deleted", "quarantined", lambda record: record.deleted),
            Layer("unchanged", "aside", lambda record: record.unchanged),
        )
        seconds = Layer("seconds", "time", lambda record: record.seconds)
        return (Panel("Groups recomputed", groups), Panel("Seconds", (seconds,), " s"))
    rows = (
        Layer("written", "written", lambda record: record.written),
        Layer("quarantined", "quarantined", lambda record: record.quarantined),
        Layer("filtered, deduplicated, superseded", "aside", _set_aside),
    )
    if any(record.files_listed for record in records):
        files = Layer("files quarantined", "quarantined", lambda record: record.files_quarantined)
        return (Panel("Rows read", rows[:1]), Panel("Files in quarantine", (files,)))
    share = Layer("of rows read quarantined", "quarantined", _quarantined_share)
    return (Panel("Rows read", rows), Panel("In quarantine, share of rows read", (share,), " %"))


def _set_aside(record: BatchRecord) -> float:
    return sum(record.filtered.values()) + record.deduplicated + record.superseded + record.already_read


def _quarantined_share(record: BatchRecord) -> float:
    return 100 * record.quarantined / record.read if record.read else 0.0


def _picture(panels: Sequence[Panel], shown: Sequence[Entry], here: Entry | None) -> Iterator[str]:
    height = _TOP + sum(_HEIGHTS) + _GAP + _BOTTOM
    first, last = shown[0], shown[-1]
    told = f"Bars for batches {first.batch_id} to {last.batch_id}, the newest on the right. The table below has the numbers."
    yield (
        f'<svg class="trend" viewBox="0 0 {_WIDTH} {height}" role="img" aria-labelledby="trend-title trend-desc" '
        'font-family="system-ui, sans-serif" font-size="12">'
    )
    yield f'<title id="trend-title">{escape(" and ".join(panel.title.lower() for panel in panels).capitalize())}</title>'
    yield f'<desc id="trend-desc">{escape(told)}</desc>'
    step = (_WIDTH - _LEFT - _RIGHT) / SHOWN
    # Few batches stand on the left, as wide as many, so that pages of one flow compare.
    lefts = [_LEFT + number * step for number in range(len(shown))]
    top = _TOP
    for entry, left in zip(shown, lefts, strict=True):
        if here is not None and entry.identity == here.identity:
            yield _rect("here", left, _TOP - 6, step, height - _BOTTOM - _TOP + 12, "#8b949e40")
    for panel, tall in zip(panels, _HEIGHTS, strict=True):
        yield from _plot(panel, shown, lefts, step, top, tall)
        top += tall + _GAP
    yield from _batch_ids(shown, lefts, step, height - _BOTTOM + 24, here)
    yield "</svg>"


def _plot(
    panel: Panel, shown: Sequence[Entry], lefts: Sequence[float], step: float, top: float, tall: float
) -> Iterator[str]:
    stacks = [sum(layer.value(entry.record) for layer in panel.layers) for entry in shown if entry.record]
    ticks = scale(max(stacks), whole=not panel.unit, most_ticks=4 if tall > 100 else 2)
    ground = top + tall
    yield _text("panel", 0, top - 14, panel.title, weight=600)
    for tick in ticks:
        level = ground - tall * tick / ticks[-1]
        yield (
            f'<line class="{"ground" if not tick else "grid"}" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" '
            f'y1="{level:.1f}" y2="{level:.1f}" stroke="{"#8b949e" if not tick else "#8b949e60"}"/>'
        )
        yield _text("tick", _LEFT - 8, level + 4, _tick(tick, ticks, panel.unit), anchor="end")
    wide = min(step * 0.72, _BAR_AT_MOST)
    for entry, left in zip(shown, lefts, strict=True):
        middle = left + step / 2
        yield f"<g><title>{escape(_tooltip(panel, entry))}</title>"
        if entry.record is None:
            cross = f"M{middle - 5:.1f} {ground - 11:.1f}l10 10m0 -10l-10 10"
            yield f'<path class="refused" d="{cross}" stroke="{FILLS["refused"]}" stroke-width="2.5" fill="none"/>'
        else:
            # So that a pointer finds the tooltip of a low bar too.
            yield f'<rect x="{left:.1f}" y="{top:.1f}" width="{step:.1f}" height="{tall}" fill="none" pointer-events="all"/>'
            yield from _bar(panel, entry.record, ticks[-1], middle - wide / 2, wide, ground, tall)
        yield "</g>"


def _bar(
    panel: Panel, record: BatchRecord, most: float, left: float, wide: float, ground: float, tall: float
) -> Iterator[str]:
    level = ground
    for layer in panel.layers:
        value = layer.value(record)
        if not value:
            continue
        # What is there can be seen, if only as a line.
        high = max(tall * value / most, 1.0)
        level -= high
        yield _rect(layer.kind, left, level, wide, high, FILLS[layer.kind])


def _batch_ids(
    shown: Sequence[Entry], lefts: Sequence[float], step: float, level: float, here: Entry | None
) -> Iterator[str]:
    # Not more labels than have room beside each other; the newest always has one.
    every = math.ceil(len(str(shown[-1].batch_id)) * 8 / step)
    for number, (entry, left) in enumerate(zip(shown, lefts, strict=True)):
        marked = here is not None and entry.identity == here.identity
        if marked or (len(shown) - 1 - number) % every == 0:
            yield _text(
                "tick", left + step / 2, level, str(entry.batch_id), anchor="middle", weight=700 if marked else 400
            )
    yield _text("tick", _LEFT - 8, level, "batch", anchor="end")


def scale(most: float, *, whole: bool, most_ticks: int = 4) -> list[float]:
    """Round numbers from 0 to at least ``most``, at equal steps of 1, 2 or 5 times a power of ten.

    Args:
        most: The highest value.
        whole: Whether only whole numbers make sense.
        most_ticks: How many there may be above zero.
    """
    # So that a row of nothing has an axis too.
    most = max(most, 1 if whole else 0.1)
    wanted = most / most_ticks
    power = 10.0 ** math.floor(math.log10(wanted))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= wanted * (1 - 1e-9))
    if whole:
        step = max(step, 1)
    return [number * step for number in range(math.ceil(most / step - 1e-9) + 1)]


def _tick(value: float, ticks: Sequence[float], unit: str) -> str:
    digits = max(0, -math.floor(math.log10(ticks[1]))) if ticks[1] < 1 else 0
    for size, letter in ((1_000_000, "M"), (1_000, "k")):
        if value and not unit and ticks[1] >= size:
            return f"{value / size:g}{letter}"
    return f"{value:,.{digits}f}{unit}"


def _told(value: float, panel: Panel) -> str:
    return f"{value:,.0f}" if not panel.unit else f"{value:,.2f}" if "%" in panel.unit else f"{value:,.1f}"


def _tooltip(panel: Panel, entry: Entry) -> str:
    record = entry.record
    if record is None:
        return f"Batch {entry.batch_id}: refused, nothing written"
    told = ", ".join(f"{_told(layer.value(record), panel)}{panel.unit} {layer.label}" for layer in panel.layers)
    return f"Batch {entry.batch_id}: {told}"


def _rect(kind: str, left: float, top: float, wide: float, high: float, fill: str) -> str:
    return f'<rect class="{kind}" x="{left:.1f}" y="{top:.1f}" width="{wide:.1f}" height="{high:.1f}" fill="{fill}"/>'


def _text(kind: str, left: float, level: float, told: str, *, anchor: str = "start", weight: int = 400) -> str:
    return (
        f'<text class="{kind}" x="{left:.1f}" y="{level:.1f}" text-anchor="{anchor}" font-weight="{weight}" '
        f'fill="currentColor">{escape(told)}</text>'
    )
