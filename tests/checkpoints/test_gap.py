"""Messages that are gone are given up by name, and nothing beside them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidegate.checkpoints import gap
from tidegate.errors import RequestError
from tidegate.layout import Layout


def test_offsets_are_named_as_people_read_them() -> None:
    assert gap.parse(["0:10-14", "3:7-7"]) == {0: (10, 14), 3: (7, 7)}
    assert gap.told({3: (7, 7), 0: (10, 14)}) == "0:10-14 3:7-7"
    for wrong in ("", "0", "0:10", "0:14-10", "a:1-2", "0:1-2,1:3-4", " 0:1-2", "0:1-2\n"):
        with pytest.raises(RequestError, match="names no offsets"):
            gap.parse([wrong])
    with pytest.raises(RequestError, match="each partition once"):
        gap.parse(["0:1-2", "0:3-4"])


def test_only_what_was_given_up_of_this_very_topic_is_passed_over(tmp_path: Path) -> None:
    layout = Layout(tmp_path / "lake", tmp_path / "landing")

    def missing(begin: int, topic_id: str = "A") -> gap.Offsets:
        given_up = gap.accepted(layout, "clicks", "bronze")
        return gap.missing({0: 10, 1: 3}, {0: begin, 1: 3}, given_up, topic_id)

    assert (missing(10), missing(15)) == ({}, {0: (10, 14)})
    with pytest.raises(RequestError, match="no reason"):
        gap.accept(layout, "clicks", "bronze", "clicks", "A", missing(15), by="ada", reason=" ")
    decided = gap.accept(layout, "clicks", "bronze", "clicks", "A", missing(15), by="ada", reason="they were tests")

    assert decided.told().startswith("offsets 0:10-14 of topic clicks given up by ada on 20")
    assert (missing(15), missing(14), missing(15, "B")) == ({}, {}, {0: (10, 14)})
    assert missing(20) == {0: (15, 19)}, "the log's start went on"
    gap.accept(layout, "clicks", "bronze", "clicks", "A", missing(20), by="ada", reason="these too")
    assert (missing(20), missing(21)) == ({}, {0: (20, 20)})
