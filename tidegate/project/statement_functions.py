"""What a SELECT must not use, because a rerun would make something else of the same rows."""

from __future__ import annotations

from collections.abc import Mapping

from tidegate.advice import Edit
from tidegate.project.statement import Statement, TokenType, exp

_RERUN = "gives another value in a rerun"
_FUNCTIONS: Mapping[str, tuple[str, str]] = {
    **dict.fromkeys(
        (
            *("rand", "randn", "random", "randstr", "uniform", "uuid", "shuffle", "monotonically_increasing_id"),
            *("spark_partition_id", "input_file_name", "input_file_block_start", "input_file_block_length"),
        ),
        (_RERUN, "derive the value from the row, as by a hash of its columns"),
    ),
    **dict.fromkeys(
        ("now", "curdate", "current_date", "current_time", "current_timestamp", "localtimestamp"),
        (_RERUN, "take the time from a column of the rows"),
    ),
    **dict.fromkeys(
        ("current_user", "session_user", "user", "current_catalog", "current_database", "current_schema"),
        (_RERUN, "write the value"),
    ),
    **dict.fromkeys(("reflect", "java_method", "try_reflect"), ("calls Java", "write the transform in Python")),
}
"""Functions that a transform must not use: why, and what to write instead."""
_NOT_CALLED = frozenset(
    (
        *("current_date", "current_time", "current_timestamp", "localtimestamp", "current_user", "session_user"),
        *("current_catalog", "current_database", "current_schema"),
    )
)
"""Those of them that need no parentheses."""
_PICKS = (exp.First, exp.Last, exp.AnyValue, exp.FirstValue, exp.LastValue)
"""Aggregates that give the value of any row, where no window orders the rows."""


def check_determinism(statement: Statement) -> None:
    """Check that a rerun makes the same of the same rows.

    Raises:
        SpecError: It uses a clock, chance, the session, a setting, or any row of a group; the message has the line and the column.
    """
    kinds = [each.token_type for each in statement.tokens]
    for index, each in enumerate(statement.tokens):
        name, before, after = each.text.lower(), kinds[max(0, index - 1) : index], kinds[index + 1 : index + 3]
        if name == "unix_timestamp" and after == [TokenType.L_PAREN, TokenType.R_PAREN]:
            name = "now"
        is_column = before in ([TokenType.DOT], [TokenType.ALIAS]) or each.token_type is TokenType.STRING
        used = after[:1] == [TokenType.L_PAREN] or (name in _NOT_CALLED and each.token_type is not TokenType.IDENTIFIER)
        if name in _FUNCTIONS and used and not is_column:
            problem, remedy = _FUNCTIONS[name]
            raise statement.error(each.start, f"{each.text} {problem}", Edit(remedy, "transform"))
    for pick in statement.tree.find_all(*_PICKS):
        if pick.find_ancestor(exp.Window) is None:
            raise statement.error(
                statement.start_of(pick),
                "it takes the value of any row, which may be another in a rerun",
                Edit("write max, min, max_by or min_by", "transform"),
            )
    if next(statement.tree.find_all(exp.Placeholder, exp.Parameter), None) is not None:
        start = statement.start_of_token(TokenType.PARAMETER, TokenType.PLACEHOLDER, TokenType.COLON)
        raise statement.error(
            start or max(0, statement.text.find("${")),
            "it has a parameter, which nothing sets",
            Edit("write the value", "transform"),
        )
    if "${" in statement.text:
        raise statement.error(
            statement.text.find("${"),
            "Spark would replace ${…} by a setting",
            Edit("write the value; in a text, write '$' || '{'", "transform"),
        )
