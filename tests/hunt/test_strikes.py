"""Which writes a strike may hit."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.hunt.strikes import Strike
from tests.memory import MemoryLayout
from tidegate import json_codec
from tidegate.lake.layout import Layout


@pytest.mark.slow
@pytest.mark.parametrize("lake", ["folder", "bucket"])
def test_a_strike_hits_the_write_of_a_note_and_none_of_a_report(lake: str, tmp_path: Path) -> None:
    layout = MemoryLayout() if lake == "bucket" else Layout.local(tmp_path / "lake", tmp_path / "landing")
    strike = Strike(2, "error")
    with strike.struck(None, tmp_path):
        json_codec.write(layout.root / "reports" / "hunt" / "report.json", {})
        assert strike.crossed == 0
        json_codec.write(layout.root / "checkpoints" / "hunt" / "note.json", {})
    assert (strike.crossed, strike.at) == (2, "after json_codec.write")
