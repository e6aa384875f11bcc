"""A contract says what happens with each change, and what people answered completes it."""

from __future__ import annotations

from typing import Any

import pytest

from tidegate.contract import Contract, Terms
from tidegate.drift import Change
from tidegate.errors import FieldError
from tidegate.spec import FileSource, KafkaSource

NEW = Change(kind="addition", field="gate")
RENAMED = Change(kind="rename_suspect", field="departure_delay", formerly="dep_delay", before="double")
CLASH = Change(kind="case_clash", field="Origin", formerly="origin")
RETYPED = Change(kind="type_change", field="dep_delay", before="double")
GONE = Change(kind="removal", field="dep_delay", before="double")


@pytest.mark.parametrize(
    "wrong", [{"mode": "strict"}, {"columns": {"a": "drop"}}, {"columns": {"": "rescue"}}, {"columns": 5}]
)
def test_a_wrong_contract_is_refused_when_it_is_declared(wrong: dict[str, Any]) -> None:
    with pytest.raises(FieldError):
        Contract(**wrong)


def test_a_required_field_cannot_be_rescued_value_by_value() -> None:
    for mode in ("rescue", "discard_value"):
        with pytest.raises(FieldError, match="id"):
            FileSource(path="a", format="csv", schema="id INT NOT NULL", contract=Contract(columns={"id": mode}))  # type: ignore[dict-item]
    with pytest.raises(FieldError, match="contract"):
        KafkaSource(topic="a", schema="id INT", contract="freeze")  # type: ignore[arg-type]


def test_the_mode_of_a_column_comes_before_that_of_the_table() -> None:
    terms = Terms(contract=Contract(mode="evolve", columns={"gate": "discard_value", "dep_delay": "freeze"}))

    assert [terms.action(change) for change in (NEW, RENAMED, RETYPED, GONE)] == [
        "discard_value",
        "freeze",
        "freeze",
        "freeze",
    ]


def test_only_a_new_field_with_the_name_of_a_column_evolves() -> None:
    terms = Terms(contract=Contract(mode="evolve"))

    assert [terms.action(change) for change in (NEW, RENAMED)] == ["evolve", "evolve"]
    assert [terms.action(change) for change in (CLASH, RETYPED, GONE)] == ["rescue", "rescue", "rescue"]
    assert terms.action(Change(kind="addition", field="flight no")) == "rescue"


def test_an_answer_opens_what_is_frozen_and_nothing_else() -> None:
    answers = {NEW.identity(): "evolve", RETYPED.identity(): "evolve", GONE.identity(): "quarantine"}
    frozen = Terms(contract=Contract(mode="freeze"), answers=answers)  # type: ignore[arg-type]

    assert [frozen.action(change) for change in (NEW, RETYPED, GONE, RENAMED)] == [
        "evolve",
        "rescue",
        "quarantine",
        "freeze",
    ]
    assert frozen.keeps_row("dep_delay") == "rescue"
    assert frozen.keeps_row("arr_delay") is None
    assert Terms(contract=Contract(mode="rescue"), answers=answers).action(GONE) == "rescue"  # type: ignore[arg-type]


def test_what_is_left_out_is_known_by_name() -> None:
    assert Terms().discards() == (False, ())
    assert Terms(contract=Contract(columns={"a": "discard_value", "b": "freeze"})).discards() == (False, ("a",))
    mostly = Contract(mode="discard_value", columns={"a": "rescue", "b": "discard_value"})
    assert Terms(contract=mostly).discards() == (True, ("a",))
