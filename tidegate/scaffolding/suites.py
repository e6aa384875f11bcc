"""The first suite of a drafted pipeline, proposed from a sample."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from datetime import date, datetime
from typing import Any, Literal

from tidegate.expectations.profile import Profile, ProfiledColumn
from tidegate.expectations.proposal import counted_nulls, propose
from tidegate.scaffolding.draft_field import DraftField

_PROFILED: dict[str, Literal["text", "number", "day", "instant"]] = {
    "STRING": "text",
    **dict.fromkeys(("INT", "BIGINT", "DOUBLE", "DECIMAL"), "number"),
    "DATE": "day",
    "TIMESTAMP": "instant",
}


def suite_text(name: str, fields: Sequence[DraftField], keys: Sequence[str], order: str) -> str:
    """The text of ``expectations/<name>/silver.json``.

    Args:
        order: The column that orders versions of a key; empty without keys.
    """
    profiles = [profile for each in fields if (profile := _profile(each)) is not None]
    suite = propose(f"{name}/silver", profiles, keys, (order,) if order else ())
    if not suite["expectations"]:
        suite["expectations"] = [counted_nulls(keys[0] if keys else fields[0].column)]
    return json.dumps(suite, indent=2, ensure_ascii=False) + "\n"


def _profile(each: DraftField) -> Profile | None:
    """What a suite can be proposed from; None for types that have no rule, and for days in another form."""
    kind = _PROFILED.get(each.guess.type.partition("(")[0])
    if kind is None:
        return None
    misfits = {odd.record for odd in each.guess.misfits}
    values = [value for index, value in enumerate(each.values) if value is not None and index not in misfits]
    measured = [measure for value in values if (measure := _measure(kind, value)) is not None]
    profile = Profile(
        column=ProfiledColumn(name=each.column, kind=kind),
        rows=len(each.values),
        nulls=len(each.values) - len(values),
        distinct=len(set(map(str, values))),
        minimum=min(measured, default=None),
        maximum=max(measured, default=None),
    )
    return dataclasses.replace(profile, choices=tuple(sorted(set(values)))) if profile.is_choice() else profile


def _measure(kind: str, value: Any) -> Any:
    try:
        if kind == "text":
            return float(len(value))
        if kind == "number":
            return float(value)
        return date.fromisoformat(value[:10]) if kind == "day" else datetime.fromisoformat(value).replace(tzinfo=None)
    except (TypeError, ValueError):
        return None
