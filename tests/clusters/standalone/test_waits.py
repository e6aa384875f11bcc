"""Runs that get no executor of a standalone cluster."""

from __future__ import annotations

import pytest

from tests.clusters.kinds import Kinds, end_of
from tests.standalone import Cluster
from tests.waiting import wait_until
from tidegate.errors import EX_TEMPFAIL

pytestmark = [pytest.mark.nightly, pytest.mark.jvm, pytest.mark.kafka, pytest.mark.chaos, pytest.mark.timeout(1800)]


def test_a_run_without_room_on_the_cluster_ends_as_transient(kinds: Kinds) -> None:
    kinds.land()
    run = kinds.start(TIDEGATE_EXECUTOR_MEMORY="4g", TIDEGATE_EXECUTOR_WAIT="10")
    assert "the cluster has given the run no executor for 10 seconds" in end_of(run, exit_code=EX_TEMPFAIL)
    kinds.run()
    assert kinds.differences(["1"]) == []


@pytest.mark.parametrize("cluster", ["NONE"], indirect=True)
def test_a_run_that_its_master_has_forgotten_ends_as_transient(kinds: Kinds, cluster: Cluster) -> None:
    kinds.land()
    with kinds.pausing("items"):
        run = kinds.start(TIDEGATE_EXECUTOR_WAIT="10")
        kinds.wait_for("items", run)
        cluster.restart_master()
        killed = "finished with state KILLED"
        wait_until(
            lambda: cluster.log.count(killed) == 2, "the workers end the executors, which the master does not know"
        )
    assert "the cluster has given the run no executor for 10 seconds" in end_of(run, exit_code=EX_TEMPFAIL)
    kinds.run()
    assert kinds.differences(["1"]) == []
    kinds.deployment.expect_a_balanced_ledger("kinds")
