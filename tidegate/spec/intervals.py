"""Declarations of the intervals of a source, and of what makes one complete."""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass
from typing import Literal, get_args

from tidegate.errors import FieldError
from tidegate.spec.checks import check_choice

IntervalUnit = Literal["day", "hour"]
CODES = {"%Y": r"[0-9]{4}", "%m": r"[0-9]{2}", "%d": r"[0-9]{2}", "%H": r"[0-9]{2}"}
"""The codes of strftime in templates, and what they match."""
_CODE = re.compile(r"%.?")
_TEMPLATE = "a path below the source's folder with %Y, %m and %d once each, and %H for hours, as in 'dt=%Y-%m-%d'"


@dataclass(frozen=True)
class Intervals:
    """The days or hours of which the files of a source are parts. One of the other fields says when an interval is complete."""

    path: str
    """What the path of each file has somewhere below the source's folder, with the codes of strftime: ``dt=%Y-%m-%d``,
    ``%Y/%m/%d``, ``orders_%Y%m%d``. With ``%H`` the intervals are hours, else days, in the pipeline's time zone."""
    _: dataclasses.KW_ONLY
    marker: str = ""
    """The path of a file whose presence completes the interval, with the same codes: ``dt=%Y-%m-%d/_SUCCESS``."""
    manifest: str = ""
    """The path of a file that lists the interval's files, one name a line, relative to its own folder. The interval is complete when
    all of them are there."""
    files: int | None = None
    """So many files complete the interval."""
    quiet_hours: float | None = None
    """For so many hours after its end no file was added or changed."""

    def __post_init__(self) -> None:
        declared = [
            name for name in ("marker", "manifest", "files", "quiet_hours") if getattr(self, name) not in ("", None)
        ]
        if len(declared) != 1:
            allowed = "exactly one of marker, manifest, files (from 1) and quiet_hours (above 0)"
            raise FieldError("Intervals", "marker", ", ".join(declared) or None, allowed)
        for name in ("path", "marker", "manifest"):
            template = getattr(self, name)
            if name != "path" and not template:
                continue
            codes = _CODE.findall(template) if isinstance(template, str) else []
            expected = sorted(_CODE.findall(self.path)) if name != "path" else None
            if sorted(set(codes) - {"%H"}) != ["%Y", "%d", "%m"] or not set(codes) <= set(CODES):
                raise FieldError("Intervals", name, template, _TEMPLATE)
            if len(codes) != len(set(codes)) and name == "path":
                raise FieldError("Intervals", name, template, _TEMPLATE)
            if expected is not None and sorted(set(codes)) != expected:
                raise FieldError("Intervals", name, template, f"the codes of path, {' '.join(expected)}")
            if template.startswith("/") or ".." in template.split("/"):
                raise FieldError("Intervals", name, template, _TEMPLATE)
        if self.files is not None and (
            isinstance(self.files, bool) or not isinstance(self.files, int) or self.files < 1
        ):
            raise FieldError("Intervals", "files", self.files, "a whole number from 1")
        if self.quiet_hours is not None:
            _check_quiet_hours(self, self.quiet_hours)

    @property
    def unit(self) -> IntervalUnit:
        """The length of an interval."""
        return "hour" if "%H" in self.path else "day"

    @property
    def pattern(self) -> re.Pattern[str]:
        """Finds the interval in the path of a file; its groups are ``Y``, ``m``, ``d`` and, of hours, ``H``."""
        parts = re.split(r"(%[YmdH])", self.path)
        return re.compile(
            "".join(f"(?P<{part[1]}>{CODES[part]})" if part in CODES else re.escape(part) for part in parts)
        )


@dataclass(frozen=True, kw_only=True)
class TopicIntervals:
    """The days or hours of a topic, by the timestamps of its messages, in the pipeline's time zone.

    One is complete when the quiet hours after its end are over and, in each partition, the message that bronze reads next is from after
    them, or bronze has read all messages.
    """

    unit: IntervalUnit = "day"
    """``day`` or ``hour``: the length of an interval."""
    quiet_hours: float
    """So many hours after its end. By less than this a message may come late, or after one with a later timestamp in its partition."""

    def __post_init__(self) -> None:
        check_choice(self, "unit", self.unit, get_args(IntervalUnit))
        _check_quiet_hours(self, self.quiet_hours)


def _check_quiet_hours(declared: object, hours: object) -> None:
    if isinstance(hours, bool) or not isinstance(hours, int | float) or not 0 < hours <= 100_000:
        raise FieldError(type(declared).__name__, "quiet_hours", hours, "hours above 0")
