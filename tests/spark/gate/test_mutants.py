"""Mutation tests: which changes of valid rows a suite detects."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tidegate.errors import SpecError
from tidegate.spark.gate import load_suite
from tidegate.spark.gate.mutants import judge, make_mutants

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.jvm


def detected(folder: Path, rows: DataFrame, *expectations: tuple[str, dict[str, Any]]) -> dict[tuple[str, str], Any]:
    path = folder / "silver.json"
    plain = [{"type": kind, "kwargs": kwargs} for kind, kwargs in expectations]
    path.write_text(json.dumps({"name": "x/silver", "expectations": plain}))
    done: list[int] = []
    mutants = make_mutants(rows.schema)
    results = judge(load_suite(path, "x/silver"), rows, mutants, done.append)
    assert done == list(range(1, len(mutants) + 1))
    return {(each.mutant.column, each.mutant.change): each.rules for each in results}


@pytest.fixture
def rows(spark: SparkSession) -> DataFrame:
    """Twenty valid rows and an invalid one."""
    plain = [(number, f"code{number % 9}", number / 2) for number in range(20)]
    return spark.createDataFrame([*plain, (20, "code", -5.0)], "id bigint, code string, weight double").selectExpr(
        "*", "timestamp'2026-01-05' AS at"
    )


def test_each_change_is_reported_with_the_rules_that_detect_it(rows: DataFrame, tmp_path: Path) -> None:
    rules = detected(
        tmp_path,
        rows,
        ("expect_column_values_to_be_between", {"column": "weight", "min_value": 0}),
        ("expect_column_values_to_match_regex", {"column": "code", "regex": "^code"}),
        ("expect_column_values_to_not_be_null", {"column": "code"}),
        ("expect_column_values_to_be_unique", {"column": "id"}),
        ("expect_column_mean_to_be_between", {"column": "weight", "max_value": 100}),
    )
    assert rules["weight", "too small"] == ("between(weight)",)
    assert rules["weight", "too large"] == ("mean_between(weight)",)
    assert rules["weight", "null"] == ("mean_between(weight)",)
    assert rules["code", "null"] == ("not_null(code)",)
    assert rules["code", "truncated"] == rules["code", "a number"] == ("match_regex(code)",)
    assert rules["id", "too large"] == rules["*", "doubled rows"] == ("unique(id)",)
    assert rules["id", "null"] == rules["at", "late"] == rules["at", "too far ahead"] == ()


def test_a_query_is_evaluated_for_every_column(rows: DataFrame, tmp_path: Path) -> None:
    query = "SELECT * FROM {batch} WHERE weight > 1000 OR code IS NULL"
    rules = detected(
        tmp_path, rows.select("code", "weight"), ("unexpected_rows_expectation", {"unexpected_rows_query": query})
    )
    assert {mutant for mutant, names in rules.items() if names} == {("weight", "too large"), ("code", "null")}


def test_another_value_with_the_same_key_is_detected_by_uniqueness_only(rows: DataFrame, tmp_path: Path) -> None:
    mutants = [mutant for mutant in make_mutants(rows.schema, ("id",), ("at",)) if mutant.doubled]
    assert [(mutant.column, mutant.change) for mutant in mutants] == [
        ("*", "doubled rows"),
        ("code", "same key, another value"),
    ]
    path = tmp_path / "silver.json"
    rules = [
        {"type": "expect_column_values_to_match_regex", "kwargs": {"column": "code", "regex": "^code[0-9]?$"}},
        {"type": "expect_column_values_to_be_unique", "kwargs": {"column": "id"}},
        {"type": "expect_compound_columns_to_be_unique", "kwargs": {"column_list": ["id", "code"]}},
    ]
    path.write_text(json.dumps({"name": "x/silver", "expectations": rules}))
    results = judge(load_suite(path, "x/silver"), rows, mutants, lambda _: None)
    assert [each.rules for each in results] == [("unique(id)", "unique(id, code)")] * 2


def test_a_rule_that_raises_detects_the_change(rows: DataFrame, tmp_path: Path) -> None:
    digits = rows.selectExpr("cast(id AS string) AS number", "code")
    rules = detected(
        tmp_path,
        digits,
        ("expect_column_values_to_be_in_set", {"column": "number", "value_set": list(range(21))}),
        ("expect_column_values_to_not_be_null", {"column": "code"}),
    )
    assert rules["number", "a number"] == ("in_set(number)",)
    assert rules["code", "null"] == ("not_null(code)",)


def test_a_suite_that_every_row_breaks_is_refused(rows: DataFrame, tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="every row of the table breaks a rule"):
        detected(tmp_path, rows, ("expect_column_values_to_be_between", {"column": "weight", "min_value": 1000}))
