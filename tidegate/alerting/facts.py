"""Facts that a rule needs, which may be unknown."""

from __future__ import annotations

from typing import TypeVar

T = TypeVar("T")


class UnknownFactError(Exception):
    """A rule needs a fact that is not known, so it is undecided."""


def known(fact: T | None) -> T:
    """The fact; raises `UnknownFactError` if it is None."""
    if fact is None:
        raise UnknownFactError
    return fact
