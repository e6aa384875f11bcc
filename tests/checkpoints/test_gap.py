"""Accepted gaps cover exactly the named offsets of one topic."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidegate.checkpoints import gap
from tidegate.errors import RequestError
from tidegate.lake.layout import Layout
from tidegate.lake.place import FlowPlace


def test_offsets_are_parsed_and_formatted() -> None:
    assert gap.parse(["0:10-14", "3:7-7"]) == ("", {0: (10, 14), 3: (7, 7)})
    assert gap.parse(["web.clicks/0:10-14", "web.clicks/3:7-7"]) == ("web.clicks/", {0: (10, 14), 3: (7, 7)})
    assert gap.format_offsets({3: (7, 7), 0: (10, 14)}) == "0:10-14 3:7-7"
    assert gap.format_offsets({3: (7, 7)}, "clicks/") == "clicks/3:7-7"
    for wrong in ("", "0", "0:10", "0:14-10", "a:1-2", "0:1-2,1:3-4", " 0:1-2", "0:1-2\n", "/0:1-2"):
        with pytest.raises(RequestError, match="is not a range of offsets"):
            gap.parse([wrong])
    with pytest.raises(RequestError, match="each partition once"):
        gap.parse(["0:1-2", "0:3-4"])
    for mixed in (["a/0:1-2", "b/1:3-4"], ["0:1-2", "a/1:3-4"]):
        with pytest.raises(RequestError, match="of one topic of several"):
            gap.parse(mixed)


def test_only_the_accepted_offsets_of_the_same_topic_are_skipped(tmp_path: Path) -> None:
    layout = Layout.local(tmp_path / "lake", tmp_path / "landing")

    def missing(begin: int, topic_id: str = "A") -> gap.Offsets:
        accepted = gap.accepted(FlowPlace(layout, "clicks", "bronze"), "clicks")
        return gap.missing({0: 10, 1: 3}, {0: begin, 1: 3}, accepted, topic_id)

    assert (missing(10), missing(15)) == ({}, {0: (10, 14)})
    with pytest.raises(RequestError, match="reason is empty"):
        gap.accept(FlowPlace(layout, "clicks", "bronze"), "clicks", "A", missing(15), by="ada", reason=" ")
    decision = gap.accept(
        FlowPlace(layout, "clicks", "bronze"), "clicks", "A", missing(15), by="ada", reason="they were tests"
    )

    assert decision.summary().startswith("offsets 0:10-14 of topic clicks accepted as a gap by ada on 20")
    assert (missing(15), missing(14), missing(15, "B")) == ({}, {}, {0: (10, 14)})
    assert missing(20) == {0: (15, 19)}, "the beginning of the topic has moved"
    gap.accept(FlowPlace(layout, "clicks", "bronze"), "clicks", "A", missing(20), by="ada", reason="these too")
    assert (missing(20), missing(21)) == ({}, {0: (20, 20)})
    accepted = gap.accepted(FlowPlace(layout, "clicks", "bronze"), "clicks")
    assert gap.missing({0: 8}, {0: 20}, accepted, "A") == {0: (8, 19)}, (
        "the offsets before the accepted ones are missing"
    )
    assert gap.missing({0: 30}, {0: 32}, accepted, "A") == {0: (30, 31)}, "earlier gaps do not move the position back"
