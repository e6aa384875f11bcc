"""The servers of the clusters of the tests are the real ones: they notice a node that is gone, and only this machine reaches them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import psutil
import pytest

from devstack.ports import LOOPBACK
from tests.kubernetes import NODES, kubernetes
from tests.waiting import wait_until
from tests.yarn import yarn

pytestmark = [pytest.mark.nightly, pytest.mark.jvm]


def addresses_of(processes: Iterable[int]) -> set[str]:
    """The addresses on which processes listen."""
    return {
        connection.laddr.ip.removeprefix("::ffff:")
        for pid in processes
        for connection in psutil.Process(pid).net_connections("inet")
        if connection.status == psutil.CONN_LISTEN
    }


def test_yarn_has_two_nodes_and_notices_that_one_is_gone(tmp_path: Path) -> None:
    with yarn(tmp_path / "cluster") as cluster:
        assert len(cluster.nodes()) == 2
        assert addresses_of(cluster.pids()) == {LOOPBACK}
        cluster.kill_node("node-1")
        wait_until(lambda: len(cluster.nodes()) == 1, "the resource manager misses the node")


def test_kubernetes_has_two_nodes_and_notices_that_one_is_gone(tmp_path: Path) -> None:
    with kubernetes(tmp_path / "cluster") as cluster:
        assert addresses_of(cluster.pids()) == {LOOPBACK}
        assert [cluster.taints(name) for name in NODES] == [[], []]
        cluster.lose_node("node-1")
        wait_until(lambda: cluster.taints("node-1") != [], "the controller manager misses the node")
        assert cluster.taints("node-2") == []


def test_a_service_account_of_kubernetes_has_no_right_but_those_that_it_was_given(tmp_path: Path) -> None:
    with kubernetes(tmp_path / "cluster") as cluster:
        cluster.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "nobody"}})
        assert not cluster.may("nobody", "list", "pods")
