"""Durations in declarations: a number and a unit, as in ``"15 minutes"``."""

from __future__ import annotations

import re

from tidegate.errors import FieldError
from tidegate.spec.checks import fits

_SECONDS = {"second": 1, "minute": 60, "hour": 3_600, "day": 86_400}
_DURATION = re.compile(rf"([1-9][0-9]{{0,6}}) ({'|'.join(_SECONDS)})s?")


def check_duration(owner: str, name: str, value: object) -> None:
    """Refuse values that are not a duration."""
    if not fits(_DURATION, value):
        raise FieldError(owner, name, value, "a number and seconds, minutes, hours or days, as in '15 minutes'")


def in_seconds(duration: str) -> int:
    """A declared duration in seconds."""
    number, unit = duration.split(" ")
    return int(number) * _SECONDS[unit.removesuffix("s")]
