"""The vector of a batch comes from Spark's offset log and from the versions at which the checkpoint began."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.spark_files import Checkpoint, delta_offset
from tidegate.checkpoints import vector
from tidegate.checkpoints.checkpoint import CheckpointRef
from tidegate.errors import CheckpointCorruptError
from tidegate.layout import Layout

REF = CheckpointRef(dag_id="trips", flow="gold", version=1, refresh=0)
TABLES = ("silver.trips", "silver.weather")


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(tmp_path / "lake", tmp_path / "landing")


def test_a_version_counts_once_something_of_it_was_read(layout: Layout) -> None:
    vector.note_starts(layout, REF, {"silver.trips": 2, "silver.weather": 5})
    checkpoint = Checkpoint(REF.path(layout))
    vectors = []
    for batch, offsets in enumerate(
        (
            (delta_offset(3, 0, snapshot=True), None),
            (delta_offset(4), delta_offset(5)),
            (delta_offset(5, 0), delta_offset(7)),
        )
    ):
        checkpoint.run(batch, *offsets)
        vectors.append(tuple(vector.of_batch(layout, REF, batch, TABLES).values()))
    assert vectors == [(3, 5), (3, 5), (5, 6)], "a position before version 5 is not before the beginning"


def test_the_versions_at_which_a_checkpoint_began_are_noted_until_its_first_batch_is_planned(layout: Layout) -> None:
    earlier, later, latest = ({"silver.trips": number, "silver.weather": number} for number in (2, 5, 8))
    assert vector.starts(layout, REF) == {}
    assert vector.note_starts(layout, REF, earlier) == earlier
    assert vector.note_starts(layout, REF, later) == later == vector.starts(layout, REF)
    Checkpoint(REF.path(layout)).plan(0, delta_offset(5, 0, snapshot=True), None)
    assert vector.note_starts(layout, REF, latest) == later


def test_a_checkpoint_whose_beginning_or_sources_are_unknown_is_damaged(layout: Layout) -> None:
    checkpoint = Checkpoint(REF.path(layout))
    checkpoint.plan(0, delta_offset(1), delta_offset(1))
    with pytest.raises(CheckpointCorruptError, match=r"v1-0\.starts\.json, which has the versions .* is missing"):
        vector.of_batch(layout, REF, 0, TABLES)
    with pytest.raises(CheckpointCorruptError, match="is missing"):
        vector.note_starts(layout, REF, {"silver.trips": 8})
    with pytest.raises(CheckpointCorruptError, match="positions of 2 sources, not of 3"):
        vector.of_batch(layout, REF, 0, (*TABLES, "silver.carriers"))
