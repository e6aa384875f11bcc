"""Micro-batches of files keep both bounds, count and bytes; without a file that is in no committed batch there is none."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.spark_files import Checkpoint
from tidegate.checkpoints import progress
from tidegate.lake.layout import Layout
from tidegate.lake.place import Place
from tidegate.probes import files
from tidegate.spark.intake import file_stream
from tidegate.spark.intake.file_stream import trigger_option
from tidegate.spec import FileSource

pytestmark = pytest.mark.slow


def batches(sizes: list[int], option: str, value: int) -> list[list[int]]:
    """Divide files into batches like Spark's file source: up to the bound, but at least one file."""
    result: list[list[int]] = [[]]
    for size in sizes:
        full = len(result[-1]) >= value if option == "maxFilesPerTrigger" else sum(result[-1]) + size > value
        if result[-1] and full:
            result.append([])
        result[-1].append(size)
    return result


def test_a_small_backlog_is_bounded_by_count_only() -> None:
    assert trigger_option([5, 5], 1000, 100) == ("maxFilesPerTrigger", 1000)
    assert trigger_option([], 1000, 100) == ("maxFilesPerTrigger", 1000)


def test_generated_backlogs_keep_both_bounds_and_one_large_file_does_not_make_all_batches_small() -> None:
    rng = random.Random(11)
    options = set()
    for _ in range(2000):
        sizes = [rng.choice([1, 10, rng.randrange(1, 60)]) for _ in range(rng.randrange(1, 200))]
        option, value = trigger_option(sizes, 20, 100)
        options.add(option)
        for batch in batches(sizes, option, value):
            assert len(batch) <= 20
            assert sum(batch) <= 100
    assert options == {"maxFilesPerTrigger", "maxBytesPerTrigger"}
    option, value = trigger_option([1] * 500 + [10_000] + [1] * 500, 50, 100)
    assert max(len(batch) for batch in batches([1] * 500, option, value)) > 20


def _bound(place: Place, source: FileSource) -> tuple[str, int] | None:
    """The bound of what is landed now."""
    landed = files.list_files(place.layout.landing(source.path), source.glob).files
    return file_stream._bound(place, source, progress.source_files(place.checkpoint), landed)


def test_a_query_has_no_batch_if_each_listed_file_is_in_a_committed_one(tmp_path: Path) -> None:
    place = Place(Layout.local(tmp_path / "lake", tmp_path / "landing"), "orders", "bronze", 1, 0)
    source, made = FileSource(path="orders", format="csv", schema="id INT"), Checkpoint(place.checkpoint)
    bound, landed = ("maxFilesPerTrigger", source.max_files_per_trigger), tmp_path / "landing" / "orders" / "a.csv"
    landed.parent.mkdir(parents=True)
    assert _bound(place, source) is None, "none landed yet"
    landed.write_text("id\n1\n")
    assert _bound(place, source) == bound
    made.list_files(0, {str(landed): 1})
    landed.unlink()
    assert _bound(place, source) == bound, "the stream has listed it, and a crash came before its batch was planned"
    made.plan(0, {"logOffset": 0})
    assert _bound(place, source) == bound
    made.commit(0)
    assert _bound(place, source) is None
    made.list_files(1, {"/moved/b.csv": 1})
    assert _bound(place, source) == bound
