"""A second driver refuses at once with a transient error; after a SIGKILL the lease is free."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest

from demo import flights_feed
from tests.deployment import Deployment
from tidegate.checkpoints.lease import holder

pytestmark = [pytest.mark.jvm, pytest.mark.chaos]


@pytest.mark.parametrize("resource", ["checkpoint:flights/bronze", "table:bronze.flights"])
def test_a_second_driver_refuses_at_once_and_says_who_holds_the_lease(
    resource: str, deployment: Deployment, spark: Any
) -> None:
    flights_feed.land_day(deployment.environment.landing, date(2013, 1, 1))
    with deployment.driver_that_waits("hold:decide:bronze", flows=["bronze"]):
        told = holder(deployment.layout, resource)

        refused = deployment.run(flows=["bronze"]).flow("bronze")

        assert told is not None
        assert "of flights" in told
        assert refused.error is not None
        assert (refused.state, refused.error["kind"], refused.error["transient"]) == ("failed", "LeaseHeldError", True)
        assert "attempt" in refused.error["message"]
        assert not deployment.layout.table("bronze.flights").exists()

    assert holder(deployment.layout, resource) is None
    assert deployment.run(flows=["bronze"]).flow("bronze").total("written") == 842


def test_a_thread_of_the_same_driver_refuses_too(deployment: Deployment, spark: Any) -> None:
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
