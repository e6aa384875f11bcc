"""A lake is upgraded by the migrations between its format and that of this version, also when that is killed at any write."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.lake.freeze import FROZEN
from tidegate import __version__
from tidegate.checkpoints import object_lease
from tidegate.errors import LakeVersionError, LeaseHeldError
from tidegate.lake import layout as of_layout
from tidegate.lake.layout import LAKE_FORMAT, Layout
from tidegate.ops import upgrade as upgrades
from tidegate.ops.upgrade import MIGRATIONS, LakeChange, Migration
from tidegate.store import Address, LocalStore
from tidegate.store.memory import MemoryStore

FORMAT = 3
"""Of the version of these tests."""


def _rename(layout: Layout, old: str, new: str) -> Iterator[LakeChange]:
    """Give files of pipelines another name, which takes two writes."""
    for pipeline in (layout.root / "_ops").list():
        before, after = layout.root / pipeline.key / old, layout.root / pipeline.key / new

        def make(before: Address = before, after: Address = after) -> None:
            after.put(before.read().data)
            before.delete()

        if before.exists():
            yield LakeChange(f"{pipeline.key}/{old} becomes {new}", make)


def _renames(number: int, old: str, new: str) -> Migration:
    return Migration(number, f"{old} is named {new}", lambda layout: _rename(layout, old, new))


SYNTHETIC = (_renames(2, "plans.jsonl", "results.jsonl"), _renames(3, "results.jsonl", "plan_results.jsonl"))


def is_of(version: int, migrations: tuple[Migration, ...]) -> None:
    """Let this process be one of another version."""
    of_layout.LAKE_FORMAT = version
    upgrades.MIGRATIONS = migrations


@pytest.fixture
def newer(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Makes this process one of a version with format 3."""
    monkeypatch.setattr(of_layout, "LAKE_FORMAT", LAKE_FORMAT)
    monkeypatch.setattr(upgrades, "MIGRATIONS", MIGRATIONS)
    return lambda: is_of(FORMAT, SYNTHETIC)


def lake(store: LocalStore | MemoryStore) -> Layout:
    """A lake of format 1 with two pipelines."""
    layout = Layout(Address(store), Address(store))
    (layout.marker).put(b'{"format": 1, "tidegate": "0.1.0"}\n')
    for pipeline in ("orders", "flights"):
        (layout.root / "_ops" / pipeline / "plans.jsonl").put(pipeline.encode())
    return layout


def _files(layout: Layout) -> dict[str, bytes]:
    return {each.key: (layout.root / each.key).read().data for each in (layout.root / "_ops").walk()}


UPGRADED = {f"_ops/{pipeline}/plan_results.jsonl": pipeline.encode() for pipeline in ("orders", "flights")}


def test_there_is_one_migration_for_each_format_after_the_first() -> None:
    assert [each.format for each in MIGRATIONS] == list(range(2, LAKE_FORMAT + 1))


def test_a_lake_of_this_format_needs_no_upgrade() -> None:
    layout = lake(MemoryStore())
    before = layout.marker.read().data
    assert not upgrades.plan(layout).is_needed
    assert list(upgrades.upgrade(layout, "ada", "2026-01-05")) == []
    assert layout.marker.read().data == before


def test_a_plan_says_what_changes_and_changes_nothing(newer: Callable[[], None]) -> None:
    layout = lake(MemoryStore())
    before = _files(layout)
    newer()
    with pytest.raises(
        LakeVersionError, match=r"has format 1; this Tidegate, .*, needs format 3; see with `tidegate upgrade`"
    ):
        layout.check()
    plan = upgrades.plan(layout)
    assert (plan.format, plan.target, plan.is_begun) == (1, 3, False)
    assert [each.says for each in plan.migrations] == [
        "plans.jsonl is named results.jsonl",
        "results.jsonl is named plan_results.jsonl",
    ]
    assert [each.says for each in plan.changes] == [
        "_ops/flights/plans.jsonl becomes results.jsonl",
        "_ops/orders/plans.jsonl becomes results.jsonl",
    ]
    assert _files(layout) == before


def test_an_upgrade_is_recorded_and_an_older_version_refuses_the_lake(
    newer: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    layout = lake(MemoryStore())
    newer()
    assert len(list(upgrades.upgrade(layout, "ada", "2026-01-05"))) == 4
    assert layout.check()
    assert _files(layout) == UPGRADED
    done = {"from": 1, "to": 3, "by": "ada", "at": "2026-01-05", "tidegate": __version__}
    marker = json.loads(layout.marker.read().data)
    assert marker == {"format": 3, "tidegate": __version__, "upgrades": [done]}
    is_of(LAKE_FORMAT, MIGRATIONS)
    for act in (Layout.open, Layout.check, upgrades.plan):
        with pytest.raises(
            LakeVersionError,
            match=f'reads formats up to 1; upgrade Tidegate with `pip install "tidegate>={__version__}"',
        ):
            act(layout)


def test_nothing_is_upgraded_while_a_run_is_in_progress(newer: Callable[[], None]) -> None:
    layout = lake(MemoryStore())
    newer()
    with object_lease.hold(layout, ("table:silver.orders",), what="attempt a1"):
        before = _files(layout), layout.marker.read().data
        ((resource, holder),) = upgrades.plan(layout).in_use
        assert resource == "table:silver.orders" and "attempt a1" in holder
        with pytest.raises(LeaseHeldError, match=r"silver\.orders is held by attempt a1"):
            next(upgrades.upgrade(layout, "ada", "2026-01-05"))
        assert (_files(layout), layout.marker.read().data) == before
    assert len(list(upgrades.upgrade(layout, "ada", "2026-01-05"))) == 4


def test_a_run_that_began_before_the_lake_was_closed_stops_the_upgrade(
    newer: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    layout = lake(MemoryStore())
    newer()
    calls: list[int] = []

    def later(layout: Layout) -> Iterator[tuple[str, str]]:
        calls.append(1)
        yield from [("table:silver.orders", "attempt a1")][: len(calls) - 1]

    with monkeypatch.context() as patched:
        patched.setattr(upgrades, "_holders", later)
        with pytest.raises(LeaseHeldError):
            next(upgrades.upgrade(layout, "ada", "2026-01-05"))
    assert _files(layout).keys() == {"_ops/orders/plans.jsonl", "_ops/flights/plans.jsonl"}
    with pytest.raises(LakeVersionError, match="is not upgraded as a whole to format 3"):
        layout.open()
    assert len(list(upgrades.upgrade(layout, "ada", "2026-01-05"))) == 4
    layout.open()


class _KilledStore(LocalStore):
    """Ends its process at a write, before it."""

    def __init__(self, root: Path, writes: int) -> None:
        super().__init__(root)
        self.writes = writes

    def _count(self) -> None:
        self.writes -= 1
        if self.writes < 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def put(self, key: str, data: bytes) -> None:
        self._count()
        super().put(key, data)

    def put_if(self, key: str, data: bytes, tag: str | None) -> str:
        self._count()
        return super().put_if(key, data, tag)

    def delete(self, key: str) -> None:
        self._count()
        super().delete(key)


def _upgrade_killed(layout: Layout, writes: int) -> bool:
    """Whether a process with the upgrade was killed at that write."""
    child = os.fork()
    if child == 0:
        killed = dataclasses.replace(layout, root=Address(_KilledStore(Path(layout.root), writes)))
        list(upgrades.upgrade(killed, "ada", "2026-01-05"))
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    return os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL


def _kill_at_each_write(folder: Path, make: Callable[[Path], Layout]) -> None:
    """Of a new lake each; prints after how many writes the upgrade was complete."""
    for writes in range(100):
        layout = make(folder / str(writes))
        upgraded = {key.replace("/plans.jsonl", "/plan_results.jsonl"): data for key, data in _files(layout).items()}
        is_of(FORMAT, SYNTHETIC)
        killed = _upgrade_killed(layout, writes)
        if killed and writes:
            try:
                layout.check()
                raise AssertionError(f"killed at write {writes}, and the lake is open")
            except LakeVersionError:
                assert upgrades.plan(layout).is_begun
        # The second one is killed, too, one write later at the most.
        if killed:
            _upgrade_killed(layout, 1)
        list(upgrades.upgrade(layout, "ada", "2026-01-05"))
        assert layout.check()
        assert _files(layout) == upgraded, writes
        (done,) = json.loads(layout.marker.read().data)["upgrades"]
        assert (done["from"], done["to"]) == (1, 3), done
        if not killed:
            print(writes)
            return


def frozen(folder: Path) -> Layout:
    """A lake of format 1 as a version left it, with one pipeline."""
    is_of(LAKE_FORMAT, MIGRATIONS)
    with tarfile.open(FROZEN / "1-0.1.0.tar.xz") as packed:
        packed.extractall(folder, filter="data")
    layout = Layout.local(folder / ".data/lake", folder / ".data/landing")
    layout = dataclasses.replace(layout, owner=of_layout._owner(json.loads(layout.marker.read().data)))
    assert layout.check()
    return layout


LAKES: dict[str, Callable[[Path], Layout]] = {"made": lambda folder: lake(LocalStore(folder)), "frozen": frozen}


@pytest.mark.slow
@pytest.mark.parametrize(("name", "writes"), [("made", 12), ("frozen", 8)])
def test_an_upgrade_that_is_killed_at_any_write_goes_on(name: str, writes: int, tmp_path: Path) -> None:
    # In a process without threads, which may fork.
    command = [sys.executable, "-m", "tests.ops.test_upgrade", str(tmp_path), name]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    # A change of two writes for each pipeline and migration, the first and the last write of the marker, and one after each migration.
    assert done.stdout.split() == [str(writes)]


if __name__ == "__main__":
    _kill_at_each_write(Path(sys.argv[1]), LAKES[sys.argv[2]])
