"""A suite that a table suggests: a draft for a person to correct, with a note of what each rule was taken from."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from datetime import date, datetime
from typing import Any

from tidegate.expectations.profile import Profile


def propose(name: str, profiles: Sequence[Profile], keys: Sequence[str], sequence_by: Sequence[str]) -> dict[str, Any]:
    """A suite in Great Expectations' form.

    Nothing is critical: what refuses a batch is a person's decision. Keys and sequence need no rule against nulls,
    because a row without them is refused anyway.

    Args:
        name: ``<pipeline>/<flow>``.
        profiles: What the table holds.
        keys: The table's keys.
        sequence_by: The columns that order versions of a key.
    """
    given = {*keys, *sequence_by}
    rules = [_rule("expect_table_row_count_to_be_near_earlier_batches", "info", "how large batches are", tolerance=0.5)]
    for profile in profiles:
        rules += _nulls(profile, profile.column.name in given)
        rules += _values(profile, profile.column.name in keys)
    return {"name": name, "expectations": rules, "meta": {}}


def _nulls(profile: Profile, given: bool) -> Iterator[dict[str, Any]]:
    column = profile.column.name
    if profile.nulls == profile.rows or given:
        return
    if not profile.nulls:
        yield _rule(
            "expect_column_values_to_not_be_null", "warning", f"none of {profile.rows:,} is null", column=column
        )
        return
    yield _rule(
        "expect_column_null_share_to_be_near_earlier_batches",
        "info",
        f"{profile.nulls / profile.rows:.1%} of {profile.rows:,} are null",
        column=column,
        tolerance=0.1,
    )


def _values(profile: Profile, is_key: bool) -> Iterator[dict[str, Any]]:
    column, least, most = profile.column.name, profile.least, profile.most
    if least is None or most is None:
        return
    if profile.column.kind == "number" and not is_key:
        low, high = _widened(float(least), float(most))  # type: ignore[arg-type]  # of a number column
        yield _rule(
            "expect_column_values_to_be_between",
            "warning",
            f"seen from {least:,g} to {most:,g}",
            column=column,
            min_value=low,
            max_value=high,
        )
    elif profile.choices:
        yield _rule(
            "expect_column_values_to_be_in_set",
            "warning",
            f"all that were seen in {profile.rows:,} rows",
            column=column,
            value_set=list(profile.choices),
        )
    elif profile.column.kind == "text":
        yield from _lengths(column, int(least), int(most))  # type: ignore[arg-type]  # lengths
    elif isinstance(least, date | datetime):
        yield _rule(
            "expect_column_values_to_be_between",
            "warning",
            f"the oldest is of {least:%Y-%m-%d}",
            column=column,
            min_value=f"{least.year}-01-01" if profile.column.kind == "day" else f"{least.year}-01-01 00:00:00",
        )


def _lengths(column: str, least: int, most: int) -> Iterator[dict[str, Any]]:
    note = f"lengths from {least:,} to {most:,} were seen"
    if least == most:
        yield _rule("expect_column_value_lengths_to_equal", "warning", note, column=column, value=least)
    else:
        yield _rule(
            "expect_column_value_lengths_to_be_between",
            "warning",
            note,
            column=column,
            min_value=least,
            max_value=2 * most,
        )


def _widened(least: float, most: float) -> tuple[float, float]:
    """Half the range more at both ends, in two digits; never below 0 for what never was."""
    margin = (most - least) / 2 or abs(most) / 2 or 1.0
    low = 0.0 if least >= 0 and least - margin < 0 else _rounded(least - margin, math.floor)
    return low, _rounded(most + margin, math.ceil)


def _rounded(number: float, towards: Any) -> float:
    if not number or not math.isfinite(number):
        return number
    step = 10.0 ** (math.floor(math.log10(abs(number))) - 1)
    # Again to digits: 13 * 0.1 is 1.3000000000000001.
    return float(f"{towards(number / step) * step:.12g}")


def _rule(kind: str, severity: str, note: str, **kwargs: Any) -> dict[str, Any]:
    return {"type": kind, "kwargs": kwargs, "severity": severity, "meta": {"notes": f"Proposed: {note}."}}
