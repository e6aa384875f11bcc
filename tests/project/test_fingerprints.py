"""A fingerprint changes if and only if the content that it identifies changes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.spec.trips import SILVER
from tidegate.project import fingerprints
from tidegate.project.fingerprints import code_fingerprint, suite_fingerprint

RULE = {"type": "expect_column_values_to_not_be_null", "kwargs": {"column": "id"}, "severity": "critical"}


def fingerprint(folder: Path, suite: object, **layout: int) -> str:
    (folder / "suite.json").write_text(json.dumps(suite, **layout))  # type: ignore[arg-type]
    value = suite_fingerprint(folder / "suite.json")
    assert len(value) == 16
    return value


def test_layout_and_generated_ids_do_not_change_a_suites_fingerprint(tmp_path: Path) -> None:
    plain = fingerprint(tmp_path, {"name": "a", "expectations": [RULE]})
    assert fingerprint(tmp_path, {"expectations": [{"id": "9", **RULE}], "id": "7", "name": "a"}, indent=3) == plain


@pytest.mark.parametrize(
    "changed",
    [
        {"severity": "warning"},
        {"kwargs": {"column": "other"}},
        {"kwargs": {"column": "id", "mostly": 0.5}},
        {"type": "other"},
    ],
)
def test_a_changed_rule_changes_the_fingerprint(tmp_path: Path, changed: dict[str, object]) -> None:
    plain = fingerprint(tmp_path, {"name": "a", "expectations": [RULE]})
    assert fingerprint(tmp_path, {"name": "a", "expectations": [{**RULE, **changed}]}) != plain
    assert fingerprint(tmp_path, {"name": "a", "expectations": [RULE, {**RULE, **changed}]}) != plain


def test_a_parameter_named_id_counts(tmp_path: Path) -> None:
    def suite(value: str) -> dict[str, object]:
        return {"name": "a", "expectations": [{**RULE, "kwargs": {"id": value}}]}

    assert fingerprint(tmp_path, suite("x")) != fingerprint(tmp_path, suite("y"))


def test_a_suite_that_cannot_be_read_raises_an_error(tmp_path: Path) -> None:
    with pytest.raises(OSError, match=r"suite\.json"):
        suite_fingerprint(tmp_path / "suite.json")
    (tmp_path / "suite.json").write_text("{")
    with pytest.raises(json.JSONDecodeError):
        suite_fingerprint(tmp_path / "suite.json")


def test_edited_code_has_another_fingerprint(tmp_path: Path) -> None:
    path = tmp_path / "trips.py"
    path.write_text("def clean(rows):\n    return rows\n")
    before = code_fingerprint(path)
    assert len(before) == 16
    path.write_text("def clean(rows):\n    return rows.distinct()\n")
    assert code_fingerprint(path) != before


def test_a_fingerprint_does_not_depend_on_the_order_of_fields() -> None:
    fields = SILVER.remembered()
    assert fingerprints.fingerprint(dict(reversed(fields.items()))) == fingerprints.fingerprint(fields)
    assert len(fingerprints.fingerprint(fields)) == 16
