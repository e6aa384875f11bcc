"""The fields of a raw record of bronze, as texts; roughly, for hints: a run reads them with `tidegate.spark.intake`."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from tidegate import hidden


def fields_of(record: Mapping[str, Any]) -> dict[str, str]:
    """The fields by name; empty if the record has another form than JSON or CSV.

    Args:
        record: A row of a bronze table.
    """
    value = record.get("value")
    text = value.decode("utf-8", "replace") if isinstance(value, bytes) else str(record.get("line") or "")
    with suppress(ValueError, RecursionError):
        fields = json.loads(text, parse_float=str, parse_int=str)
        if isinstance(fields, dict):
            return {name: each for name, each in fields.items() if isinstance(each, str)}
    if header := record.get(hidden.HEADER):
        separator = json.loads(record.get(hidden.DIALECT) or "{}").get("separator", ",")
        names, *rows = csv.reader([header, text], delimiter=separator)
        if len(rows) == 1 and len(rows[0]) == len(names):
            return dict(zip((name.strip() for name in names), rows[0], strict=True))
    return {}
