"""Drivers on a real YARN in client mode that are killed."""

from __future__ import annotations

import pytest

from tests.clusters.kinds import Kinds
from tests.yarn import Yarn

pytestmark = [pytest.mark.nightly, pytest.mark.jvm, pytest.mark.kafka, pytest.mark.chaos, pytest.mark.timeout(1800)]


def test_the_run_after_a_killed_driver_completes_what_it_began(kinds: Kinds, cluster: Yarn) -> None:
    kinds.land()
    kinds.kill_driver_in("history")
    # The cluster ends what the driver has left.
    cluster.wait_until_idle()
    kinds.run()
    assert kinds.differences(["1"]) == []
    kinds.deployment.expect_a_balanced_ledger("kinds")
