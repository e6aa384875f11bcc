"""The vector of a batch comes from Spark's offset log and from the versions at which the checkpoint began."""

from __future__ import annotations

import pytest

from tests.memory import MemoryLayout
from tests.spark_files import Checkpoint, delta_offset
from tidegate.checkpoints import vector
from tidegate.errors import CheckpointCorruptError
from tidegate.lake.place import Place

TABLES = ("silver.trips", "silver.weather")


@pytest.fixture
def place() -> Place:
    return Place(MemoryLayout(), "trips", "gold", 1, 0)


def test_a_version_counts_once_something_of_it_was_read(place: Place) -> None:
    vector.note_starts(place, {"silver.trips": 2, "silver.weather": 5})
    checkpoint = Checkpoint(place.checkpoint)
    vectors = []
    for batch, offsets in enumerate(
        (
            (delta_offset(3, 0, snapshot=True), None),
            (delta_offset(4), delta_offset(5)),
            (delta_offset(5, 0), delta_offset(7)),
        )
    ):
        checkpoint.run(batch, *offsets)
        vectors.append(tuple(vector.of_batch(place, batch, TABLES).values()))
    assert vectors == [(3, 5), (3, 5), (5, 6)], "a position before version 5 is not before the beginning"


def test_the_versions_at_which_a_checkpoint_began_are_noted_until_its_first_batch_is_planned(place: Place) -> None:
    earlier, later, latest = ({"silver.trips": number, "silver.weather": number} for number in (2, 5, 8))
    assert vector.starts(place) == {}
    assert vector.note_starts(place, earlier) == earlier
    assert vector.note_starts(place, later) == later == vector.starts(place)
    Checkpoint(place.checkpoint).plan(0, delta_offset(5, 0, snapshot=True), None)
    assert vector.note_starts(place, latest) == later


def test_a_checkpoint_whose_beginning_or_sources_are_unknown_is_damaged(place: Place) -> None:
    checkpoint = Checkpoint(place.checkpoint)
    checkpoint.plan(0, delta_offset(1), delta_offset(1))
    with pytest.raises(CheckpointCorruptError, match=r"v1-0\.starts\.json, which has the versions .* is missing"):
        vector.of_batch(place, 0, TABLES)
    with pytest.raises(CheckpointCorruptError, match="is missing"):
        vector.note_starts(place, {"silver.trips": 8})
    with pytest.raises(CheckpointCorruptError, match="positions of 2 sources, not of 3"):
        vector.of_batch(place, 0, (*TABLES, "silver.carriers"))
