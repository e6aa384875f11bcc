"""Drivers on a real Kubernetes in client mode that are killed."""

from __future__ import annotations

import pytest

from tests.clusters.kinds import Kinds
from tests.kubernetes import Kubernetes
from tests.waiting import wait_until

pytestmark = [pytest.mark.nightly, pytest.mark.jvm, pytest.mark.kafka, pytest.mark.chaos, pytest.mark.timeout(1800)]


def test_the_run_after_a_killed_driver_completes_what_it_began(kinds: Kinds, cluster: Kubernetes) -> None:
    kinds.land()
    kinds.kill_driver_in("history")
    wait_until(lambda: not cluster.executors(), "the executors have missed their driver")
    kinds.run()
    assert kinds.differences(["1"]) == []
    kinds.deployment.expect_a_balanced_ledger("kinds")
