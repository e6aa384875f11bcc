"""Proposes a suite from the profile of a table: a draft to be edited, with a note on the origin of each rule."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from datetime import date, datetime
from typing import Any

from tidegate.expectations.profile import Profile
from tidegate.formatting import count


def propose(name: str, profiles: Sequence[Profile], keys: Sequence[str], sequence_by: Sequence[str]) -> dict[str, Any]:
    """A suite in Great Expectations' format.

    No rule is critical: a person has to decide what refuses a batch. Key and sequence columns need no rule against nulls,
    because a row with such a null is refused anyway.

    Args:
        name: ``<pipeline>/<flow>``.
        sequence_by: The columns that order versions of a key.
    """
    required = {*keys, *sequence_by}
    rules: list[dict[str, Any]] = []
    for profile in profiles:
        rules += _nulls(profile, profile.column.name in required)
        rules += _values(profile, profile.column.name in keys)
    return {"name": name, "expectations": rules, "meta": {}}


def counted_nulls(column: str) -> dict[str, Any]:
    """The rule of a suite for which nothing else is proposed, because a suite needs one: it refuses no row."""
    return _rule(
        "expect_column_values_to_not_be_null", "info", "no other rule could be proposed", column=column, mostly=0.0
    )


def _nulls(profile: Profile, required: bool) -> Iterator[dict[str, Any]]:
    if required or profile.nulls == profile.rows:
        return
    column, rule = profile.column.name, "expect_column_values_to_not_be_null"
    if not profile.nulls:
        yield _rule(rule, "warning", f"none of {profile.rows:,} is null", column=column)
        return
    share = profile.nulls / profile.rows
    # Info: the nulls are counted, and none of their rows is refused.
    yield _rule(
        rule,
        "info",
        f"{share:.1%} of {profile.rows:,} are null",
        column=column,
        mostly=math.floor(10 * (1 - share)) / 10,
    )


def _values(profile: Profile, is_key: bool) -> Iterator[dict[str, Any]]:
    column, minimum, maximum = profile.column.name, profile.minimum, profile.maximum
    if minimum is None or maximum is None:
        return
    if profile.column.kind == "number" and not is_key:
        low, high = _widened(float(minimum), float(maximum))  # type: ignore[arg-type]  # of a number column
        yield _rule(
            "expect_column_values_to_be_between",
            "warning",
            f"observed from {minimum:,g} to {maximum:,g}",
            column=column,
            min_value=low,
            max_value=high,
        )
    elif profile.choices:
        yield _rule(
            "expect_column_values_to_be_in_set",
            "warning",
            f"all values in {count(profile.rows, 'row')}",
            column=column,
            value_set=list(profile.choices),
        )
    elif profile.column.kind == "text":
        yield from _lengths(column, int(minimum), int(maximum))  # type: ignore[arg-type]  # lengths
    elif isinstance(minimum, date | datetime):
        yield _rule(
            "expect_column_values_to_be_between",
            "warning",
            f"the oldest is of {minimum:%Y-%m-%d}",
            column=column,
            min_value=f"{minimum.year}-01-01" if profile.column.kind == "day" else f"{minimum.year}-01-01 00:00:00",
        )


def _lengths(column: str, minimum: int, maximum: int) -> Iterator[dict[str, Any]]:
    note = f"observed lengths from {minimum:,} to {maximum:,}"
    if minimum == maximum:
        yield _rule("expect_column_value_lengths_to_equal", "warning", note, column=column, value=minimum)
    else:
        yield _rule(
            "expect_column_value_lengths_to_be_between",
            "warning",
            note,
            column=column,
            min_value=minimum,
            max_value=2 * maximum,
        )


def _widened(minimum: float, maximum: float) -> tuple[float, float]:
    """The range widened by half its size at both ends, to two digits; stays at or above 0 if all values are."""
    margin = (maximum - minimum) / 2 or abs(maximum) / 2 or 1.0
    low = 0.0 if minimum >= 0 and minimum - margin < 0 else _rounded(minimum - margin, math.floor)
    return low, _rounded(maximum + margin, math.ceil)


def _rounded(number: float, towards: Any) -> float:
    if not number or not math.isfinite(number):
        return number
    step = 10.0 ** (math.floor(math.log10(abs(number))) - 1)
    # Rounded again, because 13 * 0.1 is 1.3000000000000001.
    return float(f"{towards(number / step) * step:.12g}")


def _rule(kind: str, severity: str, note: str, **kwargs: Any) -> dict[str, Any]:
    return {"type": kind, "kwargs": kwargs, "severity": severity, "meta": {"notes": f"Proposed: {note}."}}
