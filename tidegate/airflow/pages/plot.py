"""Plots as SVG, without a library and without a style of their own: the style sheet colours their classes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Bar:
    """One batch in a plot, in units of the plot."""

    x: float
    width: float
    y: float
    height: float
    refused_height: float
    """Of the part that went to quarantine, which stands at the bottom; at least visible when it is not 0."""
    base: float
    """Where the bar stands."""


@dataclass(frozen=True)
class Plot:
    """Bars in a box; the axis begins at 0."""

    width: float
    height: float
    bars: tuple[Bar, ...]
    top: int
    """What the highest bar stands for."""
    told: str
    """The plot in a sentence, for who cannot see it."""


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
    """Bars, the last at the right end.

    Args:
        values: One per bar, 0 or more.
        parts: How much of each is drawn as set aside.
        width: Of the box.
        height: The same.
        slots: How many bars fit; fewer leave room at the left.
        gap: Between two bars.
        unit: What is counted.
    """
    top = max(values, default=0)
    step = (width + gap) / slots
    made = []
    for place, (value, part) in enumerate(zip(values, parts, strict=True), start=slots - len(values)):
        tall = _tall(value, top, height)
        low = min(_tall(part, top, height), max(tall, 1.5))
        made.append(
            Bar(
                x=round(place * step, 2),
                width=round(step - gap, 2),
                y=round(height - tall, 2),
                height=round(tall, 2),
                refused_height=round(low, 2),
                base=round(height - low, 2),
            )
        )
    return Plot(width, height, tuple(made), top, _told(values, parts, unit))


def _tall(value: int, top: int, height: float) -> float:
    if value <= 0 or top <= 0:
        return 0.0
    return max(value / top * height, 1.5)


def _told(values: Sequence[int], parts: Sequence[int], unit: str) -> str:
    if not values:
        return "No batch yet."
    return (
        f"The last {len(values)} batches, the newest at the right: {min(values):,} to {max(values):,} {unit} each, "
        f"{sum(parts):,} of {sum(values):,} set aside in quarantine."
    )
