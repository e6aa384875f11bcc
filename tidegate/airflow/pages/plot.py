"""Coordinates of bar charts for inline SVG. The style sheet sets the colours by class."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Bar:
    """One batch, in units of the SVG's viewBox."""

    x: float
    width: float
    y: float
    height: float
    quarantined_height: float
    """Height of the quarantined part, which is drawn at the bottom; large enough to be visible unless it is 0."""
    base: float
    """y of the quarantined part."""


@dataclass(frozen=True)
class Plot:
    """A bar chart; the axis starts at 0."""

    width: float
    height: float
    bars: tuple[Bar, ...]
    top: int
    """The value of the highest bar."""
    description: str
    """The chart in one sentence, for screen readers."""


def bars(
    values: Sequence[int],
    parts: Sequence[int],
    *,
    width: float,
    height: float,
    slots: int,
    gap: float,
    unit: str = "rows",
) -> Plot:
    """A bar chart whose last bar is at the right edge.

    Args:
        values: One per bar, 0 or more.
        parts: The quarantined part of each value.
        slots: Number of bars that fit; if there are fewer, the left side stays empty.
    """
    top = max(values, default=0)
    step = (width + gap) / slots
    drawn = []
    for slot, (value, part) in enumerate(zip(values, parts, strict=True), start=slots - len(values)):
        total_height = _height(value, top, height)
        part_height = min(_height(part, top, height), max(total_height, 1.5))
        drawn.append(
            Bar(
                x=round(slot * step, 2),
                width=round(step - gap, 2),
                y=round(height - total_height, 2),
                height=round(total_height, 2),
                quarantined_height=round(part_height, 2),
                base=round(height - part_height, 2),
            )
        )
    return Plot(width, height, tuple(drawn), top, _describe(values, parts, unit))


def _height(value: int, top: int, height: float) -> float:
    if value <= 0 or top <= 0:
        return 0.0
    return max(value / top * height, 1.5)


def _describe(values: Sequence[int], parts: Sequence[int], unit: str) -> str:
    if not values:
        return "No batch yet."
    return (
        f"The last {len(values)} batches, the newest at the right: {min(values):,} to {max(values):,} {unit} each, "
        f"{sum(parts):,} of {sum(values):,} quarantined."
    )
