"""A sample of the foreign acts: after each a plan, and after some a run, is right or refuses by name. The others are at night."""

from __future__ import annotations

import random

import pytest

from tests.acts.acts import ACTS, TABLES, Act
from tests.acts.effects import WRITERS
from tests.acts.judge import Example, WrongError
from tests.acts.lake import SNAPSHOTS, Prepared
from tests.slices import of_week

pytestmark = [pytest.mark.jvm, pytest.mark.chaos]

_PER_MERGE = len(ACTS) // 8


def test_after_each_act_a_plan_is_right_or_refuses_by_name(prepared: Prepared) -> None:
    """An eighth of them, the others in other weeks: `tests.acts.test_plans` does all on every table."""
    rng = random.Random(28)
    done = set()
    for kind in of_week(list(ACTS), _PER_MERGE):
        example = Example(prepared.start(rng.choice(SNAPSHOTS)))
        example.do(Act(kind, rng.choice(TABLES), rng.randrange(100)))
        example.plan()
        done |= {act.kind for act in example.acts.done}
    assert len(done) > _PER_MERGE - 2, "nearly all acts could be done"


@pytest.mark.parametrize("table", TABLES[:-1])
def test_an_older_table_note_and_ledger_do_not_hide_what_the_checkpoint_has_read(
    table: str, prepared: Prepared
) -> None:
    example = Example(prepared.start(1))
    example.do(Act("put_flow_back", table, 0b111))
    assert WRITERS[table] in example.plan()


def test_after_acts_a_run_and_the_next_one_are_right_or_refuse_by_name(prepared: Prepared) -> None:
    example = Example(prepared.start(1))
    example.do(Act("delete", "silver.acts", 3), Act("lose_entries", "silver.rows", 0))
    refused = example.plan()
    assert refused == {"rows", "firsts"}
    example.lake.land()
    assert example.run(example.plan()) == {"rows"}
    example.plan()


def test_the_judge_finds_what_it_was_not_told_of(prepared: Prepared) -> None:
    example = Example(prepared.start(1))
    example.do(Act("delete", "silver.acts", 3))
    example.lake.events.clear()

    with pytest.raises(WrongError, match=r"green and wrong: silver: - \[Record"):
        example.plan()
