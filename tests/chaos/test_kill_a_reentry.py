"""The driver dies at each commit of a replay; one more replay later every row is in exactly one place."""

from __future__ import annotations

from collections import Counter
from datetime import date
from typing import Any

import pytest

from demo import flights_feed
from tests.deployment import Deployment
from tests.spark.reprocessing.test_reentry import expect_every_row_in_one_place, within
from tidegate import registry
from tidegate.quarantine import claims
from tidegate.status.lag import measure

pytestmark = [pytest.mark.jvm, pytest.mark.chaos]

RECORDS = flights_feed.days()[date(2013, 1, 1)][:60]


def delays(more_than: int) -> int:
    return sum(record["dep_delay"] != "NA" and abs(int(record["dep_delay"])) > more_than for record in RECORDS)


def _kill_a_replay(deployment: Deployment, step: str) -> None:
    deployment.edit_suite("flights/silver", within(5))
    deployment.land("one.csv", flights_feed._csv(RECORDS))
    deployment.run(flows=["bronze", "silver"])
    deployment.edit_suite("flights/silver", within(20))
    deployment.run_and_kill(step, request=deployment.replay_request("silver"))
    in_hand = claims.in_hand(deployment.layout.quarantine("flights", "silver"))
    assert in_hand == claims.Claim(number=0, entries=delays(5))


@pytest.mark.parametrize(
    ("step", "finished"), [("after:write_quarantine:silver", False), ("after:write_target:silver", True)]
)
def test_an_ordinary_run_after_a_kill_ends_the_replay_too(
    step: str, finished: bool, deployment: Deployment, spark: Any
) -> None:
    _kill_a_replay(deployment, step)
    lag = measure(deployment.environment, registry.load("flights"), registry.load("flights").flow("silver"))
    assert (lag.has_work, lag.behind) == (True, 0)
    assert "a replay of its quarantine was interrupted" in lag.reason

    silver = deployment.run(flows=["silver"]).flow("silver")

    assert silver.error is None
    assert ("finished replay 0" if finished else "are open again") in " ".join(silver.notes)
    held = Counter(deployment.quarantined("silver")["state"].to_pylist())
    passed = delays(5) - delays(20) if finished else 0
    assert held == {"open": delays(5) - passed} | ({"replayed": passed} if finished else {})
    assert (
        measure(deployment.environment, registry.load("flights"), registry.load("flights").flow("silver")).has_work
        is False
    )
    expect_every_row_in_one_place(deployment)


@pytest.mark.parametrize("step", ["after:claim:silver", "after:write_quarantine:silver", "after:write_target:silver"])
def test_one_more_replay_after_a_kill_leaves_every_row_in_exactly_one_place(
    step: str, deployment: Deployment, spark: Any
) -> None:
    _kill_a_replay(deployment, step)
    if step == "after:write_quarantine:silver":
        # The split stands: a suite that would let everything pass moves no row of this claim.
        deployment.edit_suite("flights/silver", within(2000))
    report = deployment.replay("silver", limit=1, rule="malformed_line")

    assert report.error is None
    held = Counter(deployment.quarantined("silver")["state"].to_pylist())
    assert held == {"open": delays(20), "replayed": delays(5) - delays(20)}
    assert deployment.table("silver.flights").num_rows == len(RECORDS) - delays(20)
    expect_every_row_in_one_place(deployment)
