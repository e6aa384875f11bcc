"""A selection of open quarantine entries: validated input, and its SQL condition."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Self

import pendulum

from tidegate.advice import Edit
from tidegate.errors import RequestError
from tidegate.times import dates

RULE = r"[a-z][a-z0-9_]*(\([^'\x22`;\\\x00-\x1f\x7f]{1,1000}\))?(#[0-9]{1,3})?"
"""A rule name as in the column ``rules``, for example ``between(dep_delay)``: a field name stands in brackets. It becomes
part of an SQL condition, so quotes, backslashes and control characters are not allowed."""
AGE = r"[1-9][0-9]{0,4}[dh]"
"""Days or hours: ``30d``, ``12h``."""


@dataclass(frozen=True, kw_only=True)
class Selection:
    """A filter for open entries; without any field it selects all of them."""

    rule: str | None = None
    """Only entries that broke this rule, alone or with others."""
    since: str | None = None
    """The first day (UTC, ``YYYY-MM-DD``) on which the entries were quarantined."""
    until: str | None = None
    """The last such day, included."""
    older_than: str | None = None
    """Only entries older than this age: ``30d``, ``12h``."""

    @classmethod
    def check(
        cls,
        *,
        rule: str | None = None,
        since: str | None = None,
        until: str | None = None,
        older_than: str | None = None,
    ) -> Self:
        """A selection from unchecked input.

        Raises:
            RequestError: A rule name, day or age is malformed, or ``since`` is after ``until``.
        """
        if rule is not None and not re.fullmatch(RULE, rule):
            raise RequestError(
                f"{rule!r} is not a rule name", Edit("the command quarantine list shows the names", "request")
            )
        for name, day in (("since", since), ("until", until)):
            if day is not None:
                _check_day(name, day)
        if since is not None and until is not None and since > until:
            raise RequestError(f"since {since} is after until {until}", Edit("exchange them", "request"))
        if older_than is not None:
            age(older_than)
        return cls(rule=rule, since=since, until=until, older_than=older_than)

    def condition(self) -> str:
        """The SQL condition for delta-rs."""
        parts = []
        if self.rule is not None:
            parts.append(f"array_has(rules, '{self.rule}')")
        if self.since is not None:
            parts.append(f"quarantined_at >= {dates.literal(dates.midnight(self.since))}")
        if self.until is not None:
            parts.append(f"quarantined_at < {dates.literal(dates.midnight(self.until).add(days=1))}")
        if self.older_than is not None:
            parts.append(f"quarantined_at < {dates.literal(pendulum.now('UTC') - age(self.older_than))}")
        return " AND ".join(parts) or "true"

    def summary(self) -> str:
        """For messages, after ``open``: empty, or for example ``of between(amount) since 2026-01-05``."""
        parts = [
            f"{word} {value}"
            for word, value in (
                ("of", self.rule),
                ("since", self.since),
                ("until", self.until),
                ("older than", self.older_than),
            )
            if value is not None
        ]
        return " ".join(parts)


def age(text: str) -> pendulum.Duration:
    """The duration of ``30d`` or ``12h``; raises `RequestError` for anything else."""
    if not re.fullmatch(AGE, text):
        raise RequestError(f"{text!r} is not an age", Edit("write days or hours, as in 30d or 12h", "request"))
    number = int(text[:-1])
    return pendulum.duration(days=number) if text.endswith("d") else pendulum.duration(hours=number)


def _check_day(name: str, day: str) -> None:
    try:
        dates.midnight(day)
    except ValueError as error:
        problem, _, allowed = f"{name}={day!r} {error}".partition("; ")
        raise RequestError(problem, Edit(allowed, "request")) from None
