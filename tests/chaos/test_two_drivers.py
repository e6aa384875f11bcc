"""A second driver fails at once with a transient error; after a SIGKILL of the first the lease is free."""

from __future__ import annotations

from typing import Any

import pytest

from tests.chaos.sample import StartState, expect_everything_once, landed
from tests.deployment import Deployment
from tidegate.checkpoints.lease import holder

pytestmark = [pytest.mark.jvm, pytest.mark.chaos]


@pytest.mark.nightly
def test_a_second_driver_fails_at_once_and_runs_after_the_first_was_killed(start_state: StartState) -> None:
    deployment = start_state(landed)
    resources = ("checkpoint:flights/bronze", "table:bronze.flights")
    with deployment.driver_that_waits("hold:write_target:bronze", flows=["bronze"]):
        owners = [holder(deployment.layout, resource) for resource in resources]

        refused = deployment.run(flows=["bronze"]).flow("bronze")

        assert all("of flights" in str(owner) for owner in owners), owners
        assert refused.error is not None
        assert (refused.state, refused.error.kind, refused.error.transient) == ("failed", "LeaseHeldError", True)
        assert "attempt" in refused.error.message
        assert not deployment.layout.table("bronze.flights").exists()

    assert [holder(deployment.layout, resource) for resource in resources] == [None, None]
    assert deployment.quarantined("bronze").num_rows == 1, "it was killed between the quarantine and the target"
    assert [flow.error for flow in deployment.run().flows] == [None, None, None]
    expect_everything_once(deployment)
    deployment.expect_a_balanced_ledger()


def test_a_second_run_in_the_same_driver_fails_too(deployment: Deployment, spark: Any) -> None:
    from tidegate.errors import LeaseHeldError
    from tidegate.spark.driver import lease

    with (
        lease.hold(spark, deployment.layout, ("table:silver.flights",), what="maintenance"),
        pytest.raises(LeaseHeldError, match="this same process"),
        lease.hold(spark, deployment.layout, ("table:silver.flights",), what="a run"),
    ):
        pass

    with lease.hold(spark, deployment.layout, ("table:silver.flights",), what="a run"):
        assert holder(deployment.layout, "table:bronze.flights") is None
