"""Estimates of durations from earlier batches of a flow."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.cli.project import Project, orders
from tidegate.lake.place import FlowPlace
from tidegate.planning.estimate import Estimate, estimate
from tidegate.reports.ledger_line import LedgerLine

pytestmark = pytest.mark.slow


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project.make(tmp_path / "project")


def record(
    project: Project, batch: int, kind: Any, read: int, seconds: float, app_id: str = "orders/silver/v1/0"
) -> None:
    line = LedgerLine(flow="silver", batch_id=batch, app_id=app_id, kind=kind, read=read, seconds=seconds)
    project.record(orders(), line)


def test_the_estimate_is_the_median_of_earlier_batches_whatever_their_rows(project: Project) -> None:
    for batch, (read, seconds) in enumerate([(900, 5.0), (90_000, 7.0), (1000, 300.0)]):
        record(project, batch, "upsert", read, seconds)
    for rows in (0, 10, 90_000):
        assert estimate(FlowPlace(project.layout, "orders", "silver"), "incremental", rows) == Estimate(
            seconds=7.0, source="increments"
        )
    assert estimate(FlowPlace(project.layout, "orders", "silver"), "incremental", None) is None


def test_it_is_scaled_only_beyond_the_largest_earlier_batch(project: Project) -> None:
    record(project, 0, "upsert", 900, 5.0)
    assert estimate(FlowPlace(project.layout, "orders", "silver"), "incremental", 1800) == Estimate(
        seconds=10.0, source="increments"
    )


def test_a_backfill_is_estimated_from_backfills_and_before_the_first_from_twice_the_increments(
    project: Project,
) -> None:
    assert estimate(FlowPlace(project.layout, "orders", "silver"), "backfill", 100) is None, "the ledger is empty"
    record(project, 0, "upsert", 100, 4.0)
    first = estimate(FlowPlace(project.layout, "orders", "silver"), "backfill", 100)
    assert first == Estimate(seconds=8.0, source="increments, times 2")
    assert first.summary() == "about 8 s by earlier increments, times 2"

    record(project, 2, "backfill", 100, 20.0, app_id="orders/silver/v1/0/window")
    assert estimate(FlowPlace(project.layout, "orders", "silver"), "backfill", 100) == Estimate(
        seconds=20.0, source="runs of the same mode"
    )
    assert estimate(FlowPlace(project.layout, "orders", "silver"), "incremental", 10) == Estimate(
        seconds=4.0, source="increments"
    )


def test_a_full_refresh_is_estimated_from_all_batches_of_a_refresh(project: Project) -> None:
    record(project, 0, "upsert", 10, 4.0)
    record(project, 1, "upsert", 1000, 5.0)
    assert estimate(FlowPlace(project.layout, "orders", "silver"), "full_refresh", 1010) == Estimate(
        seconds=4.5, source="increments"
    )
    record(project, 2, "swap", 0, 2.0)
    assert estimate(FlowPlace(project.layout, "orders", "silver"), "full_refresh", 1010) == Estimate(
        seconds=11.0, source="runs of the same mode"
    )


def test_pieces_of_a_reingest_are_used_for_reingests_only(project: Project) -> None:
    record(project, 0, "append", 100, 4.0)
    record(project, 0, "append", 100, 30.0, app_id="orders/silver/v1/0/window")
    assert estimate(FlowPlace(project.layout, "orders", "silver"), "incremental", 100) == Estimate(
        seconds=4.0, source="increments"
    )
    assert estimate(FlowPlace(project.layout, "orders", "silver"), "reingest", 100) == Estimate(
        seconds=30.0, source="runs of the same mode"
    )
