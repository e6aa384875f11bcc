"""A refusal survives its note, which says in JSON of which class it is. A decision applies to its batch only."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import places
from tests.cli.project import Project, orders
from tidegate import json_codec
from tidegate.checkpoints import refusal
from tidegate.checkpoints.refusal import REFUSAL
from tidegate.errors import RequestError
from tidegate.errors.refusals import ContractRefusal, GateRefusal, HeldBatch, Refusal, TransformRefusal
from tidegate.lake.place import Place
from tidegate.spec import Flow, SnapshotFeed, Table

SILVER = orders().flow("silver")


BATCH = {"batch_id": st.integers(0)}
CODE = {"code_fingerprint": st.none() | st.text()}
STORED: dict[type[Any], dict[str, st.SearchStrategy[Any]]] = {
    GateRefusal: {**BATCH, "suite_fingerprint": st.none() | st.text(), **CODE},
    HeldBatch: {**BATCH, "statistics_fingerprint": st.text(), **CODE},
    TransformRefusal: {**BATCH, **CODE, "transform_error_share": st.none() | st.floats(0, 1)},
    ContractRefusal: {**BATCH, "schema_change_id": st.text(), "declared": st.text()},
}
"""The JSON of each class, as all releases have written it."""


@pytest.fixture
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    return Project.make(tmp_path_factory.mktemp("refusal") / "project")


@pytest.fixture
def place(project: Project) -> Place:
    """Batch 1 of silver is pending."""
    pipeline = project.declare(orders())
    flow = pipeline.flow("silver")
    written = project.checkpoint(pipeline, flow)
    written.plan(0, {"reservoirVersion": 0}).commit(0).plan(1, {"reservoirVersion": 1})
    return places.current(project.layout, pipeline, flow)


@pytest.mark.slow
@given(st.sampled_from([*STORED]).flatmap(lambda kind: st.tuples(st.just(kind), st.fixed_dictionaries(STORED[kind]))))
def test_a_refusal_that_any_release_has_stored_is_read_as_its_class_and_stored_as_it_was(
    stored: tuple[type[Any], Mapping[str, Any]],
) -> None:
    kind, values = stored
    read = json_codec.decode(json.dumps(values), REFUSAL.content)
    assert type(read) is kind and vars(read) == values
    assert json_codec.to_plain(read) == values


def test_each_refusal_has_a_field_of_its_own_which_every_note_of_it_has() -> None:
    kinds = get_args(Refusal)
    assert set(kinds) == set(STORED)
    for kind in kinds:
        (own,) = json_codec.own_fields(kind, kinds) - {"declared"}
        with pytest.raises(TypeError, match=own):
            kind(batch_id=1, **dict.fromkeys(STORED[kind].keys() - {own, "batch_id"}))


@pytest.mark.parametrize(
    "values", [{}, {"batch_id": 1}, {"batch_id": 1, "suite_fingerprint": "a", "declared": "b"}, [], 1]
)
def test_json_of_no_class_or_of_two_is_no_refusal(values: Any) -> None:
    with pytest.raises(ValueError, match="it is not one of GateRefusal, HeldBatch, TransformRefusal, ContractRefusal"):
        json_codec.from_plain(values, REFUSAL.content)


def refuse(project: Project, batch_id: int) -> None:
    path = REFUSAL.path(Place(project.layout, "orders", "silver", 1, 0))
    Path(path).write_text(json.dumps({"batch_id": batch_id, "suite_fingerprint": "a", "code_fingerprint": "b"}))


def test_only_a_pending_refused_batch_can_be_quarantined_as_a_whole(project: Project, place: Place) -> None:
    with pytest.raises(RequestError, match="no refused batch"):
        refusal.decide(place, SILVER, by="ada", reason="test")
    refuse(project, 0)
    with pytest.raises(RequestError, match="no refused batch"):
        refusal.decide(place, SILVER, by="ada", reason="test")
    refuse(project, 1)
    with pytest.raises(RequestError, match="reason"):
        refusal.decide(place, SILVER, by="ada", reason=" ")
    assert refusal.decide(place, SILVER, by="ada", reason="test") == 1


def test_a_refused_snapshot_does_not_go_to_quarantine(project: Project, place: Place) -> None:
    refuse(project, 1)
    followed = Flow(name="silver", source=SnapshotFeed("bronze.orders"), target=Table("silver.orders", keys=("id",)))
    with pytest.raises(RequestError, match="land a newer snapshot, which takes the place of the refused one"):
        refusal.decide(place, followed, by="ada", reason="test")
    kept = Table("silver.orders", keys=("id",), sequence_by=("snapshot_at",), history="scd2")
    with pytest.raises(RequestError, match="a snapshot without its rows would end every version"):
        refusal.decide(place, replace(followed, target=kept), by="ada", reason="test")


def test_only_a_held_batch_can_be_accepted_also_one_of_groups(project: Project, place: Place) -> None:
    refuse(project, 1)
    with pytest.raises(RequestError, match="not held by a statistic"):
        refusal.decide(place, SILVER, by="ada", reason="test", action="accept")
    note = {"batch_id": 1, "statistics_fingerprint": "a", "code_fingerprint": "b"}
    Path(REFUSAL.path(Place(project.layout, "orders", "silver", 1, 0))).write_text(json.dumps(note))

    output = project.run("quarantine", "accept", "orders", "silver", "--reason", "a holiday")

    assert (output.code, output.err) == (0, "")
    assert output.out.strip() == "silver: batch 1 is accepted and passes with the next run: tidegate run orders"
    assert refusal.decision(place, 1, "accept") is not None
    assert refusal.decision(place, 1, "take") is None
    gold = orders().flow("gold")
    assert refusal.decide(place, gold, by="ada", reason="x", action="accept") == 1


def test_a_decision_is_deleted_with_its_batch_and_affects_no_other(project: Project, place: Place) -> None:
    refuse(project, 1)
    refusal.decide(place, SILVER, by="ada", reason=" wrong feed ")
    decision = refusal.decision(place, 1)
    assert decision is not None
    assert (decision.by, decision.reason) == ("ada", "wrong feed")
    assert refusal.decision(place, 2) is None
    refusal.clear_decision(place, 2)
    assert refusal.decision(place, 1) is not None
    refusal.clear_decision(place, 1)
    assert refusal.decision(place, 1) is None


def test_the_command_records_the_decision_and_prints_the_next_step(project: Project, place: Place) -> None:
    refuse(project, 1)
    output = project.run("quarantine", "take", "orders", "silver", "--reason", "the feed of another shop")
    assert output.code == 0
    assert output.out.strip() == "silver: batch 1 goes to quarantine whole with the next run: tidegate run orders"
    refused = project.run("quarantine", "take", "orders", "gold", "--reason", "x")
    assert refused.code == 64
    assert "recomputes groups" in refused.err
