"""Whether a request reads so little that C1-only compilation is faster."""

from __future__ import annotations

import secrets
from pathlib import Path

import pytest

from tests.cli.project import Project, orders
from tidegate.planning.extent import with_size
from tidegate.requests.request import RunRequest
from tidegate.status.source import Extent


@pytest.fixture
def filled(tmp_path: Path) -> Project:
    project = Project.make(tmp_path / "project")
    project.declare(orders())
    project.table("bronze.orders", [{"line": f"A-{number},1.0"} for number in range(4)])
    project.table("silver.orders", [{"order_id": "A-1"}])
    return project


def small(project: Project, **params: str) -> bool:
    return with_size(project.environment, orders(), RunRequest.check(orders(), "a run", dict(params))).small


def test_a_window_of_small_tables_is_small(filled: Project) -> None:
    assert small(filled, mode="backfill", from_date="2026-03-01", to_date="2026-03-01")
    assert small(filled, mode="full_refresh")


def test_a_window_of_a_large_table_is_not_small(filled: Project) -> None:
    filled.table("bronze.orders", [{"line": secrets.token_hex(9 * 1024 * 1024)}])
    assert not small(filled, mode="backfill", from_date="2026-03-01", to_date="2026-03-01")


def test_a_source_of_unknown_size_is_not_small(tmp_path: Path) -> None:
    project = Project.make(tmp_path / "project")
    project.declare(orders())
    assert not small(project, mode="full_refresh")
    assert not small(project, mode="reingest"), "the landing folder does not exist"


@pytest.mark.parametrize(("size", "expected"), [(1000, True), (10**12, False), (None, False)])
def test_extents_of_a_preview_are_not_measured_again(filled: Project, size: int | None, expected: bool) -> None:
    request = RunRequest.check(orders(), "a run", {"mode": "full_refresh", "flows": ["silver"]})
    completed = with_size(filled.environment, orders(), request, [Extent(what="a table", rows=None, size=size)])
    assert completed.small is expected
    assert (completed.mode, completed.flows, completed.request_id) == ("full_refresh", ("silver",), request.request_id)
