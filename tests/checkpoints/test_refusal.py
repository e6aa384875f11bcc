"""A person's decision about a refused batch is about that batch alone."""

from __future__ import annotations

import json

import pytest

from tests.cli.project import Project, orders
from tidegate.checkpoints import checkpoint, refusal
from tidegate.checkpoints.checkpoint import CheckpointRef
from tidegate.errors import RequestError

SILVER = orders().flow("silver")


@pytest.fixture
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    return Project.make(tmp_path_factory.mktemp("refusal") / "project")


@pytest.fixture
def ref(project: Project) -> CheckpointRef:
    """Silver has batch 1 in hand."""
    pipeline = project.declare(orders())
    flow = pipeline.flow("silver")
    made = project.checkpoint(pipeline, flow)
    made.plan(0, {"reservoirVersion": 0}).commit(0).plan(1, {"reservoirVersion": 1})
    return checkpoint.current(project.layout, pipeline, flow)


def refuse(project: Project, batch_id: int) -> None:
    path = project.layout.refusal("orders", "silver", 1, 0)
    path.write_text(json.dumps({"batch_id": batch_id, "suite_fingerprint": "a", "code_fingerprint": "b"}))


def test_only_the_refused_batch_that_waits_can_be_taken(project: Project, ref: CheckpointRef) -> None:
    with pytest.raises(RequestError, match="no refused batch"):
        refusal.take(project.layout, ref, SILVER, by="ada", reason="test")
    refuse(project, 0)
    with pytest.raises(RequestError, match="no refused batch"):
        refusal.take(project.layout, ref, SILVER, by="ada", reason="test")
    refuse(project, 1)
    with pytest.raises(RequestError, match="reason"):
        refusal.take(project.layout, ref, SILVER, by="ada", reason=" ")
    assert refusal.take(project.layout, ref, SILVER, by="ada", reason="test") == 1


def test_a_decision_ends_with_its_batch_and_touches_no_other(project: Project, ref: CheckpointRef) -> None:
    refuse(project, 1)
    refusal.take(project.layout, ref, SILVER, by="ada", reason=" wrong feed ")
    taken = refusal.taken(project.layout, ref, 1)
    assert taken is not None
    assert (taken.by, taken.reason) == ("ada", "wrong feed")
    assert refusal.taken(project.layout, ref, 2) is None
    refusal.end(project.layout, ref, 2)
    assert refusal.taken(project.layout, ref, 1) is not None
    refusal.end(project.layout, ref, 1)
    assert refusal.taken(project.layout, ref, 1) is None


def test_the_command_takes_it_and_says_what_to_do_next(project: Project, ref: CheckpointRef) -> None:
    refuse(project, 1)
    told = project.run("quarantine", "take", "orders", "silver", "--reason", "the feed of another shop")
    assert told.code == 0
    assert told.out.strip() == "silver: batch 1 goes to quarantine whole with the next run: tidegate run orders"
    refused = project.run("quarantine", "take", "orders", "gold", "--reason", "x")
    assert refused.code == 64
    assert "recomputes groups" in refused.err
