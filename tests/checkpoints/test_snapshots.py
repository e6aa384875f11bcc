"""Announced snapshots, and which one a batch compares."""

from __future__ import annotations

from tests.memory import MemoryLayout
from tidegate.lake.place import FlowPlace, Place
from tidegate.sources.snapshots import announcements


def test_the_last_announced_snapshot_is_the_newest_of_many() -> None:
    layout = MemoryLayout()
    place = Place(layout, "shop", "silver", 1, 0)
    assert announcements.announced(FlowPlace(layout, "shop", "silver")) is None

    for day in range(1, 12):
        announcements.announce(place, f"2026-01-{day:02}", {f"/{day}.csv": day})

    newest = announcements.announced(FlowPlace(layout, "shop", "silver"))
    assert newest is not None
    assert (newest.number, newest.name, newest.files) == (10, "2026-01-11", {"/11.csv": 11})


def test_the_table_has_the_snapshot_before_until_the_batch_is_committed() -> None:
    layout = MemoryLayout()
    place = Place(layout, "shop", "silver", 1, 0)
    names = []
    for batch_id, day in ((0, 1), (1, 2), (1, 3)):
        announcements.announce(place, f"2026-01-{day:02}", {})
        newest = announcements.announced(FlowPlace(layout, "shop", "silver"))
        assert newest is not None
        announcements.choose(place, batch_id, newest)
        compared = announcements.compared(place)
        assert compared is not None
        done = [compared.by(batch) for batch in (None, 0, 1)]
        names.append([None if each is None else each.name for each in done])

    assert names == [
        [None, "2026-01-01", "2026-01-01"],
        [None, "2026-01-01", "2026-01-02"],
        [None, "2026-01-01", "2026-01-03"],
    ]


def test_a_history_has_every_snapshot_of_a_committed_batch_by_its_last_announcement() -> None:
    layout = MemoryLayout()
    place = Place(layout, "shop", "silver", 1, 0)
    for batch_id, name in enumerate(("2026-01-02", "2026-01-01", "2026-01-02")):
        announcements.announce(place, name, {f"/{batch_id}.csv": 1})
        snapshot = announcements.SNAPSHOTS.read(place, batch_id)
        assert snapshot is not None
        announcements.choose(place, batch_id, snapshot, keeps=True)

    compared = announcements.compared(place)
    assert compared is not None
    assert compared.of_history(1) == {"2026-01-02": 0, "2026-01-01": 1}
    assert compared.of_history(2) == {"2026-01-02": 2, "2026-01-01": 1}
    assert announcements.passed_over(place) == frozenset()
    announcements.pass_over(place, 2)
    announcements.pass_over(place, 1)
    newest = announcements.newest_by_name(place, but=announcements.passed_over(place))
    assert {name: each.number for name, each in newest.items()} == {"2026-01-02": 0}
