"""A contract and the answers of people determine what happens with each schema change."""

from __future__ import annotations

from typing import Any

import pytest

from tidegate.errors import FieldError
from tidegate.schema.changes import SchemaChange
from tidegate.schema.contract import Contract, Terms
from tidegate.schema.ddl import Column
from tidegate.spec import FileSource, KafkaSource

NEW = SchemaChange(kind="addition", field="gate")
RENAMED = SchemaChange(kind="rename_suspect", field="departure_delay", formerly="dep_delay", before="double")
CLASH = SchemaChange(kind="case_clash", field="Origin", formerly="origin")
RETYPED = SchemaChange(kind="type_change", field="dep_delay", before="double")
MISSING = SchemaChange(kind="removal", field="dep_delay", before="double")


@pytest.mark.parametrize(
    "wrong", [{"mode": "strict"}, {"columns": {"a": "drop"}}, {"columns": {"": "rescue"}}, {"columns": 5}]
)
def test_an_invalid_contract_is_refused_when_it_is_declared(wrong: dict[str, Any]) -> None:
    with pytest.raises(FieldError):
        Contract(**wrong)


def test_a_required_field_cannot_be_rescued_value_by_value() -> None:
    for mode in ("rescue", "discard_value"):
        with pytest.raises(FieldError, match="id"):
            FileSource(path="a", format="csv", schema="id INT NOT NULL", contract=Contract(columns={"id": mode}))
    with pytest.raises(FieldError, match="contract"):
        KafkaSource(topic="a", schema="id INT", contract="freeze")  # type: ignore[arg-type]


def test_the_mode_of_a_column_overrides_the_mode_of_the_table() -> None:
    terms = Terms(contract=Contract(mode="evolve", columns={"gate": "discard_value", "dep_delay": "freeze"}))

    assert [terms.action(change) for change in (NEW, RENAMED, RETYPED, MISSING)] == [
        "discard_value",
        "freeze",
        "freeze",
        "freeze",
    ]


def test_only_a_new_field_with_a_valid_column_name_evolves() -> None:
    terms = Terms(contract=Contract(mode="evolve"))

    assert [terms.action(change) for change in (NEW, RENAMED)] == ["evolve", "evolve"]
    assert [terms.action(change) for change in (CLASH, RETYPED, MISSING)] == ["rescue", "rescue", "rescue"]
    assert terms.action(SchemaChange(kind="addition", field="flight no")) == "rescue"
    kinds = {"struct<zipCode:int>": "evolve", "struct<`zip code`:int>": "rescue"}
    assert {kind: terms.action(SchemaChange(kind="addition", field="place", after=kind)) for kind in kinds} == kinds


def test_an_answer_applies_to_its_own_change_and_only_in_a_frozen_contract() -> None:
    answers = {NEW.identity(): "evolve", RETYPED.identity(): "evolve", MISSING.identity(): "quarantine"}
    frozen = Terms(contract=Contract(mode="freeze"), answers=answers)  # type: ignore[arg-type]

    assert [frozen.action(change) for change in (NEW, RETYPED, MISSING, RENAMED)] == [
        "evolve",
        "rescue",
        "quarantine",
        "freeze",
    ]
    assert frozen.keeps_row("dep_delay") == "rescue"
    assert frozen.keeps_row("arr_delay") is None
    assert Terms(contract=Contract(mode="rescue"), answers=answers).action(MISSING) == "rescue"  # type: ignore[arg-type]


WIDER = SchemaChange(kind="widening", field="seats", before="int", after="bigint")
COLUMNS = (
    Column("id", "int", required=True),
    Column("seats", "INT"),
    Column("dep_delay", "double"),
    Column("note", "String"),
)


def test_values_of_an_accepted_type_change_or_widening_are_rescued() -> None:
    answers = {WIDER.identity(): "evolve", RETYPED.identity(): "evolve"}
    terms = Terms(contract=Contract(mode="freeze"), answers=answers, columns=COLUMNS)  # type: ignore[arg-type]
    assert [terms.keeps_row(name) for name in ("seats", "dep_delay", "note")] == ["rescue", "rescue", None]
    assert [terms.outcome(change, terms.action(change)) for change in (WIDER, RETYPED)] == ["rescue", "rescue"]
    required = Terms(contract=terms.contract, answers=answers, columns=(Column("seats", "int", required=True),))  # type: ignore[arg-type]
    assert required.keeps_row("seats") is None, "a column that is NOT NULL cannot be NULL instead"


@pytest.mark.parametrize(
    ("contract", "change", "outcome"),
    [
        (Contract(), RETYPED, "quarantine"),
        (Contract(), WIDER, "quarantine"),
        (Contract(mode="evolve"), RETYPED, "quarantine"),
        (Contract(mode="discard_value"), RETYPED, "quarantine"),
        (Contract(columns={"dep_delay": "rescue"}), RETYPED, "rescue"),
        (Contract(mode="evolve", columns={"dep_delay": "discard_value"}), RETYPED, "discard_value"),
        (Contract(mode="freeze"), RETYPED, "freeze"),
        (Contract(), SchemaChange(kind="type_change", field="note", before="string", after="int"), "rescue"),
        (Contract(), SchemaChange(kind="type_change", field="gate", before="int", after="boolean"), "rescue"),
        (Contract(), MISSING, "rescue"),
        (Contract(), SchemaChange(kind="removal", field="id", before="int"), "quarantine"),
        (Contract(), NEW, "rescue"),
    ],
)
def test_the_outcome_of_a_change_is_what_happens_with_its_rows(
    contract: Contract, change: SchemaChange, outcome: str
) -> None:
    terms = Terms(contract=contract, columns=COLUMNS, evolved={"gate": "int"})
    assert terms.outcome(change, terms.action(change)) == outcome


NESTED = SchemaChange(kind="widening", field="place", before="struct<zip:int>", after="struct<zip:int,city:string>")


@pytest.mark.parametrize(
    ("contract", "change", "effect"),
    [
        (Contract(), NEW, "its values are in _rescued"),
        (Contract(mode="evolve"), NEW, "its values are in a column of that name"),
        (Contract(mode="discard_value"), NEW, "its values are in bronze only"),
        (Contract(), WIDER, "0 rows whose value does not fit went to quarantine"),
        (Contract(), RETYPED, "2 rows whose value does not fit went to quarantine"),
        (Contract(columns={"dep_delay": "rescue"}), RETYPED, "a value that does not fit is NULL, and in _rescued"),
        (
            Contract(columns={"dep_delay": "discard_value"}),
            RETYPED,
            "a value that does not fit is NULL, and in bronze only",
        ),
        (
            Contract(),
            SchemaChange(kind="type_change", field="note", before="string", after="int"),
            "its values are stored as text",
        ),
        (
            Contract(),
            SchemaChange(kind="type_change", field="gate", before="int"),
            "a value that does not fit the column is in _rescued",
        ),
        (Contract(), MISSING, "the column is NULL in records without it"),
        (Contract(), SchemaChange(kind="removal", field="id", before="int"), "1 row without it went to quarantine"),
        (
            Contract(),
            NESTED,
            "0 rows whose value does not fit went to quarantine; nested fields that the schema lacks are in bronze only",
        ),
    ],
)
def test_the_effect_of_a_change_says_where_the_values_are_and_how_many_rows_went_to_quarantine(
    contract: Contract, change: SchemaChange, effect: str
) -> None:
    columns = (*COLUMNS, Column("place", "struct<zip:int>"))
    evolved = {} if change is NEW else {"gate": "int"}
    terms = Terms(contract=contract, columns=columns, evolved=evolved)
    rules = {"wrong_type(dep_delay)": 2, "required(id)": 1, "wrong_type(other)": 9}
    assert terms.effect(change, terms.action(change), rules) == effect


def test_the_effect_of_an_answered_change_counts_the_rows_with_it() -> None:
    assert (
        Terms(columns=COLUMNS).effect(NEW, "quarantine", {"schema_change(gate)": 3})
        == "3 rows with it went to quarantine"
    )


def test_discarded_fields_are_named_as_exceptions_to_the_table_mode() -> None:
    assert Terms().discards() == (False, ())
    assert Terms(contract=Contract(columns={"a": "discard_value", "b": "freeze"})).discards() == (False, ("a",))
    mostly = Contract(mode="discard_value", columns={"a": "rescue", "b": "discard_value"})
    assert Terms(contract=mostly).discards() == (True, ("a",))
