"""Loading and validation of suites. Needs Great Expectations, but no JVM."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tidegate.errors import SpecError
from tidegate.spark.gate import load_suite
from tidegate.spark.gate.rules import (
    BATCH_RULES,
    COUNTS_ONLY,
    NO_ROW_CONDITION,
    OF_JUDGED_ROWS,
    ROW_RULES,
    STATISTICAL,
    UNIQUENESS,
    UNSUPPORTED,
    short_name,
)

pytestmark = pytest.mark.gx

NOT_NULL = {"type": "expect_column_values_to_not_be_null", "kwargs": {"column": "origin"}, "severity": "critical"}
ONLY_JFK = {"type": "comparison", "column": {"name": "origin"}, "operator": "==", "parameter": "JFK"}


def write_suite(folder: Path, *expectations: Any) -> Path:
    path = folder / "flights" / "silver.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({"name": "flights/silver", "expectations": list(expectations), "meta": {}}))
    return path


def rule(kind: str, severity: str = "critical", **kwargs: Any) -> dict[str, Any]:
    return {"type": kind, "kwargs": kwargs, "severity": severity}


def test_a_suite_has_the_order_severities_and_thresholds_of_its_file(tmp_path: Path) -> None:
    delay = rule("expect_column_values_to_be_between", "info", column="delay", min_value=0, mostly=0.9)
    suite = load_suite(
        write_suite(tmp_path, NOT_NULL, delay, rule("expect_table_row_count_to_be_between", min_value=1)), "x/y"
    )

    assert [(one.name, one.severity, one.mostly, one.of_rows) for one in suite.expectations] == [
        ("not_null(origin)", "critical", 1.0, True),
        ("between(delay)", "info", 0.9, True),
        ("row_count_between", "critical", None, False),
    ]
    assert suite.name == "x/y"


def test_two_rules_for_one_column_get_different_names(tmp_path: Path) -> None:
    wide = rule("expect_column_values_to_be_between", column="delay", max_value=2000)
    narrow = rule("expect_column_values_to_be_between", "warning", column="delay", max_value=600)
    suite = load_suite(write_suite(tmp_path, wide, narrow), "x/y")
    assert [one.name for one in suite.expectations] == ["between(delay)", "between(delay)#2"]


@pytest.mark.parametrize(
    ("kind", "columns", "name"),
    [
        ("expect_column_values_to_be_between", ("delay",), "between(delay)"),
        ("expect_column_values_to_not_be_null", ("origin",), "not_null(origin)"),
        ("expect_column_values_to_not_match_regex", ("tail",), "not_match_regex(tail)"),
        ("expect_column_values_to_be_unique", ("id",), "unique(id)"),
        ("expect_compound_columns_to_be_unique", ("a", "b"), "unique(a, b)"),
        ("expect_select_column_values_to_be_unique_within_record", ("a", "b"), "unique_within_record(a, b)"),
        ("expect_column_value_lengths_to_equal", ("code",), "value_lengths_equal(code)"),
        ("expect_column_pair_values_a_to_be_greater_than_b", ("a", "b"), "pair_values_a_greater_than_b(a, b)"),
        ("expect_column_max_to_be_between", ("delay",), "max_between(delay)"),
        ("expect_table_row_count_to_equal", (), "row_count_equal"),
        ("unexpected_rows_expectation", (), "unexpected_rows"),
    ],
)
def test_short_names(kind: str, columns: tuple[str, ...], name: str) -> None:
    assert short_name(kind, columns) == name


def test_only_the_two_rules_of_uniqueness_share_a_short_name() -> None:
    names: dict[str, set[str]] = {}
    for kind in ROW_RULES + BATCH_RULES:
        names.setdefault(short_name(kind, ("a",)), set()).add(kind)
    assert [kinds for kinds in names.values() if len(kinds) > 1] == [UNIQUENESS]


def test_the_fingerprint_depends_on_the_content_and_not_on_the_formatting(tmp_path: Path) -> None:
    path = write_suite(tmp_path, NOT_NULL)
    before = load_suite(path, "x/y").fingerprint
    path.write_text(json.dumps({**json.loads(path.read_text()), "id": "3f0c"}, indent=4))
    assert load_suite(path, "x/y").fingerprint == before
    write_suite(tmp_path, {**NOT_NULL, "severity": "warning"})
    assert load_suite(path, "x/y").fingerprint != before


def test_the_fingerprint_includes_a_field_id_in_the_arguments_of_a_rule(tmp_path: Path) -> None:
    def fingerprint(kind: str) -> str:
        schema = {"type": "object", "properties": {"id": {"type": kind}}}
        entry = rule("expect_column_values_to_match_json_schema", column="payload", json_schema=schema)
        return load_suite(write_suite(tmp_path, entry), "x/y").fingerprint

    assert fingerprint("string") != fingerprint("integer")


def test_the_error_for_a_missing_suite_names_the_file(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"'flights/silver' .*silver\.json\) does not exist"):
        load_suite(tmp_path / "flights" / "silver.json", "flights/silver")


def test_a_suite_that_is_not_json_is_refused_with_the_line(tmp_path: Path) -> None:
    path = write_suite(tmp_path, NOT_NULL)
    path.write_text('{\n "expectations": [,]}')
    with pytest.raises(SpecError, match=r"not JSON: .* in line 2, column"):
        load_suite(path, "x/y")


@pytest.mark.parametrize("text", ["[]", "{}", '{"expectations": {}}', '{"expectations": []}'])
def test_json_without_a_suite_is_refused(tmp_path: Path, text: str) -> None:
    path = write_suite(tmp_path, NOT_NULL)
    path.write_text(text)
    with pytest.raises(SpecError, match=r"is not a suite|contains no expectation"):
        load_suite(path, "x/y")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ("text", "is not an expectation; allowed"),
        (rule("expect_column_values_to_be_betwen", column="a"), "allowed: expect_column_values_to_be_between"),
        (rule("no_such_thing_at_all", column="a"), "allowed: .*unexpected_rows_expectation"),
        ({**NOT_NULL, "mostly": 0.5}, "'mostly' is not allowed here; allowed: type, kwargs, severity"),
        ({**NOT_NULL, "severity": "fatal"}, "severity='fatal' is not allowed; allowed: critical, warning, info"),
        ({**NOT_NULL, "severity": ["critical"]}, "allowed: critical, warning, info"),
        ({**NOT_NULL, "kwargs": ["origin"]}, "kwargs must be an object"),
        (rule("expect_column_values_to_not_be_null"), "column: field required"),
        (rule("expect_column_values_to_not_be_null", colunm="a", column="b"), "colunm='a': extra fields not permitted"),
        (
            rule("expect_column_values_to_not_be_null", column="a", mostly=1.5),
            "mostly=1.5: allowed: a number from 0 to 1",
        ),
        (rule("expect_column_values_to_not_be_null", column="a", mostly=-0.1), "mostly=-0.1"),
        (rule("expect_column_values_to_not_be_null", column="a", batch_id="b"), "batch_id is not allowed"),
        (
            rule("expect_column_values_to_be_in_set", column="a", value_set={"$PARAMETER": "p"}),
            r"\$PARAMETER is not allowed",
        ),
        (
            rule("expect_column_values_to_be_unique", column="a", row_condition=ONLY_JFK),
            "row_condition is not allowed here: a row that does not meet it",
        ),
        (
            rule("expect_compound_columns_to_be_unique", column_list=["a", "b"], row_condition=ONLY_JFK),
            "row_condition is not allowed here: a row that does not meet it",
        ),
        (
            rule(
                "expect_column_pair_values_to_be_in_set",
                column_A="a",
                column_B="b",
                value_pairs_set=[[1, 2]],
                row_condition=ONLY_JFK,
            ),
            "row_condition is not allowed here: Great Expectations ignores it",
        ),
        (
            rule("expect_column_values_to_be_in_table", column="a", table="/etc/passwd", table_column="b"),
            "table='/etc/passwd': allowed: '<layer>.<table>' with the layer bronze, silver or gold",
        ),
        (rule("unexpected_rows_expectation", unexpected_rows_query="SELECT 1"), "must read FROM {batch}"),
        (
            rule("expect_column_values_to_be_increasing", column="a"),
            "cannot be used in a gate: the rows of a batch have no order",
        ),
        (rule("expect_column_values_to_match_like_pattern", column="a", like_pattern="%"), "cannot be used in a gate"),
    ],
)
def test_the_error_for_an_invalid_expectation_names_it_and_what_is_allowed(
    tmp_path: Path, wrong: Any, message: str
) -> None:
    with pytest.raises(SpecError, match=f"(?s)flights/silver.json.*expectation 2.*{message}"):
        load_suite(write_suite(tmp_path, NOT_NULL, wrong), "x/y")


def test_every_registered_expectation_is_supported_or_refused_with_a_reason() -> None:

    from great_expectations.expectations.registry import list_registered_expectation_implementations

    import tidegate.spark.gate.custom  # noqa: F401 - registers the custom ones

    lists = [*ROW_RULES, *BATCH_RULES, *UNSUPPORTED]
    assert len(lists) == len(set(lists))
    assert set(lists) == set(list_registered_expectation_implementations())
    assert set(ROW_RULES) >= UNIQUENESS | STATISTICAL | OF_JUDGED_ROWS
    assert set(BATCH_RULES) >= COUNTS_ONLY
    assert set(ROW_RULES + BATCH_RULES) >= set(NO_ROW_CONDITION)
