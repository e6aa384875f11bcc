"""Types and formats that are inferred from texts fit the grammar in docs/formats.md."""

from __future__ import annotations

from typing import Any

import pytest

from tidegate.scaffolding import spellings, value_types
from tidegate.scaffolding.value_types import Guess, Oddity


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["1", "-2", None, "+3"], "INT"),
        (["1", "3000000000"], "BIGINT"),
        (["007", "123"], "STRING"),
        (["+491701234567", "+491701234568"], "STRING"),
        (["89490200001234567890", "1"], "STRING"),
        (["1.50", "2.25", "3"], "DECIMAL(18,2)"),
        (["1.5", "2.25"], "DOUBLE"),
        (["1e3", "2.25"], "DOUBLE"),
        (["true", "False"], "BOOLEAN"),
        (["2026-01-31", "2026-02-28"], "DATE"),
        (["2026-02-30"], "STRING"),
        (["2026-01-31T12:30", "2026-01-31 12:30:05.25+02:00", "2026-01-31T12:30:05Z"], "TIMESTAMP"),
        (["12:30"], "STRING"),
        (["a", "1"], "STRING"),
        ([None, None], "STRING"),
    ],
)
def test_the_type_is_the_narrowest_that_the_texts_fit(texts: list[str | None], expected: str) -> None:
    assert value_types.of_texts(texts, {}).type == expected


MANY = 19
"""Values of the same form beside an odd one."""


@pytest.mark.parametrize(
    ("texts", "odd", "expected"),
    [
        (["1.50", "2.25"], "a lot", "DECIMAL(18,2)"),
        (["1", "2"], "x", "INT"),
        (["true", "false"], "maybe", "BOOLEAN"),
        (["2026-01-31", "2026-02-28"], "2026-02-30", "DATE"),
        (["2026-01-31T12:30"], "2026-01-31T12:60", "TIMESTAMP"),
        (["2026-01-31T12:30"], "2026-01-31T12:30+19:00", "TIMESTAMP"),
        (["1.50", "2.25"], "1e400", "DECIMAL(18,2)"),
    ],
)
def test_one_value_that_does_not_fit_changes_no_type_and_is_a_misfit(texts: list[str], odd: str, expected: str) -> None:
    guess = value_types.of_texts([*texts * MANY, odd], {})
    assert guess == Guess(type=expected, misfits=(Oddity(record=MANY * len(texts), value=odd, type=expected),))


@pytest.mark.parametrize(
    ("texts", "odd", "narrow", "expected"),
    [
        (["1", "2"], "2.5", "INT", "DECIMAL(18,1)"),
        (["1", "2"], "1e-3", "INT", "DECIMAL(18,3)"),
        (["1", "2"], "1e-30", "INT", "DOUBLE"),
        (["1", "2"], "3000000000", "INT", "BIGINT"),
        (["3000000000"], "30000000000000000000", "BIGINT", "DECIMAL(38,0)"),
        (["1", "2"], "007", "INT", "STRING"),
        (["1.50", "2.25"], "1.125", "DECIMAL(18,2)", "DECIMAL(18,3)"),
        (["1.50", "2.25"], "1.123456789", "DECIMAL(18,2)", "DOUBLE"),
        (["1.50"], "12345678901234567890.50", "DECIMAL(18,2)", "DECIMAL(38,2)"),
        (["2026-01-31"], "2026-01-31T12:30", "DATE", "TIMESTAMP"),
    ],
)
def test_one_value_that_a_wider_type_has_makes_the_type_wider(
    texts: list[str], odd: str, narrow: str, expected: str
) -> None:
    guess = value_types.of_texts([odd, *texts * MANY], {})
    assert (guess.type, guess.misfits) == (expected, ())
    assert guess.wider == (Oddity(record=0, value=odd, type=narrow),)


def test_values_of_which_many_do_not_fit_are_texts_and_those_are_named() -> None:
    guess = value_types.of_texts(["1", "2", "x"], {})
    assert (guess.type, guess.wider) == ("STRING", (Oddity(record=2, value="x", type="INT"),))


@pytest.mark.parametrize(
    ("usual", "odd", "expected", "path"),
    [
        ({"age": 3, "name": "a"}, "n/a", "STRUCT<age: INT, name: STRING>", ()),
        ({"age": 3, "name": "a"}, {"age": "three", "name": "b"}, "STRUCT<age: INT, name: STRING>", ("age",)),
        ({"age": 3, "name": "a"}, [{"age": 3}], "STRUCT<age: INT, name: STRING>", ()),
        ([1, 2], [3, "x"], "ARRAY<INT>", ()),
        ([1, 2], 3, "ARRAY<INT>", ()),
        (
            [{"at": {"day": "2026-01-05"}}],
            [{"at": {"day": "soon"}}],
            "ARRAY<STRUCT<at: STRUCT<day: DATE>>>",
            ("at", "day"),
        ),
        (3, {"a": 1}, "INT", ()),
        (True, "yes", "BOOLEAN", ()),
        ("2026-01-05T09:30:00Z", 5, "TIMESTAMP", ()),
    ],
)
def test_one_odd_value_changes_no_type_of_json(usual: Any, odd: Any, expected: str, path: tuple[str, ...]) -> None:
    guess = value_types.of_json([*[usual] * MANY, odd])
    assert (guess.type, guess.wider) == (expected, ())
    assert [(each.record, each.path) for each in guess.misfits] == [(MANY, path)]


def test_values_of_several_kinds_are_texts_and_the_less_common_ones_are_named() -> None:
    guess = value_types.of_json([{"x": 1}, [{"x": 1}], "none", {"x": 2}])
    odd = [
        Oddity(record=record, value=value, type="STRUCT<x: INT>") for record, value in ((1, [{"x": 1}]), (2, "none"))
    ]
    assert (guess.type, guess.wider) == ("STRING", tuple(odd))


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1, 2, "3"], "INT"),
        ([1, 2, "", 3], "INT"),
        ([True, "true"], "BOOLEAN"),
        ([{"a": 1}, {"a": "x"}], "STRUCT<a: STRING>"),
        ([{"a": 1}, {"a": 2**63}, *[{"a": 2}] * MANY], "STRUCT<a: DECIMAL(38,0)>"),
    ],
)
def test_values_that_a_type_can_have_in_several_spellings_do_not_make_a_text(values: list[Any], expected: str) -> None:
    guess = value_types.of_json(values)
    assert (guess.type, guess.misfits) == (expected, ())


@pytest.mark.parametrize(
    ("columns", "values"),
    [
        ([["1", "2"]], {}),
        ([["31.01.2026"], ["x"]], {"date": "dd.MM.yyyy"}),
        ([["31.01.2026 10:30"], ["31.01.2026"]], {"timestamp": "dd.MM.yyyy HH:mm", "date": "dd.MM.yyyy"}),
        ([["31/01/2026"], ["01/02/2026"]], {"date": "dd/MM/yyyy"}),
        ([["01/31/2026"], ["01/02/2026"]], {"date": "MM/dd/yyyy"}),
        ([["1.234,50", "2,5", "7,25"]], {"decimal_comma": True}),
        ([["Y", "N", "Y"]], {"true": ("Y",), "false": ("N",)}),
    ],
)
def test_the_formats_are_those_of_most_columns(columns: list[list[str | None]], values: dict[str, Any]) -> None:
    assert spellings.spelling(columns).values == values


def test_a_pattern_that_could_be_another_is_said() -> None:
    assert spellings.spelling([["01/02/2026"]]).why == ("dates are dd/MM/yyyy (they could also be MM/dd/yyyy)",)


def test_types_are_inferred_with_the_formats() -> None:
    formats = {"date": "dd.MM.yyyy", "decimal_comma": True, "true": ("Y",), "false": ("N",)}
    columns: dict[str, list[str | None]] = {
        "DATE": ["31.01.2026"],
        "DECIMAL(18,2)": ["1.234,50", "2,75"],
        "BOOLEAN": ["Y", "N"],
    }
    assert [value_types.of_texts(texts, formats).type for texts in columns.values()] == list(columns)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1, 2, None], "INT"),
        ([1, 2.5], "DOUBLE"),
        ([2**63, 1], "STRING"),
        ([True, False], "BOOLEAN"),
        (["19.90", "1.00"], "STRING"),
        (["2026-01-05T09:30:00Z"], "TIMESTAMP"),
        ([{"a": 1}, {"b c": "x"}], "STRUCT<a: INT, `b c`: STRING>"),
        ([[1, 2], []], "ARRAY<INT>"),
        ([[{"a": True}]], "ARRAY<STRUCT<a: BOOLEAN>>"),
        ([{}], "STRING"),
        ([1, "a"], "STRING"),
    ],
)
def test_json_values_have_the_types_that_they_were_written_with(values: list[Any], expected: str) -> None:
    assert value_types.of_json(values).type == expected
