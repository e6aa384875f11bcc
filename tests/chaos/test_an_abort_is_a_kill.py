"""An abort in this process leaves the same files as a SIGKILL of a driver, so other tests can use aborts."""

from __future__ import annotations

import pytest

from tests.chaos.lakes import content_of, differences
from tests.chaos.sample import WAITING, StartState, expect_everything_once
from tests.chaos.test_kill_a_replay import expect_a_replay_completes_it, refused_entries
from tests.chaos.test_kill_at_every_step import STEPS
from tests.slices import of_week

pytestmark = [pytest.mark.jvm, pytest.mark.chaos]

PER_MERGE = "after:write_target:silver"
"""The one step tested with every merge, by `make test-live`; `tests/chaos/test_two_drivers.py` kills a driver at another step."""
OTHER_STEPS = sorted({f"{step}:{flow}" for flow, steps in STEPS.items() for step in steps} - {PER_MERGE})


@pytest.mark.parametrize(
    "step",
    [
        pytest.param(PER_MERGE, marks=pytest.mark.live),
        *(pytest.param(step, marks=pytest.mark.nightly) for step in of_week(OTHER_STEPS, 1)),
    ],
)
def test_aborted_and_killed_runs_leave_the_same_lake_and_a_rerun_completes_it(
    step: str, start_state: StartState
) -> None:
    flow = step.rpartition(":")[2]
    aborted = start_state(WAITING[flow])
    aborted.run_and_abort(step, flows=[flow])
    after_abort = content_of(aborted.layout)

    killed = start_state(WAITING[flow])
    before = content_of(killed.layout)
    killed.run_and_kill(step, flows=[flow])

    after_kill = content_of(killed.layout)
    assert differences(after_kill, after_abort) == {}
    assert after_kill != before
    assert [flow.error for flow in killed.run().flows] == [None] * 3
    expect_everything_once(killed)
    killed.expect_a_balanced_ledger()


@pytest.mark.nightly
@pytest.mark.parametrize(
    "step", of_week([f"after:{step}:silver" for step in ("claim", "write_quarantine", "write_target")], 1)
)
def test_aborted_and_killed_replays_leave_the_same_lake_and_another_replay_completes_it(
    step: str, start_state: StartState
) -> None:
    aborted = start_state(refused_entries)
    aborted.run_and_abort(step, request=aborted.replay_request("silver"))
    after_abort = content_of(aborted.layout)

    killed = start_state(refused_entries)
    killed.run_and_kill(step, request=killed.replay_request("silver"))

    assert differences(content_of(killed.layout), after_abort) == {}
    expect_a_replay_completes_it(killed)
