"""Recoveries after each kind of loss, killed at random steps and started again: the lake has what an undamaged one has, and is idle.

``RECOVERY_SEEDS=3,17`` runs these seeds. A failure prints the acts and what each recovery did.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from typing import Any

import pytest

from tests.acts import losses, writers
from tests.acts.acts import TABLES, Act
from tests.acts.judge import Example, clear_cache
from tests.acts.lake import SNAPSHOTS, Lake, Prepared
from tests.acts.oracle import differences
from tests.acts.project import FLOWS
from tests.fault_points import aborting, fault
from tests.slices import of_week
from tidegate.project import resolution
from tidegate.runs.recover import plan as recovery
from tidegate.runs.recover.plan import Recovery

pytestmark = [pytest.mark.jvm, pytest.mark.chaos, pytest.mark.nightly, pytest.mark.timeout(900)]

KINDS = (
    *("lose_entries", "lose_middle_entry", "tear_entry", "put_table_back", "remove_table", "restore"),
    *("put_checkpoint_back", "remove_checkpoint", "put_sink_checkpoint_back", "put_notes_back", "put_ledger_back"),
    *("put_flow_back", "put_folder_back", "lose_side_files"),
)
STEPS = (
    "before:write_quarantine",
    "before:write_target",
    "after:write_target",
    "before:record_batch",
    "after:record_batch",
)


def seeds() -> list[int]:
    return [int(seed) for seed in os.environ.get("RECOVERY_SEEDS", "").split(",") if seed] or of_week(range(28), 3)


def plan_of(lake: Lake) -> Recovery:
    environment = lake.prepared.deployment.environment
    return recovery.make(environment, {"acts": resolution.load("acts", environment.project)})


def recover(example: Example, arm: Callable[[Callable[[Any], None]], Any] | None) -> None:
    """Recover until nothing is damaged; the first run is killed where ``arm`` says."""
    deployment, lake = example.lake.prepared.deployment, example.lake
    for _ in range(4):
        made = plan_of(lake)
        example.notes.append("; ".join(made.lines()))
        if not made.steps:
            return
        flows = tuple(each.step.key[1] for each in made.steps)
        clear_cache(lake)
        if arm is None:
            report = deployment.run("acts", flows, mode="recover")
            example.notes.append(str({each.flow: (each.state, each.error) for each in report.flows}))
            assert [each.error for each in report.flows] == [None] * len(flows), example.notes
            continue
        from pyspark.sql import SparkSession

        with aborting(arm, lake.folder, SparkSession.getActiveSession(), must_abort=False):
            deployment.run("acts", flows, mode="recover")
        example.notes.append("killed, or ended before the step")
        arm = None
    raise AssertionError(f"still damaged: {example.notes}")


@pytest.mark.parametrize("seed", seeds())
def test_a_lake_is_as_one_that_was_never_damaged(seed: int, prepared: Prepared) -> None:
    rng = random.Random(seed)
    example = Example(prepared.start(rng.choice(SNAPSHOTS)))
    kinds = [KINDS[seed % len(KINDS)], *rng.choices(KINDS, k=rng.choice((0, 0, 1)))]
    example.do(*[Act(kind, rng.choice(TABLES), rng.randrange(100)) for kind in kinds])
    at, step = rng.choice(FLOWS), rng.choice(STEPS)

    recover(example, (lambda act: fault(f"{step}:{at}", act)) if seed % 2 else None)
    assert plan_of(example.lake).lines() == [], example.notes
    clear_cache(example.lake)
    report = prepared.deployment.run("acts")
    assert [each.error for each in report.flows] == [None] * len(FLOWS), (example.notes, report.flows)

    example.lake.ran(FLOWS)
    (world,) = example.lake.worlds(is_followed=True)
    actual = example.lake.all_contents()
    assert differences(world.contents(), actual, FLOWS) == [], example.notes  # type: ignore[arg-type]
    assert example.plan() == set()


def test_every_kind_is_an_act() -> None:
    assert all(kind in vars(losses) or kind in vars(writers) for kind in KINDS)
