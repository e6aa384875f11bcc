"""A value that a decoder returns as JSON text."""

from __future__ import annotations

import base64
import datetime
import decimal
import json
import math
from typing import Any


def as_json(record: Any) -> str:
    """A record as JSON text: dates and times as ISO 8601, decimals as text, bytes in base64."""
    try:
        return json.dumps(record, ensure_ascii=False, allow_nan=False, default=default)
    except ValueError:
        return json.dumps(_with_finite_numbers(record), ensure_ascii=False, default=default)


def default(value: Any) -> str:
    """The text of a value that JSON has no form for."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, datetime.datetime) and value.tzinfo is not None:
        # Early times can have an offset with seconds, which few parsers accept.
        return value.astimezone(datetime.UTC).isoformat()
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, decimal.Decimal):
        # str() would give 1E-8 for 0.00000001.
        return format(value, "f")
    return str(value)


def _with_finite_numbers(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, dict):
        return {name: _with_finite_numbers(item) for name, item in value.items()}
    return [_with_finite_numbers(item) for item in value] if isinstance(value, list) else value
