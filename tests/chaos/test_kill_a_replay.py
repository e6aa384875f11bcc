"""The driver is aborted after each commit of a replay; after another replay every row is in exactly one place.

The abort is an exception that nothing catches; `tests/chaos/test_an_abort_is_a_kill.py` sends real SIGKILLs.
"""

from __future__ import annotations

from collections import Counter

import pytest

from demo import flights_feed
from tests.chaos.sample import StartState
from tests.deployment import Deployment
from tests.spark.reprocessing.test_whole_replays import expect_every_row_in_one_place, records, within
from tidegate.lake.place import FlowPlace
from tidegate.project import resolution
from tidegate.quarantine import claims
from tidegate.status.lag import measure
from tidegate.status.reading import Reading

pytestmark = [pytest.mark.jvm, pytest.mark.chaos]


def delays(more_than: int) -> int:
    return sum(record["dep_delay"] != "NA" and abs(int(record["dep_delay"])) > more_than for record in records())


def refused_entries(deployment: Deployment) -> None:
    """Many rows in quarantine by a strict suite, and a new suite that some of them pass."""
    deployment.edit_suite("flights/silver", within(5))
    deployment.land("one.csv", flights_feed.as_csv(records()))
    deployment.run(flows=["bronze", "silver"])
    deployment.edit_suite("flights/silver", within(20))


def aborted_replay(start_state: StartState, step: str) -> Deployment:
    deployment = start_state(refused_entries)
    deployment.run_and_abort(step, request=deployment.replay_request("silver"))
    claim = claims.unfinished_claim(FlowPlace(deployment.layout, "flights", "silver").quarantine)
    assert claim == claims.Claim(number=0, entries=delays(5))
    return deployment


def lag_of_silver(deployment: Deployment) -> Reading:
    return measure(deployment.environment, resolution.load("flights", deployment.environment.project).flow("silver"))


def states(deployment: Deployment) -> Counter[str]:
    return Counter(deployment.quarantined("silver")["state"].to_pylist())


def expect_a_replay_completes_it(deployment: Deployment) -> None:
    report = deployment.replay("silver", limit=1, rule="malformed_line")

    assert report.error is None
    assert states(deployment) == {"open": delays(20), "replayed": delays(5) - delays(20)}
    assert deployment.table("silver.flights").num_rows == len(records()) - delays(20)
    expect_every_row_in_one_place(deployment)


@pytest.mark.parametrize(
    ("step", "finished"),
    [
        pytest.param("after:write_quarantine:silver", False, marks=pytest.mark.nightly),
        pytest.param("after:write_target:silver", True, marks=pytest.mark.nightly),
    ],
)
def test_an_increment_also_completes_an_aborted_replay(step: str, finished: bool, start_state: StartState) -> None:
    deployment = aborted_replay(start_state, step)
    lag = lag_of_silver(deployment)
    assert (lag.has_work, lag.backlog.behind) == (True, 0)
    assert "a replay of its quarantine was interrupted" in lag.reason

    silver = deployment.run(flows=["silver"]).flow("silver")

    assert silver.error is None
    assert ("finished the interrupted replay 0" if finished else "entries open again") in " ".join(silver.notes)
    passed = delays(5) - delays(20) if finished else 0
    assert states(deployment) == {"open": delays(5) - passed} | ({"replayed": passed} if finished else {})
    assert lag_of_silver(deployment).has_work is False
    expect_every_row_in_one_place(deployment)


@pytest.mark.nightly
def test_a_replay_that_is_aborted_one_step_later_each_time_leaves_every_row_in_exactly_one_place(
    start_state: StartState,
) -> None:
    deployment = aborted_replay(start_state, "after:claim:silver")
    deployment.run_and_abort("after:write_quarantine:silver", request=deployment.replay_request("silver"))
    # The split is final: a suite that all rows pass moves no row of this claim.
    deployment.edit_suite("flights/silver", within(2000))
    deployment.run_and_abort("after:write_target:silver", request=deployment.replay_request("silver"))
    assert claims.unfinished_claim(FlowPlace(deployment.layout, "flights", "silver").quarantine) is not None

    expect_a_replay_completes_it(deployment)
