"""Runs after random foreign acts, and with an act in the middle of a batch: right, or refused by name; never green and wrong.

``ACTS_SEEDS=3,17`` runs these seeds. A failure prints the acts, what the plans said and what the runs did.
"""

from __future__ import annotations

import os
import random
from typing import Any

import pytest

from tests.acts.acts import ACTS, TABLES, Act
from tests.acts.judge import Example
from tests.acts.lake import SNAPSHOTS, Prepared
from tests.acts.project import FLOWS
from tests.fault_points import fault
from tests.slices import of_week

pytestmark = [pytest.mark.jvm, pytest.mark.chaos, pytest.mark.nightly, pytest.mark.timeout(900)]

STEPS = ("before:write_target", "after:write_target", "after:record_batch")
MEANWHILE = ("append", "delete", "update", "optimize", "restore")
"""Acts that other writers do while a batch runs."""


def seeds(*default: int) -> list[int]:
    return [int(seed) for seed in os.environ.get("ACTS_SEEDS", "").split(",") if seed] or list(default)


@pytest.mark.parametrize("seed", seeds(*of_week(range(12), 4)))
def test_after_acts_a_run_and_the_next_one_are_right_or_refuse_by_name(seed: int, prepared: Prepared) -> None:
    rng = random.Random(seed)
    example = Example(prepared.start(rng.choice(SNAPSHOTS)))
    kinds = rng.choices(sorted(ACTS), k=rng.choice((1, 1, 2, 3)))
    example.do(*[Act(kind, rng.choice(TABLES), rng.randrange(100)) for kind in kinds])

    example.run(example.plan())
    example.lake.land()
    example.run(example.plan())
    example.plan()


@pytest.mark.parametrize("seed", seeds(*of_week(range(100, 106), 2)))
def test_an_act_in_the_middle_of_a_batch_is_followed_or_noticed(seed: int, prepared: Prepared) -> None:
    rng = random.Random(seed)
    example = Example(prepared.start(rng.choice(SNAPSHOTS)))
    example.lake.land()
    step, flow = rng.choice(STEPS), rng.choice(("bronze", "silver", "gold", "rows"))
    act = Act(rng.choice(MEANWHILE), rng.choice(TABLES), rng.randrange(100))

    def strike(_: Any) -> None:
        example.notes.append(f"{step}:{flow}")
        example.lake.ran(FLOWS[: FLOWS.index(flow) + step.startswith("after")])
        example.do(act)

    with fault(f"{step}:{flow}", strike):
        report = prepared.deployment.run("acts")
    assert example.notes, "the run reached the step"
    example.judge_run(report, None)
    example.run(example.plan())
