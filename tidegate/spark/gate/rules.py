"""The supported expectations of Great Expectations (GX), and their short names.

A *row rule* is evaluated for every row, so rows that break it can be quarantined. A *batch rule* is evaluated for the
whole batch only. The contract test compares these lists with the expectations that GX registers.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from tidegate.reports.verdict import Severity

ROW_RULES: tuple[str, ...] = (
    "expect_column_pair_values_a_to_be_greater_than_b",
    "expect_column_pair_values_to_be_equal",
    "expect_column_pair_values_to_be_in_set",
    "expect_column_value_lengths_to_be_between",
    "expect_column_value_lengths_to_equal",
    "expect_column_value_z_scores_to_be_less_than",
    "expect_column_values_to_be_between",
    "expect_column_values_to_be_in_set",
    "expect_column_values_to_be_in_table",
    "expect_column_values_to_be_json_parseable",
    "expect_column_values_to_be_null",
    "expect_column_values_to_be_unique",
    "expect_column_values_to_match_json_schema",
    "expect_column_values_to_match_regex",
    "expect_column_values_to_match_regex_list",
    "expect_column_values_to_match_strftime_format",
    "expect_column_values_to_not_be_in_set",
    "expect_column_values_to_not_be_null",
    "expect_column_values_to_not_be_outliers",
    "expect_column_values_to_not_match_regex",
    "expect_column_values_to_not_match_regex_list",
    "expect_compound_columns_to_be_unique",
    "expect_multicolumn_sum_to_equal",
    "expect_multicolumn_values_to_be_equal",
    "expect_select_column_values_to_be_unique_within_record",
)
"""Each has an unexpected condition on Spark: a column over the rows of the batch."""

UNIQUENESS: frozenset[str] = frozenset({"expect_column_values_to_be_unique", "expect_compound_columns_to_be_unique"})
"""Row rules over groups of rows: every row of a group of duplicates breaks the rule."""

NO_ROW_CONDITION: dict[str, str] = {
    **dict.fromkeys(sorted(UNIQUENESS), "a row that does not meet it would count as a duplicate"),
    "expect_column_pair_values_to_be_in_set": "Great Expectations ignores it when it counts",
}
"""Rules that cannot be restricted to some of the rows, and why."""

STATISTICAL: frozenset[str] = frozenset(
    {"expect_column_value_z_scores_to_be_less_than", "expect_column_values_to_not_be_outliers"}
)
"""Row rules that compare a row with a statistic of the batch; each reads the batch once more."""

OF_JUDGED_ROWS: frozenset[str] = (
    UNIQUENESS
    | STATISTICAL
    | {
        "expect_column_values_to_be_json_parseable",
        "expect_column_values_to_match_json_schema",
        "expect_column_values_to_match_strftime_format",
    }
)
"""Row rules that must not get rows to which the suite does not apply. Those of uniqueness and statistics use other rows of the
batch. The three named here run in Python, and Spark evaluates a Python function for every row, even inside of a CASE WHEN."""

BATCH_RULES: tuple[str, ...] = (
    "expect_column_distinct_values_to_be_in_set",
    "expect_column_distinct_values_to_contain_set",
    "expect_column_distinct_values_to_equal_set",
    "expect_column_kl_divergence_to_be_less_than",
    "expect_column_max_to_be_between",
    "expect_column_mean_to_be_between",
    "expect_column_median_to_be_between",
    "expect_column_min_to_be_between",
    "expect_column_most_common_value_to_be_in_set",
    "expect_column_proportion_of_non_null_values_to_be_between",
    "expect_column_proportion_of_unique_values_to_be_between",
    "expect_column_quantile_values_to_be_between",
    "expect_column_stdev_to_be_between",
    "expect_column_sum_to_be_between",
    "expect_column_to_exist",
    "expect_column_type_to_be",
    "expect_column_unique_value_count_to_be_between",
    "expect_column_values_to_be_in_type_list",
    "expect_column_values_to_be_of_type",
    "expect_table_column_count_to_be_between",
    "expect_table_column_count_to_equal",
    "expect_table_columns_to_match_ordered_list",
    "expect_table_columns_to_match_set",
    "expect_table_row_count_to_be_between",
    "expect_table_row_count_to_equal",
    "unexpected_rows_expectation",
)
"""On Spark, the two rules about a column's type use the schema, so they are batch rules."""

COUNTS_ONLY: frozenset[str] = frozenset(
    {
        "expect_table_column_count_to_be_between",
        "expect_table_column_count_to_equal",
        "expect_table_row_count_to_be_between",
        "expect_table_row_count_to_equal",
        "unexpected_rows_expectation",
    }
)
"""Batch rules whose observed value is a count. That of other rules may be a value of the data and is never recorded."""

UNSUPPORTED: dict[str, str] = {
    "expect_column_values_to_be_decreasing": "the rows of a batch have no order",
    "expect_column_values_to_be_increasing": "the rows of a batch have no order",
    "expect_column_values_to_be_dateutil_parseable": "Great Expectations supports it for pandas only",
    "expect_column_values_to_match_like_pattern": "Great Expectations supports it for databases only; use a regex",
    "expect_column_values_to_match_like_pattern_list": "Great Expectations supports it for databases only; use a regex",
    "expect_column_values_to_not_match_like_pattern": "Great Expectations supports it for databases only; use a regex",
    "expect_column_values_to_not_match_like_pattern_list": "Great Expectations supports it for databases only; use a regex",
    "expect_query_results_to_match_comparison": "a gate validates one batch and does not query other sources",
    "expect_table_row_count_to_equal_other_table": "a batch is an increment, not a table",
}
"""Expectations of GX that a gate does not support, and why."""

_SHORTER = (
    (r"^expect_", ""),
    (r"_expectation$", ""),
    (r"^(column_values_|compound_columns_|select_column_values_|column_|table_)(?=\w)", ""),
    (r"(^|_)to_not_(be_)?", r"\1not_"),
    (r"(^|_)to_(be_)?", r"\1"),
)


@dataclass(frozen=True, kw_only=True)
class Rule:
    """One expectation of a suite."""

    type: str
    """GX's type, for example ``expect_column_values_to_be_between``."""
    name: str
    """Its short name, unique within the suite, for example ``between(dep_delay)``."""
    severity: Severity
    mostly: float | None
    """The share of rows that must meet a row rule, from 0 to 1; None for a batch rule."""
    of_rows: bool
    """Whether it is a row rule."""
    columns: tuple[str, ...]
    """Its columns; empty for a rule about the whole table."""
    table: str | None
    """The other table that it reads, as ``<layer>.<table>``."""
    sentence: str
    """Its description by Great Expectations."""
    expectation: Any = field(repr=False, compare=False)
    """GX's object."""


def short_name(expectation: str, columns: tuple[str, ...]) -> str:
    """The name of a rule in quarantine and verdicts, for example ``between(dep_delay)`` or ``unique(origin, flight)``.

    Args:
        columns: Its columns; empty for an expectation about the whole table.
    """
    name = expectation
    for pattern, shorter in _SHORTER:
        name = re.sub(pattern, shorter, name)
    return f"{name}({', '.join(columns)})" if columns else name
