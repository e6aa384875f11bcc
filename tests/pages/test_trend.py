"""The trend: axes start at zero, the current batch is highlighted, and the table has the same numbers."""

from __future__ import annotations

import dataclasses
import re
import xml.etree.ElementTree as ET

import pytest

from tests.cli.project import state_progress
from tests.pages import samples
from tests.pages.samples import Sample
from tidegate.ops.journal import Line, Summary
from tidegate.ops.journal_tables import TREND
from tidegate.ops.metrics import StateFigures
from tidegate.pages import state_trend
from tidegate.pages.trend import draw, scale, small

FIGURES = [field.name for field in dataclasses.fields(StateFigures)]


def lines(*batches: Sample) -> list[Line]:
    """As the journal returns them: the newest first."""
    return [
        Line(
            flow=each.flow,
            app_id=f"flights/{each.flow}/v1/0",
            batch_id=each.batch_id,
            checkpoint_version=1,
            refresh=0,
            recorded_at=each.at,
            run_key=each.run_key,
            attempt="a1",
            mode=None,
            requested_by=None,
            record=each.record,
            suite=None,
            judged=None,
            unmet=(),
            schema_change_id=None,
        )
        for each in reversed(batches)
    ]


@pytest.mark.parametrize(
    ("maximum", "whole", "ticks"),
    [
        (0, True, [0, 1]),
        (1, True, [0, 1]),
        (3, True, [0, 1, 2, 3]),
        (12_900, True, [0, 5_000, 10_000, 15_000]),
        (1_000_000, True, [0, 500_000, 1_000_000]),
        (0.0, False, [0, 0.05, 0.1]),
        (0.42, False, [0, 0.2, 0.4, 0.6]),
        (100.0, False, [0, 50, 100]),
    ],
)
def test_an_axis_starts_at_zero_and_has_round_steps(maximum: float, whole: bool, ticks: list[float]) -> None:
    assert scale(maximum, whole=whole) == pytest.approx(ticks)


def test_the_heights_of_bars_are_proportional_to_their_numbers() -> None:
    recent = lines(*(samples.batch(number) for number in range(40)))
    trend = draw(recent, recent[0])
    assert trend is not None
    picture = ET.fromstring(trend.svg)
    bars = [rect for rect in picture.iter("rect") if rect.get("class") == "written"]
    written = [line.record.written for line in reversed(recent[:TREND]) if line.record]

    assert len(bars) == TREND
    # The axis ends at 15k and is 150 units high; numbers in the picture are rounded to a tenth.
    assert [float(bar.get("height", 0)) for bar in bars] == pytest.approx([150 * n / 15_000 for n in written], abs=0.06)


def test_the_picture_has_a_label_and_a_table_of_its_numbers() -> None:
    trend = draw(lines(*(samples.batch(number) for number in range(3))))
    assert trend is not None
    picture = ET.fromstring(trend.svg)
    assert picture.get("role") == "img"
    assert picture.get("aria-label", "").startswith(
        "Rows read and in quarantine, share of rows read: bars for batches 0 to 2"
    )
    assert trend.columns == (
        "written",
        "quarantined",
        "late, filtered, deduplicated, superseded",
        "of rows read quarantined (%)",
    )
    line, texts = trend.lines[0]
    assert line.batch_id == 2
    assert line.record is not None
    assert texts[:2] == [f"{line.record.written:,}", f"{line.record.quarantined}"]


def test_the_current_batch_is_highlighted() -> None:
    recent = lines(*(samples.batch(number) for number in range(3)))
    marked, unmarked = draw(recent, recent[0]), draw(recent)
    assert marked is not None and unmarked is not None
    assert [rect.get("class") for rect in ET.fromstring(marked.svg).iter("rect")].count("current") == 1
    assert 'class="current"' not in unmarked.svg


def test_a_refused_batch_is_a_cross_and_not_an_empty_bar() -> None:
    recent = lines(samples.batch(0), samples.batch(1, outcome="refused"))
    trend = draw(recent, recent[0])
    assert trend is not None
    assert len(re.findall(r'<path class="refused"', trend.svg)) == 2, "in both plots"
    assert trend.lines[0][1] == ["-"] * 4
    assert trend.legend[-1] == ("refused: nothing written", "refused")


def test_the_state_after_each_batch_is_drawn_in_three_plots() -> None:
    kept = [state_progress(number, state_rows=100 * number, state_bytes=1_500_000) for number in (2, 1)]
    trend = state_trend.draw([StateFigures(**{name: getattr(line, name) for name in FIGURES}) for line in kept])
    assert trend is not None
    picture = ET.fromstring(trend.svg)
    heights = [float(rect.get("height", 0)) for rect in picture.iter("rect") if rect.get("class") == "written"]
    assert heights == pytest.approx([75, 150], abs=0.06), "the axis ends at 200"
    assert trend.columns == ("rows of state", "files of state (MB)", "watermark behind (h)")
    assert [(each.batch_id, texts) for each, texts in trend.lines] == [
        (2, ["200", "1.5", "1.0"]),
        (1, ["100", "1.5", "1.0"]),
    ]
    assert state_trend.draw([]) is None


def test_without_recorded_batches_there_is_no_picture() -> None:
    assert draw([]) is None
    assert draw(lines(samples.batch(0, outcome="refused"))) is None


def test_a_small_trend_ends_at_the_right_and_shows_a_small_quarantine() -> None:
    assert 'aria-label="No batch yet."' in small(None)
    summary = Summary(
        at=samples.FIRST, batch_id=1, checkpoint_version=1, refresh=0, read_today=0, quarantined_today=0,
        trend=(1000, 500, 0), trend_quarantined=(0, 1, 0),
    )  # fmt: skip
    picture = ET.fromstring(small(summary))
    assert "The last 3 batches, the newest at the right: 0 to 1,000 rows each, 1 of 1,500 quarantined." in str(
        picture.get("aria-label")
    )
    bars = [(rect.get("class"), rect.get("x"), rect.get("height")) for rect in picture.iter("rect")]
    assert bars == [("written", "108.0", "28.0"), ("quarantined", "112.0", "1.0"), ("written", "112.0", "14.0")]
