"""The history of schema changes: each change is recorded once, answers have an author, and decisions change the terms."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.resolved import resolved
from tests.spark_files import Checkpoint, write_refused_schema_change
from tidegate.errors import RequestError
from tidegate.lake.layout import Layout
from tidegate.lake.place import FlowPlace, PipelinePlace, Place
from tidegate.ops import evolution
from tidegate.schema.changes import SchemaChange
from tidegate.schema.contract import Contract
from tidegate.spec import ChangeFeed, FileSource, Flow, Pipeline, Table

pytestmark = pytest.mark.slow

SOURCE = FileSource(path="orders", format="json", schema="id INT", contract=Contract(mode="freeze"))
ORDERS = Pipeline(
    name="orders",
    flows=(
        Flow(name="bronze", source=SOURCE, target=Table("bronze.orders")),
        Flow(
            name="silver",
            source=ChangeFeed("bronze.orders"),
            transform="orders:clean",
            target=Table("silver.orders", keys=("id",), sequence_by=("at",)),
        ),
    ),
)
LINE = evolution.SchemaHistoryLine(
    flow="silver",
    event="refused",
    change=SchemaChange(kind="addition", field="gate", after="int"),
    decision="freeze",
    schema_change_id="0a1b2c3d4e5f",
    version_before=1,
    version_after=1,
    breaks=("orders/gold",),
    batch_id=3,
    run_key="run-1",
)


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout.local(tmp_path / "lake", tmp_path / "landing")


def test_a_change_is_recorded_once(layout: Layout) -> None:
    later = dataclasses.replace(LINE, version_before=2, version_after=2, recorded_at=datetime(2999, 1, 1, tzinfo=UTC))
    assert evolution.read(PipelinePlace(layout, "orders")) == []
    assert evolution.record(PipelinePlace(layout, "orders"), [LINE, LINE]) == [LINE]
    assert evolution.record(PipelinePlace(layout, "orders"), [dataclasses.replace(LINE, run_key="run-2")]) == []
    assert evolution.record(PipelinePlace(layout, "orders"), [later]) == [later]

    first, second = evolution.read(PipelinePlace(layout, "orders"))
    assert first.same_as(LINE)
    assert (first.batch_id, first.run_key, first.breaks) == (3, "run-1", ("orders/gold",))
    assert second.version_after == 2


def test_each_batch_that_a_change_refuses_is_recorded_and_the_question_has_the_change_once(layout: Layout) -> None:
    next_batch = dataclasses.replace(LINE, batch_id=9)
    observed = dataclasses.replace(LINE, event="observed", decision="rescue", schema_change_id="")

    assert evolution.record(PipelinePlace(layout, "orders"), [LINE, next_batch, observed]) == [
        LINE,
        next_batch,
        observed,
    ]
    assert evolution.record(PipelinePlace(layout, "orders"), [dataclasses.replace(observed, batch_id=9)]) == [], (
        "its ledger line has it"
    )

    assert [line.batch_id for line in evolution.refusals(PipelinePlace(layout, "orders"), LINE.schema_change_id)] == [9]
    assert len(evolution.answer(PipelinePlace(layout, "orders"), LINE.schema_change_id, "evolve", "ada")) == 1


def test_an_answer_is_recorded_with_its_author_and_cannot_be_changed(layout: Layout) -> None:
    evolution.record(PipelinePlace(layout, "orders"), [LINE])
    write_refused_schema_change(layout, ORDERS, "silver", LINE.schema_change_id, batch_id=3)
    assert {id_: len(lines) for id_, lines in evolution.open_schema_changes(layout, resolved(ORDERS)).items()} == {
        LINE.schema_change_id: 1
    }

    (answered,) = evolution.answer(PipelinePlace(layout, "orders"), LINE.schema_change_id, "evolve", "ada")

    assert (answered.decision, answered.decided_by) == ("evolve", "ada")
    assert evolution.open_schema_changes(layout, resolved(ORDERS)) == {}
    assert evolution.is_answered(PipelinePlace(layout, "orders"), LINE.schema_change_id)
    assert evolution.answer(PipelinePlace(layout, "orders"), LINE.schema_change_id, "evolve", "bob") == []
    with pytest.raises(RequestError, match="ada answered 'evolve'"):
        evolution.answer(PipelinePlace(layout, "orders"), LINE.schema_change_id, "quarantine", "bob")
    with pytest.raises(RequestError, match="without an answer: none"):
        evolution.answer(PipelinePlace(layout, "orders"), "ffffffffffff", "evolve", "ada")


def other_contract() -> Pipeline:
    bronze = dataclasses.replace(ORDERS.flows[0], source=dataclasses.replace(SOURCE, contract=Contract()))
    return dataclasses.replace(ORDERS, flows=(bronze, ORDERS.flows[1]))


def test_no_flow_waits_for_a_schema_change_if_the_declaration_has_changed(layout: Layout) -> None:
    evolution.record(PipelinePlace(layout, "orders"), [LINE])
    write_refused_schema_change(layout, ORDERS, "silver", LINE.schema_change_id)
    assert list(evolution.open_schema_changes(layout, resolved(ORDERS))) == [LINE.schema_change_id]
    assert evolution.open_schema_changes(layout, resolved(other_contract())) == {}


def test_no_flow_waits_for_a_schema_change_if_its_batch_is_committed_or_was_a_replay(layout: Layout) -> None:
    evolution.record(PipelinePlace(layout, "orders"), [LINE])
    assert evolution.open_schema_changes(layout, resolved(ORDERS)) == {}, "it came from a replay"
    write_refused_schema_change(layout, ORDERS, "silver", LINE.schema_change_id)
    Checkpoint(Place(layout, "orders", "silver", 1, 0).checkpoint).commit(0)
    assert evolution.open_schema_changes(layout, resolved(ORDERS)) == {}


def test_the_terms_of_a_flow_include_its_answers_and_evolved_columns(layout: Layout) -> None:
    evolution.record(
        PipelinePlace(layout, "orders"), [LINE, dataclasses.replace(LINE, flow="other", schema_change_id="x")]
    )
    evolution.answer(PipelinePlace(layout, "orders"), LINE.schema_change_id, "evolve", "ada")
    terms = evolution.terms(FlowPlace(layout, "orders", "silver"), SOURCE)
    assert (terms.action(LINE.change), dict(terms.evolved)) == ("evolve", {})
    assert terms.added == {"gate"}, "older files may lack it"

    evolution.record(PipelinePlace(layout, "orders"), [dataclasses.replace(LINE, event="observed", decision="evolve")])

    assert evolution.terms(FlowPlace(layout, "orders", "silver"), SOURCE).evolved == {"gate": "int"}
    promoted = dataclasses.replace(SOURCE, schema="id INT, Gate INT")
    assert evolution.terms(FlowPlace(layout, "orders", "silver"), promoted).evolved == {}
    assert evolution.terms(FlowPlace(layout, "orders", "other"), SOURCE).answers == {}


def test_the_declared_fingerprint_covers_the_schema_and_its_contract() -> None:
    value = evolution.declared_fingerprint(SOURCE)

    assert value == evolution.declared_fingerprint(dataclasses.replace(SOURCE, max_files_per_trigger=1))
    assert value != evolution.declared_fingerprint(dataclasses.replace(SOURCE, contract=Contract()))
    assert value != evolution.declared_fingerprint(dataclasses.replace(SOURCE, schema="id BIGINT"))
