"""Drivers whose account lacks a right."""

from __future__ import annotations

import pytest

from tests.clusters.kinds import Kinds, end_of
from tests.kubernetes import Kubernetes
from tidegate.errors import EX_TEMPFAIL

pytestmark = [pytest.mark.nightly, pytest.mark.jvm, pytest.mark.kafka, pytest.mark.chaos, pytest.mark.timeout(1800)]


def test_a_driver_that_may_not_create_pods_ends(kinds: Kinds, cluster: Kubernetes) -> None:
    cluster.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "nobody"}})
    kinds.land()
    account = str(cluster.kubeconfig("nobody", cluster.token_of("nobody")))
    output = end_of(kinds.start(KUBECONFIG=account, TIDEGATE_EXECUTOR_WAIT="10"), exit_code=EX_TEMPFAIL)
    assert "the cluster has given the run no executor for 10 seconds" in output
