"""The trend: axes start at zero, the current batch is highlighted, and the table has the same numbers."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

import pytest

from tests.pages import samples
from tidegate.pages.trend import SHOWN, draw, scale

SVG = "{http://www.w3.org/2000/svg}"


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
    entries = [samples.batch(number).entry() for number in range(40)]
    trend = draw(entries, entries[-1])
    assert trend is not None
    picture = ET.fromstring(trend.svg)
    bars = [rect for rect in picture.iter("rect") if rect.get("class") == "written"]
    written = [entry.record.written for entry in entries[-SHOWN:] if entry.record]

    assert len(bars) == SHOWN
    # The axis ends at 15k and is 150 units high; numbers in the picture are rounded to a tenth.
    assert [float(bar.get("height", 0)) for bar in bars] == pytest.approx([150 * n / 15_000 for n in written], abs=0.06)


def test_the_picture_has_a_title_a_description_and_a_table_of_its_numbers() -> None:
    entries = [samples.batch(number).entry() for number in range(3)]
    trend = draw(entries, None)
    assert trend is not None
    picture = ET.fromstring(trend.svg)
    assert picture.get("role") == "img"
    ids = picture.get("aria-labelledby", "").split()
    assert [picture.find(f"*[@id='{name}']").tag for name in ids] == ["title", "desc"]  # type: ignore[union-attr]
    assert trend.columns == (
        "written",
        "quarantined",
        "filtered, deduplicated, superseded",
        "of rows read quarantined (%)",
    )
    entry, values = trend.lines[0]
    assert entry.batch_id == 2
    record = entry.record
    assert record is not None
    assert values[:2] == (f"{record.written:,}", f"{record.quarantined}")


def test_a_refused_batch_is_a_cross_and_not_an_empty_bar() -> None:
    entries = [samples.batch(0).entry(), samples.batch(1, outcome="refused").entry()]
    trend = draw(entries, entries[-1])
    assert trend is not None
    assert len(re.findall(r'<path class="refused"', trend.svg)) == 2, "in both plots"
    assert trend.lines[0][1] == ("-",) * 4
    assert trend.legend[-1] == ("refused: nothing written", "refused")


def test_without_recorded_batches_there_is_no_picture() -> None:
    assert draw([], None) is None
    assert draw([samples.batch(0, outcome="refused").entry()], None) is None
