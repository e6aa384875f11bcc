"""Values of the data in the output of commands."""

from __future__ import annotations

import json
import math
from datetime import date, datetime
from typing import Any


def text(value: Any) -> str:
    """A value as text: instants in UTC with a Z, nested values as JSON, bytes as UTF-8 or in hexadecimal."""
    simple = plain(value)
    return simple if isinstance(simple, str) else json.dumps(simple, ensure_ascii=False)


def plain(value: Any) -> Any:
    """A value for JSON. Decimals, days and instants are texts, and so are NaN and the infinities, which JSON does not have."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, bytes):
        return _decoded(value)
    if isinstance(value, dict):
        return {str(plain(key)): plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    return str(value)


def _decoded(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return f"\\x{value.hex()}"
