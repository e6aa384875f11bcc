"""Which of Great Expectations' expectations a suite may hold, and what each is called in short.

A *row rule* says of every row whether it breaks it, so broken rows can be split off. A *batch rule* says something of
the whole batch. The lists are data: the contract test walks them, and compares them with what GX registers.
"""

from __future__ import annotations

import re

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
"""Each has an unexpected condition on Spark, a column over the rows of the batch."""

UNIQUENESS: frozenset[str] = frozenset({"expect_column_values_to_be_unique", "expect_compound_columns_to_be_unique"})
"""Row rules over groups of rows: every member of a group of duplicates breaks them."""

DRIFT: frozenset[str] = frozenset(
    {
        "expect_column_mean_to_be_near_earlier_batches",
        "expect_column_null_share_to_be_near_earlier_batches",
        "expect_table_row_count_to_be_near_earlier_batches",
    }
)
"""Batch rules that compare with earlier batches; what they observe is an aggregate, and is kept with the verdict."""

NO_ROW_CONDITION: dict[str, str] = {
    **dict.fromkeys(sorted(UNIQUENESS), "a row outside of it would count as a duplicate"),
    **dict.fromkeys(sorted(DRIFT), "batches are compared as a whole"),
    "expect_column_to_be_fresh": "the newest row is looked for among all",
    "expect_column_pair_values_to_be_in_set": "Great Expectations ignores it when it counts",
}
"""Rules that cannot be held against some of the rows only, and why."""

STATISTICAL: frozenset[str] = frozenset(
    {"expect_column_value_z_scores_to_be_less_than", "expect_column_values_to_not_be_outliers"}
)
"""Row rules that compare a row with a statistic of the batch: each costs one more reading of the batch."""

OF_JUDGED_ROWS: frozenset[str] = (
    UNIQUENESS
    | STATISTICAL
    | {
        "expect_column_values_to_be_json_parseable",
        "expect_column_values_to_match_json_schema",
        "expect_column_values_to_match_strftime_format",
    }
)
"""Row rules that may not even see rows that the suite is not about: the first look at other rows of the batch, the
last run in Python, to which Spark hands every row, whatever guards the condition."""

BATCH_RULES: tuple[str, ...] = (
    "expect_column_distinct_values_to_be_in_set",
    "expect_column_distinct_values_to_contain_set",
    "expect_column_distinct_values_to_equal_set",
    "expect_column_kl_divergence_to_be_less_than",
    "expect_column_max_to_be_between",
    "expect_column_mean_to_be_between",
    "expect_column_mean_to_be_near_earlier_batches",
    "expect_column_median_to_be_between",
    "expect_column_min_to_be_between",
    "expect_column_most_common_value_to_be_in_set",
    "expect_column_null_share_to_be_near_earlier_batches",
    "expect_column_proportion_of_non_null_values_to_be_between",
    "expect_column_proportion_of_unique_values_to_be_between",
    "expect_column_quantile_values_to_be_between",
    "expect_column_stdev_to_be_between",
    "expect_column_sum_to_be_between",
    "expect_column_to_be_fresh",
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
    "expect_table_row_count_to_be_near_earlier_batches",
    "expect_table_row_count_to_equal",
    "unexpected_rows_expectation",
)
"""On Spark, the two about a column's type look at the schema, so they judge the batch."""

COUNTS_ONLY: frozenset[str] = frozenset(
    {
        "expect_table_column_count_to_be_between",
        "expect_table_column_count_to_equal",
        "expect_table_row_count_to_be_between",
        "expect_table_row_count_to_equal",
        "unexpected_rows_expectation",
    }
)
"""Batch rules whose observed value is a count; that of any other may be a value of the data, and is never kept."""

TOLD: frozenset[str] = DRIFT | {"expect_column_to_be_fresh"}
"""Batch rules that say in a sentence what they observed: an aggregate or an age."""

UNSUPPORTED: dict[str, str] = {
    "expect_column_values_to_be_decreasing": "a batch has no order of rows",
    "expect_column_values_to_be_increasing": "a batch has no order of rows",
    "expect_column_values_to_be_dateutil_parseable": "Great Expectations has it for pandas only",
    "expect_column_values_to_match_like_pattern": "Great Expectations has it for databases only; use a regex",
    "expect_column_values_to_match_like_pattern_list": "Great Expectations has it for databases only; use a regex",
    "expect_column_values_to_not_match_like_pattern": "Great Expectations has it for databases only; use a regex",
    "expect_column_values_to_not_match_like_pattern_list": "Great Expectations has it for databases only; use a regex",
    "expect_query_results_to_match_comparison": "a gate judges one batch and sends no query to another source",
    "expect_table_row_count_to_equal_other_table": "a batch is an increment, not a table",
}
"""Known to GX, not to a gate, and why."""

_SHORTER = (
    (r"^expect_", ""),
    (r"_expectation$", ""),
    (r"^(column_values_|compound_columns_|select_column_values_|column_|table_)(?=\w)", ""),
    (r"(^|_)to_not_(be_)?", r"\1not_"),
    (r"(^|_)to_(be_)?", r"\1"),
)


def short_name(expectation: str, columns: tuple[str, ...]) -> str:
    """What a quarantined row says it broke, for example ``between(dep_delay)`` or ``unique(origin, flight)``.

    Args:
        expectation: GX's type.
        columns: The columns that it is about, none for the whole table.
    """
    name = expectation
    for pattern, shorter in _SHORTER:
        name = re.sub(pattern, shorter, name)
    return f"{name}({', '.join(columns)})" if columns else name
