"""A pipeline with every kind of flow on a real YARN in client mode, while a node manager kills an executor, and another queue takes one.

Executors have Java, Spark, and a Python with only what the guide lists. They run in folders of their containers; lake and landing zone
are in a bucket.
"""

from __future__ import annotations

import pytest

from tests.clusters.kinds import Kinds, Note, end_of
from tests.clusters.kinds_project import MARKED
from tests.waiting import wait_until
from tests.yarn import EXECUTOR_MB, Yarn
from tidegate.runtime.project_archive import FOLDER

pytestmark = [pytest.mark.nightly, pytest.mark.jvm, pytest.mark.kafka, pytest.mark.chaos, pytest.mark.timeout(1800)]


def container_of(note: Note, cluster: Yarn) -> str:
    """The container in whose folder a process of an executor works."""
    assert note.cwd.is_relative_to(cluster.folder), note
    assert note.cwd.name.startswith("container_"), note
    return note.cwd.name


def expect_code_of_containers(kinds: Kinds, cluster: Yarn, version: str) -> None:
    """Every process of an executor has imported what its application gave it."""
    notes = kinds.noted()
    assert {note.flow for note in notes} == set(MARKED)
    assert {note.version for note in notes} == {version}
    for note in notes:
        assert container_of(note, cluster)
        assert all(file.is_relative_to(note.cwd / FOLDER) for file in note.files), note


def test_every_kind_of_flow_runs_to_its_end_also_if_an_executor_is_killed_or_preempted(
    kinds: Kinds, cluster: Yarn
) -> None:
    kinds.land()
    with kinds.pausing("events"):
        run = kinds.start()
        container = container_of(kinds.wait_for("events", run), cluster)
        cluster.kill_container(container)
        cluster.wait_for_end(container)
    end_of(run)
    assert kinds.differences(["1"]) == []
    expect_code_of_containers(kinds, cluster, "1")
    assert len({note.cwd for note in kinds.noted()}) > 1, "several executors worked"
    kinds.deployment.expect_a_balanced_ledger("kinds")
    assert [line for line in kinds.log().splitlines() if "Lost executor" in line and container in line], kinds.log()

    kinds.forget()
    kinds.write(version="2")
    kinds.land()
    with kinds.pausing("events"):
        run = kinds.start()
        kinds.wait_for("events", run)
        (application,) = (each for each, state in cluster.applications().items() if state == "RUNNING")
        urgent = cluster.occupy(EXECUTOR_MB)
        wait_until(lambda: cluster.has_room(urgent), "an executor made room for the other queue")
        cluster.end(urgent)
    end_of(run)
    assert cluster.preempted()[application] == 1
    assert kinds.differences(["1", "2"]) == []
    expect_code_of_containers(kinds, cluster, "2")
    assert [line for line in kinds.log().splitlines() if "Lost executor" in line and "preempted" in line], kinds.log()
    kinds.deployment.expect_a_balanced_ledger("kinds")
