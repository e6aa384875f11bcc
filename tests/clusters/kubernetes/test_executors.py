"""A pipeline with every kind of flow on a real Kubernetes in client mode, while pods are deleted and a node is gone.

Executors run in folders of their pods; lake and landing zone are in a bucket.
"""

from __future__ import annotations

import pytest

from tests.clusters.kinds import Kinds, Note, end_of
from tests.clusters.kinds_project import MARKED
from tests.kubernetes import Kubernetes
from tests.waiting import wait_until
from tidegate.runtime.project_archive import FOLDER

pytestmark = [pytest.mark.nightly, pytest.mark.jvm, pytest.mark.kafka, pytest.mark.chaos, pytest.mark.timeout(1800)]


def pod_of(note: Note, cluster: Kubernetes) -> str:
    """The pod in whose folder a process of an executor works."""
    assert note.cwd.parent == cluster.folder / "pods", note
    return note.cwd.name


def expect_code_of_pods(kinds: Kinds, cluster: Kubernetes, version: str) -> None:
    """Every process of an executor has imported what its application gave it."""
    notes = kinds.noted()
    assert {note.flow for note in notes} == set(MARKED)
    assert {note.version for note in notes} == {version}
    assert all(pod_of(note, cluster) for note in notes)
    assert all(file.is_relative_to(note.cwd / FOLDER) for note in notes for file in note.files), notes


def test_every_kind_of_flow_runs_to_its_end_also_if_pods_are_deleted_and_a_node_is_gone(
    kinds: Kinds, cluster: Kubernetes
) -> None:
    kinds.land()
    with kinds.pausing("events"):
        run = kinds.start()
        deleted = pod_of(kinds.wait_for("events", run), cluster)
        cluster.delete_pod(deleted)
        wait_until(lambda: deleted not in cluster.pods(), "the pod is gone")
    end_of(run)
    assert kinds.differences(["1"]) == []
    expect_code_of_pods(kinds, cluster, "1")
    kinds.deployment.expect_a_balanced_ledger("kinds")
    assert [line for line in kinds.log().splitlines() if "Lost executor" in line], kinds.log()
    wait_until(lambda: not cluster.executors(), "the run has ended its executors")
    assert "forbidden" not in kinds.log()

    kinds.forget()
    kinds.write(version="2")
    kinds.land()
    with kinds.pausing("history"):
        run = kinds.start()
        lost = cluster.node_of(pod_of(kinds.wait_for("history", run), cluster))
        cluster.lose_node(lost)
        wait_until(lambda: cluster.taints(lost) != [], "the controller manager misses the node")
    end_of(run)
    assert kinds.differences(["1", "2"]) == []
    expect_code_of_pods(kinds, cluster, "2")
    # Its pods stay "terminating", so Spark waits for their heartbeats.
    assert "with no recent heartbeats" in kinds.log(), kinds.log()
    kinds.deployment.expect_a_balanced_ledger("kinds")
