"""The page about scale has the numbers of its results, and the rules of its arithmetic are those of small examples."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from benchmarks.scale import arithmetic, page
from benchmarks.scale.bucket_project import bucket_project
from tests.spark_files import Checkpoint
from tests.status.sample_project import BRONZE, SampleProject
from tidegate.checkpoints import progress
from tidegate.checkpoints.progress import ListedFile
from tidegate.ops import compaction, store
from tidegate.probes import files
from tidegate.probes.files import LandedFile
from tidegate.store import Address


def test_the_page_and_its_picture_are_those_of_the_results() -> None:
    measured = page.results()
    assert page.PAGE.read_text(encoding="utf-8") == page.page(measured), "run `python -m benchmarks.scale page`"
    assert page.PICTURE.read_text(encoding="utf-8") == page.picture(measured), "run `python -m benchmarks.scale page`"


@pytest.mark.parametrize(("keys", "requests"), [(0, 1), (1, 1), (1000, 1), (1001, 2), (10_000_000, 10_000)])
def test_a_listing_takes_a_request_for_each_thousand_keys(keys: int, requests: int) -> None:
    assert arithmetic.pages(keys) == requests


def test_a_listing_of_a_bucket_takes_the_pages_of_the_rule() -> None:
    with bucket_project() as (project, buckets):
        for number in range(2_500):
            (project.landing / f"day={number // 500}" / f"{number}.csv").put(b"a\n1\n")
        buckets.requests.clear()
        assert len(files.list_files(project.landing, "*.csv").files) == 2_500
    assert buckets.requests == [("LIST", "landing/trips/**")] * arithmetic.pages(2_500)


@pytest.mark.parametrize(("batches", "entries"), [(9, 0), (10, 10), (19, 10), (20, 30), (100, 550)])
def test_each_tenth_log_of_files_has_all_entries_before_it(batches: int, entries: int) -> None:
    assert arithmetic.rewritten_entries(batches, 1) == entries
    assert arithmetic.rewritten_entries(batches, 7) == 7 * entries


def test_a_plan_reads_each_entry_of_the_log_of_files_once(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path / "bronze" / "v1" / "0")
    listed = {batch: {f"/landing/{batch}.csv": 1} for batch in range(25)}
    checkpoint.compact(19, {batch: listed[batch] for batch in range(20)})
    for batch in range(15, 25):
        checkpoint.list_files(batch, listed[batch])
    assert len(progress.source_files(checkpoint.address)) == 25


@pytest.mark.slow
def test_a_compaction_leaves_one_file_of_each_hundred(tmp_path: Path) -> None:
    address, compacted, rewritten = Address.local(tmp_path / "table"), 0, 0
    commits, most = 27, 5
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store, "MAX_FILES", most)
        for number in range(commits):
            store.append(address, {"number": "BIGINT"}, [{"number": number}])
            made = list((tmp_path / "table").glob("compacted-*.parquet"))
            compacted, rewritten = len(made), sum(_rows(file) for file in made)
    assert compacted == arithmetic.compactions(commits, most) == 5
    # Each has one row more than the rule has, of the commit that made the file one too many.
    assert rewritten == arithmetic.compacted_bytes(commits, most, 1, compaction._SMALL_BYTES) + compacted


def test_a_large_file_is_not_compacted_again() -> None:
    assert arithmetic.compacted_bytes(401, 100, 1, 10_000) == 100 + 200 + 300 + 400
    assert arithmetic.compacted_bytes(401, 100, 1, 200) == 100 + 200 + 100 + 200


def test_slopes_and_powers() -> None:
    assert arithmetic.slope([(1, 5), (2, 7), (4, 11)]) == pytest.approx((3, 2))
    assert arithmetic.exponent((10, 1), (100, 100)) == pytest.approx(2)


def test_a_line_of_the_picture_rises_with_the_entries() -> None:
    assert page._y(1e11) < page._y(1e10) < page._y(10)
    assert math.isclose(page._x(arithmetic.MINUTES_A_YEAR), page._RIGHT)


def test_a_listed_file_has_no_dictionary_of_its_own(tmp_path: Path) -> None:
    """With ten million of them, each dictionary would be a gigabyte."""
    project = SampleProject(tmp_path)
    project.land("1.csv")
    (landed,) = files.list_files(project.landing, BRONZE.source.glob).files  # type: ignore[union-attr]
    (entry,) = project.landing.list()
    logged = ListedFile(path=landed.path, modified_ms=landed.modified_ms, log_batch=0)
    assert isinstance(landed, LandedFile)
    assert [each for each in (landed, entry, logged) if hasattr(each, "__dict__")] == []


def _rows(file: Path) -> int:
    import pyarrow.parquet

    return int(pyarrow.parquet.read_metadata(file).num_rows)
