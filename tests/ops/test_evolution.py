"""The history of schemas: each change once, answers with who gave them, and what a contract became by them."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from tests.written import Checkpoint, drift_waits
from tidegate.errors import RequestError
from tidegate.layout import Layout
from tidegate.ops import evolution
from tidegate.schema.contract import Contract
from tidegate.schema.drift import Change
from tidegate.spec import ChangeFeed, FileSource, Flow, Pipeline, Table

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
LINE = evolution.Line(
    flow="silver",
    event="refused",
    change=Change(kind="addition", field="gate", after="int"),
    decision="freeze",
    drift="0a1b2c3d4e5f",
    version_before=1,
    version_after=1,
    breaks=("orders/gold",),
    batch_id=3,
    run_key="run-1",
)


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(tmp_path / "lake", tmp_path / "landing")


def test_a_change_is_recorded_once_however_often_it_is_seen(layout: Layout) -> None:
    later = dataclasses.replace(LINE, version_before=2, version_after=2, recorded_at="2999-01-01T00:00:00Z")
    assert evolution.read(layout, "orders") == []
    assert evolution.record(layout, "orders", [LINE, LINE]) == [LINE]
    assert evolution.record(layout, "orders", [dataclasses.replace(LINE, batch_id=9, run_key="run-2")]) == []
    assert evolution.record(layout, "orders", [later]) == [later]

    first, second = evolution.read(layout, "orders")
    assert first.same_as(LINE)
    assert (first.batch_id, first.run_key, first.breaks) == (3, "run-1", ("orders/gold",))
    assert second.version_after == 2


def test_an_answer_is_kept_with_who_gave_it_and_is_not_changed(layout: Layout) -> None:
    evolution.record(layout, "orders", [LINE])
    drift_waits(layout, ORDERS, "silver", LINE.drift, batch_id=3)
    assert {name: len(lines) for name, lines in evolution.waiting(layout, ORDERS).items()} == {LINE.drift: 1}

    (answered,) = evolution.answer(layout, "orders", LINE.drift, "evolve", "ada")

    assert (answered.decision, answered.decided_by) == ("evolve", "ada")
    assert evolution.waiting(layout, ORDERS) == {}
    assert evolution.is_answered(layout, "orders", LINE.drift)
    assert evolution.answer(layout, "orders", LINE.drift, "evolve", "bob") == []
    with pytest.raises(RequestError, match="ada answered 'evolve'"):
        evolution.answer(layout, "orders", LINE.drift, "quarantine", "bob")
    with pytest.raises(RequestError, match="without an answer: none"):
        evolution.answer(layout, "orders", "ffffffffffff", "evolve", "ada")


def other_contract() -> Pipeline:
    bronze = dataclasses.replace(ORDERS.flows[0], source=dataclasses.replace(SOURCE, contract=Contract()))
    return dataclasses.replace(ORDERS, flows=(bronze, ORDERS.flows[1]))


def test_nobody_waits_for_a_drift_that_the_declaration_has_overtaken(layout: Layout) -> None:
    evolution.record(layout, "orders", [LINE])
    drift_waits(layout, ORDERS, "silver", LINE.drift)
    assert list(evolution.waiting(layout, ORDERS)) == [LINE.drift]
    assert evolution.waiting(layout, other_contract()) == {}


def test_nobody_waits_for_a_drift_whose_batch_is_done_or_was_never_one_of_the_stream(layout: Layout) -> None:
    evolution.record(layout, "orders", [LINE])
    assert evolution.waiting(layout, ORDERS) == {}, "it came from a replay"
    drift_waits(layout, ORDERS, "silver", LINE.drift)
    Checkpoint(layout.checkpoint("orders", "silver", 1, 0)).commit(0)
    assert evolution.waiting(layout, ORDERS) == {}


def test_the_terms_of_a_flow_have_its_answers_and_its_evolved_columns(layout: Layout) -> None:
    evolution.record(layout, "orders", [LINE, dataclasses.replace(LINE, flow="other", drift="x")])
    evolution.answer(layout, "orders", LINE.drift, "evolve", "ada")
    terms = evolution.terms(layout, "orders", "silver", SOURCE)
    assert (terms.action(LINE.change), dict(terms.evolved)) == ("evolve", {})
    assert terms.added == {"gate"}, "older files may lack it"

    evolution.record(layout, "orders", [dataclasses.replace(LINE, event="observed", decision="evolve")])

    assert evolution.terms(layout, "orders", "silver", SOURCE).evolved == {"gate": "int"}
    promoted = dataclasses.replace(SOURCE, schema="id INT, Gate INT")
    assert evolution.terms(layout, "orders", "silver", promoted).evolved == {}
    assert evolution.terms(layout, "orders", "other", SOURCE).answers == {}


def test_what_refuses_a_batch_is_the_schema_and_its_contract() -> None:
    told = evolution.declared_fingerprint(SOURCE)

    assert told == evolution.declared_fingerprint(dataclasses.replace(SOURCE, max_files_per_trigger=1))
    assert told != evolution.declared_fingerprint(dataclasses.replace(SOURCE, contract=Contract()))
    assert told != evolution.declared_fingerprint(dataclasses.replace(SOURCE, schema="id BIGINT"))
