"""Types and formats that are inferred from texts fit the grammar in docs/formats.md."""

from __future__ import annotations

from typing import Any

import pytest

from tidegate.schema import inference


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
    assert inference.of_texts(texts, {}).type == expected


def test_a_few_misfits_do_not_change_the_type_and_are_named() -> None:
    guess = inference.of_texts(["1.50", "2.50", "a lot", "3.50", None, "4.50"], {})
    assert (guess.type, guess.misfits) == ("DECIMAL(18,2)", (2,))
    assert inference.of_texts(["1", "2", "x"], {}).type == "STRING"


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
    assert inference.spelling(columns).values == values


def test_a_pattern_that_could_be_another_is_said() -> None:
    assert inference.spelling([["01/02/2026"]]).why == ("dates are dd/MM/yyyy (they could also be MM/dd/yyyy)",)


def test_types_are_inferred_with_the_formats() -> None:
    formats = {"date": "dd.MM.yyyy", "decimal_comma": True, "true": ("Y",), "false": ("N",)}
    columns: dict[str, list[str | None]] = {
        "DATE": ["31.01.2026"],
        "DECIMAL(18,2)": ["1.234,50", "2,75"],
        "BOOLEAN": ["Y", "N"],
    }
    assert [inference.of_texts(texts, formats).type for texts in columns.values()] == list(columns)


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
    assert inference.of_json(values).type == expected
