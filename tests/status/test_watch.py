"""What pages know of where flows stand: the last reading at once, a fresh one behind it, today's declarations."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from datetime import UTC, date, datetime
from pathlib import Path
from types import ModuleType

import pytest

from tests.cli.project import Project, orders
from tests.patience import PATIENCE, until
from tidegate import registry
from tidegate.errors import SpecError
from tidegate.status import freshness
from tidegate.status.watch import FRESH, STALE, Watch, declarations


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Project]:
    """A project whose pipelines are those of this process."""
    made = Project.make(tmp_path / "project")
    monkeypatch.syspath_prepend(str(made.folder))
    real = _take_pipelines()
    yield made
    _take_pipelines()
    sys.modules.update(real)


def _take_pipelines() -> dict[str, ModuleType]:
    names = [name for name in sys.modules if name.partition(".")[0] == "pipelines"]
    return {name: sys.modules.pop(name) for name in names}


def test_a_reading_is_kept_while_it_is_fresh_and_renewed_behind_the_next_look(project: Project) -> None:
    project.declare(orders())
    project.land("0.csv", "order_id,amount\nA-1,1.0\n")
    now = 1000.0
    watch = Watch(project.environment, clock=lambda: now)
    first = watch.reading()
    assert first.of("orders")[0].standing.place == "orders/bronze"
    assert first.of("orders")[0].standing.state == "behind"
    now += FRESH / 2
    assert watch.reading() is first
    now += FRESH
    assert watch.reading() is first, "nobody waits for the next one"
    until(lambda: watch.reading() is not first, "the renewal")
    assert watch.reading().at == now


def test_a_look_after_a_long_time_waits_a_little_for_the_renewal(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidegate.status.watch.WAIT", PATIENCE)
    project.declare(orders())
    now = 1000.0
    watch = Watch(project.environment, clock=lambda: now)
    watch.reading()
    now += STALE + 1
    assert watch.reading().at == now


def test_a_renewal_that_takes_long_is_not_waited_for_again_and_again(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.declare(orders())
    now = 1000.0
    watch = Watch(project.environment, clock=lambda: now)
    first = watch.reading()
    go_on = threading.Event()
    monkeypatch.setattr(watch, "_renew", go_on.wait)
    now += STALE + 1
    assert watch.reading() is first
    # Whoever waited once more would be ended by pytest.
    monkeypatch.setattr("tidegate.status.watch.WAIT", 3600.0)
    assert [watch.reading() for _ in range(4)] == [first] * 4
    go_on.set()


def test_how_new_the_data_is_is_read_again_only_when_the_table_has_changed(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.declare(orders())
    moment = datetime(2026, 1, 4, 7, tzinfo=UTC)
    project.table("bronze.orders", [{"order_id": "A", "_ingested_at": moment}])
    project.table("silver.orders", [{"order_id": "A", "day": date(2026, 1, 3)}])
    watch = Watch(project.environment)
    bronze, silver, gold = watch._read().of("orders")
    assert (bronze.newest, bronze.newest_is_event) == (moment, False)
    assert (silver.newest, silver.newest_is_event) == (datetime(2026, 1, 3, tzinfo=UTC), True)
    assert (gold.newest, gold.newest_is_event) == (None, False), "there is no table yet"
    asked: list[Path] = []
    newest = freshness.newest
    monkeypatch.setattr(freshness, "newest", lambda path, *rest: asked.append(path) or newest(path, *rest))
    assert watch._read().of("orders")[0].newest == moment
    assert asked == []
    project.table("silver.orders", [{"order_id": "B", "day": date(2026, 1, 5)}])
    assert watch._read().of("orders")[1].newest == datetime(2026, 1, 5, tzinfo=UTC)
    assert [path.name for path in asked] == ["orders"]


def test_an_edited_declaration_is_seen_without_a_restart(project: Project) -> None:
    project.declare(orders())
    assert registry.reload("orders").flow("silver").checkpoint_version == 1
    project.declare(orders(version=2))
    path = project.folder / "pipelines/orders.py"
    os.utime(path, ns=(path.stat().st_atime_ns, path.stat().st_mtime_ns + 1))
    assert registry.reload("orders").flow("silver").checkpoint_version == 2


def test_a_declaration_that_does_not_load_hides_no_other(project: Project) -> None:
    project.declare(orders())
    (project.folder / "pipelines/broken.py").write_text("pipeline = (")
    found = declarations()
    assert isinstance(found["broken"], SpecError)
    assert registry.load("orders") == found["orders"]
    states = {seen.standing.pipeline: seen.standing.state for seen in Watch(project.environment).reading().flows}
    assert states["broken"] == "error"
