"""The lag of a flow behind its landing folder."""

from __future__ import annotations

import os
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from tests.spark_files import add
from tests.status.sample_project import BRONZE, SampleProject
from tidegate import json_codec
from tidegate.checkpoints.pending_jobs import WINDOWS
from tidegate.errors import CheckpointCorruptError, NotDeliveredError
from tidegate.lake.place import FlowPlace
from tidegate.spec import FileSource, Intervals


def test_an_empty_landing_folder_is_no_work(project: SampleProject) -> None:
    lag = project.measure(BRONZE)
    backlog = lag.backlog
    assert (lag.source_kind, lag.has_work, backlog.behind, backlog.rows, backlog.size, lag.committed is None) == (
        "files",
        False,
        0,
        0,
        0,
        True,
    )
    assert lag.backlog.position == "nothing read"
    assert lag.reason == "nothing new in trips"


def test_a_landing_folder_that_does_not_exist_yet_is_no_work_and_no_error(project: SampleProject) -> None:
    project.landing.delete_folder()
    lag = project.measure(BRONZE)
    backlog = lag.backlog
    assert (lag.has_work, backlog.behind, backlog.rows, lag.committed is None, backlog.position) == (
        False,
        0,
        0,
        True,
        "nothing read",
    )
    assert lag.reason == f"not delivered yet: landing folder {project.landing} does not exist"
    plan = project.plan()
    assert (plan.work, plan.errors) == (False, ())


def test_days_of_a_landing_folder_that_does_not_exist_yet_are_no_error(project: SampleProject) -> None:
    project.landing.delete_folder()
    days = Intervals("%Y-%m-%d", files=1)
    lag = project.measure(
        replace(BRONZE, source=FileSource(path="trips", format="csv", schema="a INT", intervals=days))
    )
    assert lag.completeness is not None
    assert lag.completeness.intervals == ()


@pytest.mark.parametrize("left", ["checkpoint", "table"])
def test_a_landing_folder_that_is_gone_after_files_were_read_is_an_error_that_says_what_to_do(
    project: SampleProject, left: str
) -> None:
    if left == "checkpoint":
        project.land("a.csv")
        project.read_everything(project.checkpoint("bronze"))
        (project.landing / "a.csv").delete()
    else:
        project.table("bronze.trips").commit(add("a", 3))
    project.landing.delete_folder()
    with pytest.raises(NotDeliveredError, match="does not exist; create it"):
        project.measure(BRONZE)
    assert [type(error) for error in project.plan().errors] == [NotDeliveredError]


def test_files_in_no_committed_batch_are_behind_with_exact_bytes_and_estimated_rows(project: SampleProject) -> None:
    project.land("a.csv")
    project.read_everything(project.checkpoint("bronze"))
    assert project.measure(BRONZE).has_work is False
    project.land("b?[1].csv", "a\n" + "1\n" * 100)
    project.land("c.tmp")
    lag = project.measure(BRONZE)
    backlog = lag.backlog
    assert (backlog.behind, backlog.size, backlog.size_exact, backlog.rows, backlog.rows_exact) == (
        1,
        202,
        True,
        100,
        False,
    )
    assert (lag.has_work, lag.backlog.ignored, lag.committed is None) == (True, 1, False)
    unread = "not read: 1 file in the folder that does not fit *.{csv,csv.gz,csv.bz2}"
    assert (lag.reason, lag.backlog.ahead) == (f"1 new file in trips; {unread}", "b?[1].csv")
    assert lag.backlog.position == "1 file read"


def test_a_planned_batch_that_was_not_committed_is_work(project: SampleProject) -> None:
    checkpoint = project.checkpoint("bronze")
    project.land("a.csv")
    project.read_everything(checkpoint)
    path = project.land("b.csv")
    checkpoint.list_files(1, {str(path): path.stat().st_mtime_ns // 1_000_000})
    checkpoint.plan(1, {"logOffset": 1})
    lag = project.measure(BRONZE)
    assert (lag.has_work, lag.progress.pending_batch, lag.backlog.behind) == (True, 1, 1)
    assert lag.reason == "batch 1 was planned and not committed; 1 new file in trips"
    path.unlink()
    lag = project.measure(BRONZE)
    assert (lag.has_work, lag.backlog.behind) == (True, 0), "the batch is still pending although its file was deleted"


def test_files_that_were_listed_and_not_planned_are_work_even_if_they_were_deleted(project: SampleProject) -> None:
    checkpoint = project.checkpoint("bronze")
    project.land("a.csv")
    project.read_everything(checkpoint)
    checkpoint.list_files(1, {str(project.landing / "gone.csv"): 1})
    lag = project.measure(BRONZE)
    assert (lag.has_work, lag.backlog.behind) == (True, 0)


def test_a_file_that_changed_after_it_was_read_is_reported_but_is_no_work(project: SampleProject) -> None:
    path = project.land("a.csv")
    project.read_everything(project.checkpoint("bronze"))
    path.write_text("a\n1\n2\n3\n")
    os.utime(path, ns=(0, path.stat().st_mtime_ns + 5_000_000_000))
    lag = project.measure(BRONZE)
    backlog = lag.backlog
    assert (lag.has_work, backlog.rewritten, backlog.behind) == (False, 1, 0)
    assert "1 file changed after being read" in lag.reason


PIECE = {"number": 0, "window": {}, "planned_at_ms": 0, "requested_by": "ada"}


def test_a_changed_file_that_a_reingest_has_read_is_not_reported_until_it_changes_again(project: SampleProject) -> None:
    path = project.land("a.csv")
    project.read_everything(project.checkpoint("bronze"))
    os.utime(path, ns=(0, path.stat().st_mtime_ns + 5_000_000_000))
    files = {str(path): path.stat().st_mtime_ns // 1_000_000}
    folder = WINDOWS.folder(FlowPlace(project.layout, "trips", "bronze"))
    for done, rewritten in ((False, 1), (True, 0)):
        json_codec.write(folder / "0.json", {**PIECE, "files": files, "done": done})
        assert project.measure(BRONZE).backlog.rewritten == rewritten
    os.utime(path, ns=(0, path.stat().st_mtime_ns + 5_000_000_000))
    assert project.measure(BRONZE).backlog.rewritten == 1


@pytest.mark.parametrize("year", [1970, 1995, 2040, 2999])
def test_an_unread_file_is_pending_whatever_its_modification_time(project: SampleProject, year: int) -> None:
    project.land("a.csv")
    project.read_everything(project.checkpoint("bronze"))
    path = project.land("odd.csv")
    os.utime(path, (0, datetime(year, 1, 2, tzinfo=UTC).timestamp()))
    lag = project.measure(BRONZE)
    backlog = lag.backlog
    assert (lag.has_work, backlog.behind, backlog.ignored, backlog.ahead) == (True, 1, 0, "odd.csv")


def test_a_read_file_with_a_future_modification_time_hides_no_later_file(project: SampleProject) -> None:
    path = project.land("a.csv")
    os.utime(path, (0, datetime(2040, 1, 1, tzinfo=UTC).timestamp()))
    project.read_everything(project.checkpoint("bronze"))
    project.land("b.csv")
    lag = project.measure(BRONZE)
    backlog = lag.backlog
    assert (lag.has_work, backlog.behind, backlog.ahead) == (True, 1, "b.csv")


def test_a_pipe_in_the_landing_folder_is_reported_and_not_opened(project: SampleProject) -> None:
    project.land("a.csv")
    os.mkfifo(project.landing / "pipe.csv")
    lag = project.measure(BRONZE)
    backlog = lag.backlog
    assert (backlog.behind, backlog.ahead) == (1, "a.csv")
    assert "not read: 1 in the folder that is no regular file (a pipe, a socket or a device)" in lag.reason


def test_a_new_version_reads_everything_again(project: SampleProject) -> None:
    project.land("a.csv")
    project.read_everything(project.checkpoint("bronze"))
    lag = project.measure(replace(BRONZE, checkpoint_version=2))
    assert (lag.has_work, lag.committed is None, lag.backlog.behind) == (True, True, 1)


def test_a_corrupt_checkpoint_is_not_mistaken_for_an_empty_one(project: SampleProject) -> None:
    project.land("a.csv")
    checkpoint = project.checkpoint("bronze")
    project.read_everything(checkpoint)
    (checkpoint.path / "offsets" / "0").write_text("")
    plan = project.plan()
    assert (plan.work, [type(error) for error in plan.errors]) == (False, [CheckpointCorruptError])
