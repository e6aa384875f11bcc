"""Which commit of bronze brought a batch: by the ledger, whatever the clocks said that planned and recorded it."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

import pytest

from tidegate.ops import arrivals
from tidegate.ops.arrivals import BatchInTable, LedgerCommit
from tidegate.times import lateness
from tidegate.times.lateness import Arrival

SECOND, MINUTE, DAY = 1_000_000, 60_000_000, 86_400_000_000


@dataclass(frozen=True)
class Brought:
    """A batch of bronze with the event times of its rows."""

    commit: LedgerCommit
    batch: BatchInTable
    rows: tuple[int, ...]


def history(source: random.Random) -> list[Brought]:
    """Commits of several checkpoints, planned and recorded by a clock that is set back and forth by minutes and days."""
    commits: list[Brought] = []
    true, error, version = 100 * DAY, 0, source.randint(0, 3)
    for _ in range(source.randint(1, 4)):
        for number in range(source.randint(1, 8)):
            true += source.randint(1, 20) * MINUTE
            if source.random() < 0.3:
                error = source.choice((-2 * DAY, -20 * MINUTE, 0, 0, 20 * MINUTE, 2 * DAY, -90 * DAY))
            planned = true + error
            took = source.randint(1, 60)
            true += took * SECOND
            if source.random() < 0.1:
                error = source.choice((-2 * DAY, -20 * MINUTE, 0, 20 * MINUTE, 2 * DAY))
            line = LedgerCommit(version=version, number=number, recorded=true + error, planned=planned, seconds=took)
            rows = tuple(true - source.randint(0, 90) * MINUTE for _ in range(source.randint(1, 3)))
            commits.append(Brought(line, BatchInTable(planned, number), rows))
            version += source.randint(1, 2)
    return commits


def late(commits: list[Brought], versions: dict[BatchInTable, int]) -> set[tuple[int, int]]:
    """The rows that a rebuild finds late, which reads all of them in one batch: by true version and number of the row."""
    marks = lateness.watermarks(
        [Arrival(version=versions.get(each.batch), newest=max(each.rows)) for each in commits], delay_seconds=1200
    )
    return {
        (each.commit.version, number)
        for each in commits
        for number, row in enumerate(each.rows)
        if row < marks.before.get(versions.get(each.batch), row)
    }


def expected(commits: list[Brought]) -> set[tuple[int, int]]:
    """Those that the increments found late, in plain Python."""
    newest: int | None = None
    rows_late = set()
    for each in commits:
        for number, row in enumerate(each.rows):
            if newest is not None and row < newest - 20 * MINUTE:
                rows_late.add((each.commit.version, number))
        newest = max([*each.rows, *([] if newest is None else [newest])])
    return rows_late


@pytest.mark.parametrize("seed", range(200))
def test_a_rebuild_finds_the_rows_late_that_the_increments_did(seed: int) -> None:
    source = random.Random(seed)
    commits = history(source)
    if len({each.batch for each in commits}) < len(commits):
        pytest.fail("two batches of the history have the same name")
    shuffled = source.sample(commits, len(commits))

    versions = arrivals.versions([each.batch for each in shuffled], [each.commit for each in shuffled])

    assert versions == {each.batch: each.commit.version for each in commits}
    assert late(shuffled, versions) == expected(commits)


@pytest.mark.parametrize("seed", range(200))
def test_a_rebuild_finds_no_other_row_late_where_lines_are_of_an_earlier_release_or_missing(seed: int) -> None:
    source = random.Random(seed)
    commits = history(source)
    old, lost = source.randint(0, len(commits)), source.choice((0.0, 0.0, 0.3, 1.0))
    lines = [
        replace(each.commit, planned=None) if number < old else each.commit
        for number, each in enumerate(commits)
        if source.random() >= lost
    ]

    versions = arrivals.versions([each.batch for each in commits], lines)

    assert versions.items() <= {each.batch: each.commit.version for each in commits}.items()
    assert late(commits, versions) <= expected(commits)


def test_lines_of_an_earlier_release_tell_the_order_where_the_clock_was_right() -> None:
    source = random.Random(7)
    commits = [
        Brought(
            LedgerCommit(version=number, number=number % 5, recorded=number * DAY + SECOND, planned=None, seconds=1),
            BatchInTable(number * DAY, number % 5),
            (source.randint(0, DAY),),
        )
        for number in range(15)
    ]

    versions = arrivals.versions([each.batch for each in commits], [each.commit for each in commits])

    assert versions == {each.batch: each.commit.version for each in commits}
