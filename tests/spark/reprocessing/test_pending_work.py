"""Half-written backfills where the next run has another checkpoint. No JVM: the transactions of the tables are given."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from tests.spark import job as orders
from tidegate.checkpoints import pending_jobs
from tidegate.checkpoints.pending_jobs import UNDO, WINDOWS, PendingReplay, PendingUndo, PendingWindow
from tidegate.errors import CheckpointCorruptError
from tidegate.lake.layout import Layout
from tidegate.lake.place import FlowPlace
from tidegate.reports.ledger_line import LedgerLine
from tidegate.spark import flow
from tidegate.spark.batch import ledger, micro_batch
from tidegate.spark.job import Job
from tidegate.spark.lake import tables
from tidegate.spark.reprocessing import backfill, pending_work, reingest, replay, undo
from tidegate.store import Address

NO_SPARK: Any = None
APP_ID = "orders/silver/v1/0/window"

KEPT_NOTES = Path(__file__).parents[2] / "checkpoints" / "notes"
"""A lake with one note of each kind (`tests/checkpoints/test_notes.py`)."""


def silver(folder: Path, **more: Any) -> Job:
    return orders.job_of(NO_SPARK, folder, orders.SILVER, **more)


def has_written(monkeypatch: pytest.MonkeyPatch, *paths: Path | Address) -> None:
    """These tables have backfill 0 of the first checkpoint."""
    monkeypatch.setattr(tables, "transactions", lambda _spark, path: {APP_ID: 0} if path in paths else {})


@pytest.mark.parametrize("table", ["live", "quarantine"])
def test_a_refresh_opens_when_the_half_written_backfill_of_its_checkpoint_is_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, table: str
) -> None:
    job = silver(tmp_path, mode="full_refresh", request_id="f1")
    orders.plan_batch(job, 0)
    pending_work.write(job, orders.backfill(0))
    has_written(monkeypatch, orders.written(job, table))
    finished = []

    def run(of: Job, pending: backfill.Backfill) -> None:
        finished.append((of.place.refresh, [path.name for path in Path(job.place.checkpoint.parent).iterdir()]))
        pending_work.write(of, dataclasses.replace(pending, done=True))

    monkeypatch.setattr(backfill, "_run", run)

    refreshed = flow.refresh_once(job)

    assert finished == [(0, ["0"])]
    assert refreshed.place.refresh == 1
    assert flow.refresh_once(refreshed).place.refresh == 1
    assert len(finished) == 1


def test_a_refresh_does_not_run_a_backfill_that_has_written_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = silver(tmp_path, mode="full_refresh", request_id="f1")
    orders.plan_batch(job, 0)
    pending_work.write(job, orders.backfill(0))
    has_written(monkeypatch)

    refreshed = flow.refresh_once(job)
    pending_work.settle(refreshed, backfill.Backfill)

    assert (refreshed.place.refresh, pending_work.numbers(job), refreshed.run.report.notes) == (1, [], [])


@pytest.mark.parametrize(("table", "lines"), [("live", [APP_ID]), ("quarantine", [])])
def test_a_new_version_drops_a_half_written_backfill_records_what_the_table_has_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, table: str, lines: list[str]
) -> None:
    pending_work.write(silver(tmp_path), orders.backfill(0))
    newer = silver(tmp_path, version=2)
    has_written(monkeypatch, orders.written(newer, table))
    recorded = []

    def from_commit(job: Job, number: int) -> LedgerLine:
        return LedgerLine(flow="silver", batch_id=number, app_id=job.app_id, kind="backfill")

    monkeypatch.setattr(tables, "version", lambda *_, **__: 7)
    monkeypatch.setattr(tables, "version_of", lambda *_, **__: 5)
    monkeypatch.setattr(micro_batch, "recorded_in_target", from_commit)
    monkeypatch.setattr(ledger, "record_batch", lambda job, line: recorded.append((job.place.version, line.app_id)))

    pending_work.settle(newer, backfill.Backfill)

    assert recorded == [(1, each) for each in lines]
    assert pending_work.numbers(newer) == []
    assert newer.run.report.notes == [
        "backfill 0 of checkpoint v1/0 was half-written and is not finished: the new checkpoint reads its rows again"
    ]


@pytest.mark.parametrize(("flow", "kind"), [("silver", backfill.Backfill), ("bronze", reingest.Piece)])
def test_what_an_earlier_release_stored_is_read_and_written_with_the_same_bytes(
    flow: str, kind: type[pending_work.PendingWork], tmp_path: Path
) -> None:
    kept, copied = (FlowPlace(Layout.local(lake, lake), "orders", flow) for lake in (KEPT_NOTES, tmp_path))
    stored = WINDOWS.read_as(kept, 0, kind)
    assert stored is not None
    WINDOWS.write(copied, 0, stored)
    assert Path(WINDOWS.path(copied, 0)).read_bytes() == Path(WINDOWS.path(kept, 0)).read_bytes()


def test_an_undo_of_an_earlier_release_is_read_and_written_with_the_same_bytes(tmp_path: Path) -> None:
    kept, copied = (FlowPlace(Layout.local(lake, lake), "orders", "silver") for lake in (KEPT_NOTES, tmp_path))
    stored = UNDO.read_as(kept, undo.Undo)
    assert stored is not None
    UNDO.write(copied, stored)
    assert Path(UNDO.path(copied)).read_bytes() == Path(UNDO.path(kept)).read_bytes()


WORK: dict[str, pending_work.NotedWork] = {
    "backfill": orders.backfill(3),
    "reingest": reingest.Piece(number=3, window={}, planned_at_ms=0, requested_by="ada"),
    "replay": replay.Replay(by="ada", number=3, started_ms=0, entries=()),
    "undo": undo.Undo(number=3, undoes="r", commits=(), planned_at_ms=0, run_id="u", requested_by="ada"),
}
"""One of each kind."""
BEGUN = {(work, table) for work in WORK for table in ("quarantine", "late", "live")} - {("replay", "quarantine")}
"""By which tables a work can only be finished. A replay that has only marked its own entries releases them."""


@pytest.mark.parametrize("table", ["quarantine", "late", "live"])
@pytest.mark.parametrize("name", WORK)
def test_a_job_is_finished_if_a_table_has_its_number_and_else_dropped(
    name: str, table: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work, job, done = WORK[name], silver(tmp_path), []
    monkeypatch.setattr(type(work), "pending", classmethod(lambda *_, **__: work))
    monkeypatch.setattr(type(work), "finish", lambda *_, **__: done.append("finish"))
    monkeypatch.setattr(type(work), "drop", lambda *_, **__: done.append("drop"))
    own, path = work.app_id(job.place), orders.written(job, table)
    for written in ({}, {own: 2}, {"orders/silver/v1/0": 3}, {own: 3}):
        monkeypatch.setattr(tables, "transactions", lambda _, at, numbers=written: numbers if at == path else {})
        pending_work.settle(job, type(work))
    assert done == ["drop", "drop", "drop", "finish" if (name, table) in BEGUN else "drop"]

    monkeypatch.setattr(tables, "transactions", lambda _, at: {own: 4} if at == path else {})
    with pytest.raises(CheckpointCorruptError, match="was restored from an older copy"):
        pending_work.settle(job, type(work))


def test_a_replay_that_has_claimed_nothing_is_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = silver(tmp_path)
    pending_jobs.CLAIM.write(job.place, PendingReplay(by="ada"))
    monkeypatch.setattr(tables, "transactions", lambda *_, **__: {job.place.replays_app_id: 7})

    pending_work.settle(job, replay.Replay)

    assert (pending_jobs.read(job.place), job.run.report.notes) == ((), [])


def test_a_run_settles_every_kind_of_job_and_each_has_one_recovery(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settled: set[type[pending_work.NotedWork]] = set()
    monkeypatch.setattr(pending_work, "settle", lambda _, *kinds: settled.update(kinds))
    for each in (orders.SILVER, orders.BRONZE):
        job = orders.job_of(NO_SPARK, tmp_path / each.name, each)
        before = set(settled)
        flow._finish_interrupted(job, job)
        assert settled == before, "nothing is noted"
        pending_jobs.CLAIM.write(job.place, PendingReplay(by="ada"))
        flow._finish_interrupted(job, job)
    noted = {kind for kind in pending_jobs.PendingJob.__subclasses__() if not issubclass(kind, pending_work.NotedWork)}
    assert settled == {type(work) for work in WORK.values()}
    assert {kind for kind in noted if any(issubclass(each, kind) for each in settled)} == noted
    assert noted == {PendingWindow, PendingReplay, PendingUndo}


@pytest.mark.parametrize(
    ("of", "kinds"), [("silver", [PendingUndo, PendingReplay]), ("bronze", [PendingWindow]), ("gold", [])]
)
def test_the_jobs_that_an_earlier_release_left_are_read_in_the_order_in_which_they_are_settled(
    of: str, kinds: list[type[pending_jobs.PendingJob]]
) -> None:
    works = pending_jobs.read(FlowPlace(Layout.local(KEPT_NOTES, KEPT_NOTES), "orders", of))
    assert [type(work) for work in works] == kinds
