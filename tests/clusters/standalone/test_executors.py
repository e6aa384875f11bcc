"""Executors of a standalone cluster that are killed while they work."""

from __future__ import annotations

import contextlib

import pytest

from tests.clusters.kinds import Kinds, Note, end_of
from tests.clusters.kinds_project import MARKED
from tests.standalone import Cluster, kill_executor
from tests.waiting import wait_until

pytestmark = [pytest.mark.nightly, pytest.mark.jvm, pytest.mark.kafka, pytest.mark.chaos, pytest.mark.timeout(1800)]


def test_an_executor_is_killed_while_it_works_for_each_flow(kinds: Kinds, cluster: Cluster) -> None:
    kinds.land()
    killed: list[int] = []
    with contextlib.ExitStack() as stack:
        holds = {flow: stack.enter_context(contextlib.ExitStack()) for flow in MARKED}
        for flow, hold in holds.items():
            hold.enter_context(kinds.pausing(flow))
        run = kinds.start()
        while holds:
            wait_until(lambda: run.poll() is not None or _waiting(kinds, holds) is not None, "an executor works")
            note = _waiting(kinds, holds)
            assert note is not None, end_of(run)
            executor = cluster.executor_in(note.cwd)
            kill_executor(executor)
            killed.append(executor.pid)
            holds.pop(note.flow).close()
    end_of(run)
    lost = [line for line in kinds.log().splitlines() if "Lost executor" in line]
    assert len(lost) >= len(set(killed)) == len(MARKED), lost
    assert kinds.differences(["1"]) == []
    kinds.deployment.expect_a_balanced_ledger("kinds")


def _waiting(kinds: Kinds, holds: dict[str, contextlib.ExitStack]) -> Note | None:
    """A process that waits in one of the flows that are held."""
    return next((note for note in kinds.noted() if note.flow in holds), None)
