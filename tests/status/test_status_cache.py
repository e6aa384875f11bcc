"""The cache of flow statuses: it returns the last reading, refreshes in the background, and reloads declarations."""

from __future__ import annotations

import os
import threading
from datetime import UTC, date, datetime
from typing import Any

import pytest

from tests.cli.project import Project, orders
from tests.waiting import TIMEOUT_SECONDS, wait_until
from tidegate.errors import SpecError
from tidegate.project import registry
from tidegate.project.resolution import ResolvedPipeline
from tidegate.states import status_of
from tidegate.status import freshness
from tidegate.status.reading import Reading
from tidegate.status.status_cache import FRESH, STALE, StatusCache, declarations
from tidegate.store import Address

pytestmark = pytest.mark.slow


@pytest.fixture
def project(imported_project: Project) -> Project:
    return imported_project


def test_a_fresh_reading_is_reused_and_an_old_one_is_refreshed_in_the_background(project: Project) -> None:
    project.declare(orders())
    project.land("0.csv", "order_id,amount\nA-1,1.0\n")
    now = 1000.0
    cache = StatusCache(project.environment, clock=lambda: now)
    first = cache.statuses()
    assert first.of("orders")[0].label == "orders/bronze"
    assert status_of(first.of("orders")[0]).name == "behind"
    now += FRESH / 2
    assert cache.statuses() is first
    now += FRESH
    assert cache.statuses() is first, "the call does not wait for the refresh"
    wait_until(lambda: cache.statuses() is not first, "the refresh")
    assert cache.statuses().at == now


def test_a_request_after_a_long_time_waits_briefly_for_the_refresh(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidegate.status.status_cache.WAIT", TIMEOUT_SECONDS)
    project.declare(orders())
    now = 1000.0
    cache = StatusCache(project.environment, clock=lambda: now)
    cache.statuses()
    now += STALE + 1
    assert cache.statuses().at == now


def test_several_requests_wait_only_once_for_a_slow_refresh(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    project.declare(orders())
    now = 1000.0
    cache = StatusCache(project.environment, clock=lambda: now)
    first = cache.statuses()
    release = threading.Event()
    monkeypatch.setattr(cache, "_refresh", release.wait)
    now += STALE + 1
    assert cache.statuses() is first
    # A second wait would run into pytest's timeout.
    monkeypatch.setattr("tidegate.status.status_cache.WAIT", 3600.0)
    assert [cache.statuses() for _ in range(4)] == [first] * 4
    release.set()


def test_freshness_is_only_read_again_after_the_table_has_changed(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.declare(orders())
    moment = datetime(2026, 1, 4, 7, tzinfo=UTC)
    project.table("bronze.orders", [{"order_id": "A", "_ingested_at": moment}])
    project.table("silver.orders", [{"order_id": "A", "day": date(2026, 1, 3)}])
    cache = StatusCache(project.environment)
    bronze, silver, gold = cache._read(TIMEOUT_SECONDS).of("orders")
    assert bronze.known(Reading.newest) == moment
    assert silver.known(Reading.newest) == datetime(2026, 1, 3, tzinfo=UTC)
    assert gold.known(Reading.newest) is None, "there is no table yet"
    read_paths: list[Address] = []
    newest = freshness.newest

    def read(path: Address, *rest: Any) -> Any:
        read_paths.append(path)
        return newest(path, *rest)

    monkeypatch.setattr(freshness, "newest", read)
    assert cache._read(TIMEOUT_SECONDS).of("orders")[0].known(Reading.newest) == moment
    assert read_paths == []
    project.table("silver.orders", [{"order_id": "B", "day": date(2026, 1, 5)}])
    assert cache._read(TIMEOUT_SECONDS).of("orders")[1].known(Reading.newest) == datetime(2026, 1, 5, tzinfo=UTC)
    assert [path.name for path in read_paths] == ["orders"]


def test_an_edited_declaration_is_reloaded_without_a_restart(project: Project) -> None:
    project.declare(orders())
    assert registry.reload("orders").flow("silver").checkpoint_version == 1
    project.declare(orders(version=2))
    path = project.folder / "pipelines/orders.py"
    os.utime(path, ns=(path.stat().st_atime_ns, path.stat().st_mtime_ns + 1))
    assert registry.reload("orders").flow("silver").checkpoint_version == 2


def test_a_declaration_that_does_not_load_hides_no_other_pipeline(project: Project) -> None:
    project.declare(orders())
    (project.folder / "pipelines/broken.py").write_text("pipeline = (")
    declared = declarations(project.environment)
    assert isinstance(declared["broken"], SpecError)
    assert isinstance(declared["orders"], ResolvedPipeline)
    assert declared["orders"].pipeline == registry.load("orders")
    states = {each.pipeline: status_of(each).name for each in StatusCache(project.environment).statuses().readings}
    assert states["broken"] == "error"
