"""Whether increments of a transform leave its table stale, by trying changes and computing all rows again."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from tests.spark.derivation.transforms import COLUMNS, Row, Rows, Step, evaluate

Outcome = Literal["follows", "stale", "refused"]
_VALUES = (None, 0, 1, 2)


def outcome(
    step: Step, keys: Sequence[str], ons: Sequence[Mapping[str, str]], chance: random.Random, trials: int
) -> Outcome:
    """What increments after random changes do: the table follows, is stale, or a batch is refused for groups that it did not name."""
    refused = False
    for _ in range(trials):
        before = [_random_rows(number, chance) for number in range(len(COLUMNS))]
        after, changed = _changed(before, chance)
        if not changed:
            continue
        groups = _named(after, changed, keys, ons)
        table = _by_key(evaluate(step, before), keys)
        made = _by_key(evaluate(step, [_of_groups(after[0], groups, keys), *after[1:]]), keys)
        if not set(made) <= groups:
            refused = True
            continue
        kept = {key: row for key, row in table.items() if key not in groups}
        if groups and {**kept, **made} != _by_key(evaluate(step, after), keys):
            return "stale"
        if not groups and table != _by_key(evaluate(step, after), keys):
            return "stale"
    return "refused" if refused else "follows"


def _named(
    after: Sequence[Rows], changed: Sequence[tuple[int, Row]], keys: Sequence[str], ons: Sequence[Mapping[str, str]]
) -> set[tuple[Any, ...]]:
    """The groups that a batch computes again, as docs/architecture/kinds.md says."""
    groups = set()
    for number, row in changed:
        if not number:
            groups.add(tuple(row[key] for key in keys))
            continue
        on = ons[number - 1]
        for first in after[0]:
            if all(first[ours] == row[theirs] for ours, theirs in on.items()):
                groups.add(tuple(first[key] for key in keys))
    return groups


def _random_rows(number: int, chance: random.Random) -> Rows:
    rows = [{name: chance.choice(_VALUES) for name in COLUMNS[number]} for _ in range(chance.randint(0, 5))]
    return [{**row, "id": each} for each, row in enumerate(rows)] if not number else rows


def _changed(before: Sequence[Rows], chance: random.Random) -> tuple[list[Rows], list[tuple[int, Row]]]:
    """Tables after a few rows were changed, removed or added, and all versions of these rows with the numbers of their tables."""
    after, changed = [list(rows) for rows in before], []
    for _ in range(chance.randint(1, 2)):
        number = chance.randrange(len(COLUMNS))
        rows = after[number]
        if rows and chance.random() < 0.6:
            changed.append((number, rows.pop(chance.randrange(len(rows)))))
        if chance.random() < 0.7:
            row = {name: chance.choice(_VALUES) for name in COLUMNS[number]}
            row |= {"id": 100 + len(changed)} if not number else {}
            rows.append(row)
            changed.append((number, row))
    return after, changed


def _of_groups(rows: Rows, groups: set[tuple[Any, ...]], keys: Sequence[str]) -> Rows:
    return [row for row in rows if tuple(row[key] for key in keys) in groups]


def _by_key(rows: Rows, keys: Sequence[str]) -> dict[tuple[Any, ...], Row]:
    return {tuple(row[key] for key in keys): row for row in rows}
