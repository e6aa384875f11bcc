"""How far a flow is behind its landing folder."""

from __future__ import annotations

import os
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from tests.status.place import BRONZE, Place
from tidegate.errors import CheckpointCorruptError, SourceError


def test_an_empty_landing_folder_is_no_work(place: Place) -> None:
    told = place.measure(BRONZE)
    assert (told.kind, told.has_work, told.behind, told.rows, told.bytes, told.first) == ("files", False, 0, 0, 0, True)
    assert told.position == "nothing read"
    assert told.reason == "nothing new in trips"


def test_a_missing_landing_folder_says_what_to_do(place: Place) -> None:
    place.landing.rmdir()
    with pytest.raises(SourceError, match="create it"):
        place.measure(BRONZE)
    plan = place.plan()
    assert (plan.work, [type(error) for error in plan.errors]) == (False, [SourceError])


def test_files_that_no_committed_batch_listed_are_behind_with_exact_bytes_and_estimated_rows(place: Place) -> None:
    place.land("a.csv")
    place.read_everything(place.checkpoint("bronze"))
    assert place.measure(BRONZE).has_work is False
    place.land("b?[1].csv", "a\n" + "1\n" * 100)
    place.land("c.tmp")
    told = place.measure(BRONZE)
    assert (told.behind, told.bytes, told.bytes_exact, told.rows, told.rows_exact) == (1, 202, True, 100, False)
    assert (told.has_work, told.ignored, told.first) == (True, 1, False)
    unread = "not read: 1 file in the folder that does not fit *.{csv,csv.gz,csv.bz2}"
    assert (told.reason, told.ahead) == (f"1 new file in trips; {unread}", "b?[1].csv")
    assert told.position == "1 file read"


def test_a_batch_that_was_planned_and_not_committed_is_still_to_do(place: Place) -> None:
    checkpoint = place.checkpoint("bronze")
    place.land("a.csv")
    place.read_everything(checkpoint)
    path = place.land("b.csv")
    checkpoint.list_files(1, {str(path): path.stat().st_mtime_ns // 1_000_000})
    checkpoint.plan(1, {"logOffset": 1})
    told = place.measure(BRONZE)
    assert (told.has_work, told.pending_batch, told.behind) == (True, 1, 1)
    assert told.reason == "batch 1 was planned and not committed; 1 new file in trips"
    path.unlink()
    told = place.measure(BRONZE)
    assert (told.has_work, told.behind) == (True, 0), "a file that vanished meanwhile does not hide the batch"


def test_files_that_were_listed_and_never_planned_are_work_even_when_they_vanished(place: Place) -> None:
    checkpoint = place.checkpoint("bronze")
    place.land("a.csv")
    place.read_everything(checkpoint)
    checkpoint.list_files(1, {str(place.landing / "gone.csv"): 1})
    told = place.measure(BRONZE)
    assert (told.has_work, told.behind) == (True, 0)


def test_a_file_changed_after_it_was_read_is_told_and_is_no_work(place: Place) -> None:
    path = place.land("a.csv")
    place.read_everything(place.checkpoint("bronze"))
    path.write_text("a\n1\n2\n3\n")
    os.utime(path, ns=(0, path.stat().st_mtime_ns + 5_000_000_000))
    told = place.measure(BRONZE)
    assert (told.has_work, told.rewritten, told.behind) == (False, 1, 0)
    assert "1 file changed after being read" in told.reason


@pytest.mark.parametrize("year", [1970, 1995, 2040, 2999])
def test_a_file_that_was_not_read_is_pending_whatever_its_clock_says(place: Place, year: int) -> None:
    place.land("a.csv")
    place.read_everything(place.checkpoint("bronze"))
    path = place.land("odd.csv")
    os.utime(path, (0, datetime(year, 1, 2, tzinfo=UTC).timestamp()))
    lag = place.measure(BRONZE)
    assert (lag.has_work, lag.behind, lag.ignored, lag.ahead) == (True, 1, 0, "odd.csv")


def test_a_file_from_the_future_that_was_read_hides_no_later_one(place: Place) -> None:
    path = place.land("a.csv")
    os.utime(path, (0, datetime(2040, 1, 1, tzinfo=UTC).timestamp()))
    place.read_everything(place.checkpoint("bronze"))
    place.land("b.csv")
    lag = place.measure(BRONZE)
    assert (lag.has_work, lag.behind, lag.ahead) == (True, 1, "b.csv")


def test_a_pipe_in_the_landing_folder_is_told_and_not_opened(place: Place) -> None:
    place.land("a.csv")
    os.mkfifo(place.landing / "pipe.csv")
    lag = place.measure(BRONZE)
    assert (lag.behind, lag.ahead) == (1, "a.csv")
    assert "not read: 1 in the folder that is no regular file (a pipe, a socket or a device)" in lag.reason


def test_a_new_version_reads_everything_again(place: Place) -> None:
    place.land("a.csv")
    place.read_everything(place.checkpoint("bronze"))
    told = place.measure(replace(BRONZE, checkpoint_version=2))
    assert (told.has_work, told.first, told.behind) == (True, True, 1)


def test_a_torn_checkpoint_is_never_taken_for_an_empty_one(place: Place) -> None:
    place.land("a.csv")
    checkpoint = place.checkpoint("bronze")
    place.read_everything(checkpoint)
    (checkpoint.path / "offsets" / "0").write_text("")
    plan = place.plan()
    assert (plan.work, [type(error) for error in plan.errors]) == (False, [CheckpointCorruptError])
