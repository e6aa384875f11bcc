"""Draws the state that a stateful flow kept after its last batches: rows, files, and how far the watermark was behind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from tidegate.ops.journal_tables import TREND
from tidegate.ops.metrics import StateFigures
from tidegate.pages.trend import Layer, Panel, columns_of, picture


@dataclass(frozen=True)
class StateTrend:
    """The state after the last batches as a picture, and a table of the same numbers."""

    svg: Markup
    columns: tuple[str, ...]
    lines: tuple[tuple[StateFigures, list[str]], ...]
    """The newest batch first."""


@dataclass(frozen=True)
class _StateBar:
    record: StateFigures
    outcome: str = ""
    missing: str = ""

    @property
    def batch_id(self) -> int:
        return self.record.batch_id


def draw(figures: Sequence[StateFigures]) -> StateTrend | None:
    """Draw the state that a stateful flow kept after its last batches; batches without results have no ledger line.

    Args:
        figures: The newest first.

    Returns:
        None without any.
    """
    if not figures:
        return None
    panels = (
        Panel("Rows of state", (Layer("rows of state", "written", lambda kept: kept.state_rows),)),
        Panel("Files of state", (Layer("files of state", "other", lambda kept: kept.state_bytes / 1e6),), " MB"),
        Panel("Watermark behind the start of the batch", (Layer("watermark behind", "time", _hours_behind),), " h"),
    )
    shown = [_StateBar(each) for each in reversed(figures[:TREND])]
    lines = [(bar.record, [text for panel in panels for text in panel.texts(bar)]) for bar in reversed(shown)]
    svg = Markup("\n").join(Markup(part) for part in picture(panels, shown, None))
    return StateTrend(svg, columns_of(panels), tuple(lines))


def _hours_behind(kept: StateFigures) -> float:
    lag = kept.lag(kept.started_at)
    return 0.0 if lag is None else max(lag.total_seconds(), 0.0) / 3600
