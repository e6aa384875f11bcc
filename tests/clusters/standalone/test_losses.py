"""A worker of a standalone cluster that is lost for good, a killed driver, and a master that is started again."""

from __future__ import annotations

import pytest

from tests.clusters.kinds import Kinds, end_of
from tests.standalone import Cluster

pytestmark = [pytest.mark.nightly, pytest.mark.jvm, pytest.mark.kafka, pytest.mark.chaos, pytest.mark.timeout(1800)]


def test_a_worker_is_lost_the_driver_is_killed_and_the_master_is_started_again(kinds: Kinds, cluster: Cluster) -> None:
    kinds.land()
    with kinds.pausing("events"):
        run = kinds.start()
        cluster.lose_worker_of(cluster.executor_in(kinds.wait_for("events", run).cwd))
    end_of(run)
    assert "Lost executor" in kinds.log()
    assert kinds.differences(["1"]) == []

    kinds.forget()
    kinds.land()
    kinds.kill_driver_in("history")
    kinds.run()
    assert kinds.differences(["1", "1"]) == []

    kinds.forget()
    kinds.land()
    with kinds.pausing("items"):
        run = kinds.start()
        kinds.wait_for("items", run)
        cluster.restart_master()
    end_of(run)
    assert kinds.differences(["1", "1", "1"]) == []
    kinds.deployment.expect_a_balanced_ledger("kinds")
