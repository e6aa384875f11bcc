"""Estimates of durations from earlier batches of a flow."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.cli.project import Project, orders
from tidegate.planning.estimate import Estimate, estimate, fit
from tidegate.report import BatchRecord


def test_a_fixed_duration_and_a_duration_per_row_are_fitted() -> None:
    small, large = (900, 5.0), (90_000, 5.9)
    seconds, at_most = fit([small, large, small], 1_000_000)
    assert seconds == pytest.approx(15.1, abs=0.2), "not 5,556 s, which 180 rows per second would need"
    assert not at_most


def test_the_fit_is_robust_against_one_slow_batch() -> None:
    points = [(1000 * number, 5.0 + 0.1 * number) for number in range(1, 20)]
    assert fit([*points, (1000, 300.0)], 10_000) == pytest.approx((6.0, False), abs=0.3)


def test_batches_of_one_size_give_an_upper_bound() -> None:
    assert fit([(900, 5.0), (901, 5.2)], 450) == (5.2, False)
    assert fit([(900, 5.0), (901, 5.2)], 1802) == (10.4, True)
    assert fit([(0, 3.0)], 0) == (3.0, False)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project.make(tmp_path / "project")


def record(
    project: Project, batch: int, kind: Any, read: int, seconds: float, app_id: str = "orders/silver/v1/0"
) -> None:
    line = BatchRecord(flow="silver", batch_id=batch, app_id=app_id, kind=kind, read=read, seconds=seconds)
    project.record(orders(), line)


def test_earlier_runs_of_the_same_mode_are_preferred_to_increments(project: Project) -> None:
    assert estimate(project.layout, "orders", "silver", "backfill", 5000, 100) is None, "the ledger is empty"
    record(project, 0, "upsert", 10, 4.0)
    record(project, 1, "upsert", 1000, 5.0)
    by_increments = estimate(project.layout, "orders", "silver", "backfill", 5000, 100)
    assert by_increments == Estimate(seconds=pytest.approx(9.0, abs=0.1), at_most=False, alike=False)
    assert estimate(project.layout, "orders", "silver", "incremental", None, None) is None

    record(project, 2, "backfill", 100, 20.0, app_id="orders/silver/v1/0/window")
    assert estimate(project.layout, "orders", "silver", "backfill", 5000, 100) == Estimate(
        seconds=20.0, at_most=False, alike=True
    )
    assert estimate(project.layout, "orders", "silver", "incremental", 10, None) == Estimate(
        seconds=4.0, at_most=False, alike=False
    )
    record(project, 3, "swap", 0, 2.0)
    refresh = estimate(project.layout, "orders", "silver", "full_refresh", 1110, None)
    assert refresh is not None
    assert refresh.alike


def test_pieces_of_a_reingest_are_used_for_reingests_only(project: Project) -> None:
    record(project, 0, "append", 100, 4.0)
    record(project, 0, "append", 100, 30.0, app_id="orders/silver/v1/0/window")
    assert estimate(project.layout, "orders", "silver", "incremental", 100, None) == Estimate(
        seconds=4.0, at_most=False, alike=False
    )
    assert estimate(project.layout, "orders", "silver", "reingest", 100, None) == Estimate(
        seconds=30.0, at_most=False, alike=True
    )
