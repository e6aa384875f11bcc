"""Validation and descriptions of selections."""

from __future__ import annotations

import pytest

from tidegate.errors import RequestError
from tidegate.quarantine.selection import Selection, age


@pytest.mark.parametrize(
    "rule",
    [
        "between(dep_delay)",
        "wrong_type(a, b)",
        "malformed_line",
        "unique(id)#2",
        "schema_change(name#1a2b3c4d)",
        "schema_change((more than 100 names))",
        "schema_change(user-agent)",
        "between(payload.amount)",
        "not_null(Größe in m²)",
        f"unique({', '.join(f'column_number_{n}' for n in range(40))})",
    ],
)
def test_valid_rule_names_are_accepted(rule: str) -> None:
    assert Selection.check(rule=rule).rule == rule


@pytest.mark.parametrize(
    "fields",
    [
        {"rule": "between(a)' OR true --"},
        {"rule": "Robert'); DROP"},
        {"rule": "between(a'b)"},
        {"rule": "between(a\\)"},
        {"rule": "between(a\n)"},
        {"rule": "between()"},
        {"rule": "between(a) OR true"},
        {"since": "2026-13-01"},
        {"until": "2026-01-01T00:00"},
        {"until": "yesterday"},
        {"since": "2026-01-02", "until": "2026-01-01"},
        {"since": "0001-01-01"},
        {"until": "9999-12-31"},
    ],
)
def test_malformed_rules_and_days_are_refused(fields: dict[str, str]) -> None:
    with pytest.raises(RequestError):
        Selection.check(**fields)


def test_a_selection_has_a_description() -> None:
    summary = Selection.check(rule="between(amount)", since="2026-01-05", until="2026-01-06").summary()
    assert summary == "of between(amount) since 2026-01-05 until 2026-01-06"
    assert Selection().summary() == ""


def test_ages_are_days_or_hours() -> None:
    assert age("30d").in_hours() == 720
    assert age("12h").in_hours() == 12
    for wrong in ("30", "0d", "-1d", "1w", "d", "999999d"):
        with pytest.raises(RequestError, match="days or hours"):
            age(wrong)
