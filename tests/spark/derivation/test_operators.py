"""The rules of operators, by random transforms: what is accepted never leaves a table stale, as recomputing all rows shows."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence

import pytest

from tests.spark.derivation.oracle import outcome
from tests.spark.derivation.transforms import Plans, Step, Transforms
from tidegate.spark.derivation.operators import Analysis
from tidegate.spark.derivation.relation import Source
from tidegate.spark.derivation.scopes import UndeclaredError

pytestmark = pytest.mark.slow

KEYS = (("a",), ("a", "b"))
ONS_OF_FIRST = ({"a": "u"}, {"a": "u", "b": "v"}, {"c": "u"})
ONS_OF_SECOND = ({"b": "p"}, {"a": "p"}, {"c": "p"})
"""Columns of the first table may equal columns of the others, which have no columns of the same name."""


def is_accepted(step: Step, keys: Sequence[str], ons: Sequence[Mapping[str, str]]) -> bool:
    others = [Source(table=f"other{number}", scope=tuple(on.values()), on=on) for number, on in enumerate(ons)]
    analysis = Analysis([Source(table="first", scope=tuple(keys), unique=("id",)), *others])
    try:
        analysis.check(Plans().plan(step), keys)
    except UndeclaredError:
        return False
    assert not analysis.doubts, "every operator of these transforms is understood"
    return True


@pytest.mark.parametrize(
    ("first", "number"), [(0, 150), *[pytest.param(n, 500, marks=pytest.mark.nightly) for n in range(1000, 2000, 500)]]
)
def test_no_accepted_transform_leaves_a_table_stale(first: int, number: int) -> None:
    """The oracle knows neither plans nor lineage: it changes rows, does what an increment does, and recomputes."""
    outcomes: Counter[tuple[bool, str]] = Counter()
    for seed in range(first, first + number):
        chance = random.Random(seed)
        keys = chance.choice(KEYS)
        ons = (chance.choice(ONS_OF_FIRST), chance.choice(ONS_OF_SECOND))
        step = Transforms(chance, keys, ons).transform()
        accepted = is_accepted(step, keys, ons)
        result = outcome(step, keys, ons, chance, trials=150)
        assert not (accepted and result == "stale"), (seed, keys, ons, step)
        outcomes[accepted, result] += 1
    # The test sees transforms of both kinds, and few refusals without a reason that the oracle finds.
    assert outcomes[True, "follows"] > number / 4
    assert outcomes[False, "stale"] > number / 4
    assert outcomes[False, "follows"] < number / 5
