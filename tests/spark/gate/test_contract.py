"""Contract test with Great Expectations: for every supported rule, the flagged rows are those that GX counts.

Flags are compared with the results of GX's public API in its most detailed format. The batch contains nulls, duplicates
and values that break each rule.
"""

from __future__ import annotations

import json
import os
import random
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tidegate.lake.layout import Layout
from tidegate.spark.gate import LakeContext, SuiteGate, load_suite
from tidegate.spark.gate.lake_context import activate
from tidegate.spark.gate.rules import BATCH_RULES, NO_ROW_CONDITION, ROW_RULES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.jvm

EXAMPLES = int(os.environ.get("CONTRACT_EXAMPLES", "0"))
"""The number of random batches that are compared; 0 means a few batches that are the same in every run."""

NUMBERS_ONLY = {"type": "comparison", "column": {"name": "kind"}, "operator": "==", "parameter": "number"}
EITHER = {
    "type": "or",
    "conditions": [NUMBERS_ONLY, {"type": "nullity", "column": {"name": "a"}, "is_null": False}],
}

ROW_KWARGS: dict[str, list[dict[str, Any]]] = {
    "expect_column_pair_values_a_to_be_greater_than_b": [
        {"column_A": "a", "column_B": "b", "or_equal": True},
        {"column_A": "a", "column_B": "b", "ignore_row_if": "either_value_is_missing"},
        {"column_A": "a", "column_B": "b", "ignore_row_if": "neither"},
    ],
    "expect_column_pair_values_to_be_equal": [
        {"column_A": "a", "column_B": "b"},
        {"column_A": "a", "column_B": "b", "ignore_row_if": "either_value_is_missing"},
        {"column_A": "a", "column_B": "b", "ignore_row_if": "neither"},
    ],
    "expect_column_pair_values_to_be_in_set": [{"column_A": "a", "column_B": "b", "value_pairs_set": [[1, 1], [2, 3]]}],
    "expect_column_value_lengths_to_be_between": [{"column": "code", "min_value": 2, "max_value": 3}],
    "expect_column_value_lengths_to_equal": [{"column": "code", "value": 3}],
    "expect_column_value_z_scores_to_be_less_than": [{"column": "ratio", "threshold": 1.5, "double_sided": True}],
    "expect_column_values_to_be_between": [
        {"column": "a", "min_value": 2, "max_value": 7, "strict_max": True},
        {"column": "ratio", "max_value": 0.5},
    ],
    "expect_column_values_to_be_in_set": [
        {"column": "code", "value_set": ["AA", "BBB"]},
        # Rows outside of the condition are not numbers: the comparison would raise for them.
        {"column": "measure", "value_set": [1, 2, 3], "row_condition": NUMBERS_ONLY},
    ],
    "expect_column_values_to_be_in_table": [
        {"column": "code", "table": "silver.codes", "table_column": "code"},
        {"column": "a", "table": "silver.codes", "table_column": "number"},
    ],
    "expect_column_values_to_be_json_parseable": [{"column": "payload"}],
    "expect_column_values_to_be_null": [{"column": "a"}],
    "expect_column_values_to_be_unique": [{"column": "a"}, {"column": "code"}],
    "expect_column_values_to_match_json_schema": [
        {"column": "document", "json_schema": {"type": "object", "required": ["k"]}}
    ],
    "expect_column_values_to_match_regex": [{"column": "code", "regex": "^A"}],
    "expect_column_values_to_match_regex_list": [{"column": "code", "regex_list": ["^A", "B$"], "match_on": "any"}],
    "expect_column_values_to_match_strftime_format": [{"column": "day", "strftime_format": "%Y-%m-%d"}],
    "expect_column_values_to_not_be_in_set": [{"column": "code", "value_set": ["AA", "BBB"]}],
    "expect_column_values_to_not_be_null": [{"column": "a"}],
    "expect_column_values_to_not_be_outliers": [
        {"column": "ratio"},
        {"column": "ratio", "method": "std", "multiplier": 1},
    ],
    "expect_column_values_to_not_match_regex": [{"column": "code", "regex": "^A"}],
    "expect_column_values_to_not_match_regex_list": [{"column": "code", "regex_list": ["^A", "B$"]}],
    "expect_compound_columns_to_be_unique": [
        {"column_list": ["a", "b"]},
        {"column_list": ["a", "b"], "ignore_row_if": "any_value_is_missing"},
        {"column_list": ["a", "b"], "ignore_row_if": "never"},
    ],
    "expect_multicolumn_sum_to_equal": [{"column_list": ["a", "b"], "sum_total": 5}],
    "expect_multicolumn_values_to_be_equal": [{"column_list": ["a", "b"], "ignore_row_if": "any_value_is_missing"}],
    "expect_select_column_values_to_be_unique_within_record": [
        {"column_list": ["a", "b"]},
        {"column_list": ["a", "b"], "ignore_row_if": "any_value_is_missing"},
    ],
}

BATCH_KWARGS: dict[str, dict[str, Any]] = {
    "expect_column_distinct_values_to_be_in_set": {"column": "kind", "value_set": ["number", "word"]},
    "expect_column_distinct_values_to_contain_set": {"column": "kind", "value_set": ["number", "other"]},
    "expect_column_distinct_values_to_equal_set": {"column": "kind", "value_set": ["number", "word"]},
    "expect_column_kl_divergence_to_be_less_than": {
        "column": "kind",
        "partition_object": {"values": ["number", "word"], "weights": [0.5, 0.5]},
        "threshold": 0.5,
    },
    "expect_column_max_to_be_between": {"column": "a", "max_value": 5},
    "expect_column_mean_to_be_between": {"column": "a", "max_value": 100},
    "expect_column_median_to_be_between": {"column": "a", "max_value": 100},
    "expect_column_min_to_be_between": {"column": "a", "min_value": 0},
    "expect_column_most_common_value_to_be_in_set": {"column": "kind", "value_set": ["other"]},
    "expect_column_proportion_of_non_null_values_to_be_between": {"column": "a", "min_value": 0.99},
    "expect_column_proportion_of_unique_values_to_be_between": {"column": "a", "max_value": 0.5},
    "expect_column_quantile_values_to_be_between": {
        "column": "a",
        "quantile_ranges": {"quantiles": [0.5], "value_ranges": [[0, 100]]},
    },
    "expect_column_stdev_to_be_between": {"column": "a", "max_value": 0.001},
    "expect_column_sum_to_be_between": {"column": "a", "min_value": 1},
    "expect_column_to_exist": {"column": "nothing"},
    "expect_column_type_to_be": {"column": "a", "type_": "IntegerType"},
    "expect_column_unique_value_count_to_be_between": {"column": "a", "min_value": 2},
    "expect_column_values_to_be_in_type_list": {"column": "a", "type_list": ["StringType"]},
    "expect_column_values_to_be_of_type": {"column": "a", "type_": "IntegerType"},
    "expect_table_column_count_to_be_between": {"min_value": 1, "max_value": 20},
    "expect_table_column_count_to_equal": {"value": 9},
    "expect_table_columns_to_match_ordered_list": {"column_list": ["id"]},
    "expect_table_columns_to_match_set": {"column_set": ["id", "a"], "exact_match": False},
    "expect_table_row_count_to_be_between": {"min_value": 1, "max_value": 5},
    "expect_table_row_count_to_equal": {"value": 240},
    "unexpected_rows_expectation": {"unexpected_rows_query": "SELECT * FROM {batch} WHERE a > 8"},
}


SCHEMA = (
    "id bigint, a int, b int, ratio double, kind string, measure string, code string, payload string, "
    "document string, day string"
)


@dataclass(frozen=True)
class Case:
    """One expectation of the suite under test."""

    type: str
    kwargs: dict[str, Any]

    def plain(self, number: int) -> dict[str, Any]:
        return {
            "type": self.type,
            "kwargs": self.kwargs,
            "severity": ("critical", "warning", "info")[number % 3],
            "meta": {"number": number},
        }


def row_cases() -> list[Case]:
    """Every variant of every row rule, for all rows and with a row condition (where allowed) and a ``mostly``."""
    cases: list[Case] = []
    variants = [(kind, kwargs) for kind, listed in ROW_KWARGS.items() for kwargs in listed]
    for number, (kind, kwargs) in enumerate(variants):
        if "row_condition" in kwargs:
            cases.append(Case(kind, kwargs))
            continue
        some = {} if kind in NO_ROW_CONDITION else {"row_condition": EITHER if number % 4 else NUMBERS_ONLY}
        cases += Case(kind, kwargs), Case(kind, {**kwargs, **some, "mostly": 0.6})
    return cases


@pytest.fixture(scope="module")
def rows(spark: SparkSession) -> DataFrame:
    chance = random.Random(7)

    def some(*values: Any) -> Any:
        return chance.choice((*values, None))

    def row(number: int) -> tuple[Any, ...]:
        kind = chance.choice(["number", "word"])
        return (
            number,
            some(*range(10)) if number % 5 else number,
            some(*range(10)),
            chance.choice([0.1, 0.2, 0.3, 0.4, 25.0, -30.0, None]),
            kind,
            str(chance.randrange(100)) if kind == "number" else "not a number",
            some("AA", "BBB", "AB", "X", ""),
            some('{"k": 1}', '{"k": }', "[]", "null", "it's"),
            some('{"k": 1}', '{"j": 1}', "[]"),
            some("2013-01-01", "2013-13-01", "yesterday", ""),
        )

    frame = spark.createDataFrame([row(number) for number in range(240)], SCHEMA).coalesce(2)
    return frame.persist()


@pytest.fixture(scope="module")
def lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Layout:
    """A lake with the table that the rules reference."""
    layout = Layout.local(tmp_path_factory.mktemp("lake"), tmp_path_factory.mktemp("landing"))
    codes = spark.createDataFrame([("AA", 1), ("X", None), (None, 2), ("", 3)], "code string, number int")
    codes.write.format("delta").save(str(layout.table("silver.codes")))
    return layout


def gate_for(lake: Layout, cases: list[Case]) -> SuiteGate:
    path = Path(lake.root) / "suite.json"
    plain = [case.plain(number) for number, case in enumerate(cases)]
    path.write_text(json.dumps({"name": "contract", "expectations": plain}))
    return SuiteGate(load_suite(path, "x/contract"), "code", LakeContext(lake))


def publicly_validated(rows: DataFrame, gate: SuiteGate, result_format: dict[str, Any]) -> list[Any]:
    """The results of GX's public API for each rule, in the suite's order."""
    import great_expectations as gx
    from great_expectations.data_context.types.base import ProgressBarsConfig

    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = ProgressBarsConfig(globally=False)
    source = context.data_sources.add_spark("spark", persist=False)
    batch = source.add_dataframe_asset("rows").add_batch_definition_whole_dataframe("batch")
    suite = gx.ExpectationSuite("contract", expectations=[rule.expectation for rule in gate.suite.expectations])
    with warnings.catch_warnings(action="ignore"), activate(gate.lake_context):
        results = batch.get_batch({"dataframe": rows}).validate(suite, result_format=result_format).results
    return sorted(results, key=lambda result: int(result.expectation_config.meta["number"]))


def test_every_supported_rule_is_covered() -> None:
    assert set(ROW_KWARGS) == set(ROW_RULES)
    assert set(BATCH_KWARGS) == set(BATCH_RULES)


@pytest.mark.nightly
def test_flags_are_the_rows_that_gx_counts_for_every_row_rule(rows: DataFrame, lake: Layout) -> None:
    cases = row_cases()
    gate = gate_for(lake, cases)
    flagged = gate.flag(rows).persist()
    verdict = gate.judge(flagged, flow="silver", app_id="x/silver/v1/0", batch_id=0)
    flagged_ids: dict[str, set[int]] = {result.rule: set() for result in verdict.results}
    for row in flagged.select("id", "_errors", "_notes").collect():
        for name in row["_errors"] + row["_notes"]:
            flagged_ids[name].add(row["id"])
    flagged.unpersist()

    truth = publicly_validated(rows, gate, {"result_format": "COMPLETE", "unexpected_index_column_names": ["id"]})

    for case, result, true in zip(cases, verdict.results, truth, strict=True):
        what = f"{result.rule} {case.kwargs}"
        assert not true.exception_info["raised_exception"], (what, true.exception_info)
        ids = {entry["id"] for entry in true.result.get("unexpected_index_list") or []}
        assert flagged_ids[result.rule] == ids, what
        assert result.unexpected == true.result["unexpected_count"] == len(ids), what
        assert result.evaluated == true.result["element_count"] - (true.result.get("missing_count") or 0), what
        assert result.success == true.success, what
        if "row_condition" not in case.kwargs:
            assert ids, f"the batch has no row that breaks {what}, so this case tests nothing"


SMALL = st.none() | st.integers(-3, 10)
TEXT = st.text(alphabet="AB1 é'%\\\n", max_size=4)
GENERATED = st.tuples(
    SMALL,
    SMALL,
    st.none() | st.sampled_from([0.0, -0.0, 1e300, -30.0, 0.25]) | st.floats(-100, 100),
    st.none() | st.just("not a number") | st.integers(-3, 10).map(str),
    st.none() | st.sampled_from(["AA", "BBB", "AB", "X"]) | TEXT,
    st.none() | st.sampled_from(['{"k": 1}', "[]", "null"]) | TEXT,
    st.none() | st.sampled_from(['{"k": 1}', '{"k": null}', '{"j": 1}', "[]", "1"]),
    st.none() | st.dates().map(str) | TEXT,
)
BATCH = st.lists(GENERATED, min_size=10, max_size=60)
CONDITIONS: st.SearchStrategy[dict[str, Any]] = st.sampled_from(
    [
        {},
        {"row_condition": NUMBERS_ONLY},
        {"row_condition": EITHER},
        # The format of earlier versions of Great Expectations.
        {"row_condition": 'col("a") > 1', "condition_parser": "great_expectations"},
        {"row_condition": "a > 1 OR kind = 'number'", "condition_parser": "spark"},
    ]
)
MOSTLY = st.sampled_from([0, 0.5, 1]) | st.floats(0, 1, allow_nan=False)


def generated(batches: int) -> settings:
    return settings(
        max_examples=EXAMPLES or batches,
        derandomize=not EXAMPLES,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )


@pytest.mark.nightly
@generated(6)
@given(drawn=BATCH, data=st.data())
def test_split_and_report_agree_on_generated_rows_conditions_and_thresholds(
    spark: SparkSession, lake: Layout, drawn: list[tuple[Any, ...]], data: st.DataObject
) -> None:
    plain = []
    for number, (a, b, ratio, measure, code, payload, document, day) in enumerate(drawn):
        kind = "number" if measure is not None and measure != "not a number" else "word"
        plain.append((number, a, b, ratio, kind, measure, code, payload, document, day))
    cases = []
    for kind, variants in ROW_KWARGS.items():
        for kwargs in variants:
            some = {} if "row_condition" in kwargs or kind in NO_ROW_CONDITION else data.draw(CONDITIONS)
            cases.append(Case(kind, {**kwargs, **some, "mostly": data.draw(MOSTLY)}))
    gate = gate_for(lake, cases)
    rows = spark.createDataFrame(plain, SCHEMA).coalesce(1).persist()
    flagged = gate.flag(rows).persist()
    verdict = gate.judge(flagged, flow="silver", app_id="x/silver/v1/0", batch_id=0)
    split = {result.rule: 0 for result in verdict.results}
    for row in flagged.select("_errors", "_notes").collect():
        for name in row["_errors"] + row["_notes"]:
            split[name] += 1

    truth = publicly_validated(rows, gate, {"result_format": "BASIC", "partial_unexpected_count": 0})
    for handle in (flagged, rows):
        handle.unpersist()

    for case, result, true in zip(cases, verdict.results, truth, strict=True):
        what = f"{result.rule} {case.kwargs}"
        assert not true.exception_info["raised_exception"], (what, true.exception_info)
        # Without any rows, GX's sum is null.
        assert split[result.rule] == result.unexpected == (true.result["unexpected_count"] or 0), what
        assert result.evaluated == true.result["element_count"] - (true.result.get("missing_count") or 0), what
        assert (result.success, result.severity) == (true.success, true.expectation_config.severity.value), what
    unmet = any(
        not true.success and result.severity == "critical" for result, true in zip(verdict.results, truth, strict=True)
    )
    errors = any(split[result.rule] for result in verdict.results if result.severity != "info")
    assert verdict.outcome == ("refused" if unmet else "split" if errors else "passed")


def test_every_batch_rule_has_the_result_of_gx(rows: DataFrame, lake: Layout) -> None:
    cases = [Case(kind, kwargs) for kind, kwargs in BATCH_KWARGS.items()]
    gate = gate_for(lake, cases)
    flagged = gate.flag(rows)
    verdict = gate.judge(flagged, flow="silver", app_id="x/silver/v1/0", batch_id=0)
    truth = publicly_validated(rows, gate, {"result_format": "SUMMARY"})

    for result, true in zip(verdict.results, truth, strict=True):
        assert not true.exception_info["raised_exception"], (result.rule, true.exception_info)
        assert result.success == true.success, result.rule
        assert result.evaluated is None
        assert result.unexpected is None
    assert {result.success for result in verdict.results} == {True, False}
    assert flagged.where("size(_errors) + size(_notes) > 0").isEmpty()


def test_an_empty_batch_breaks_no_row_rule(rows: DataFrame, lake: Layout) -> None:
    gate = gate_for(lake, [Case(kind, variants[0]) for kind, variants in ROW_KWARGS.items()])
    verdict = gate.judge(gate.flag(rows.limit(0)).persist(), flow="silver", app_id="x/silver/v1/0", batch_id=0)
    assert verdict.outcome == "passed"
    assert {(result.success, result.evaluated, result.unexpected) for result in verdict.results} == {(True, 0, 0)}
