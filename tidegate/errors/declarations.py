"""Requests, and what users declare."""

from __future__ import annotations

from tidegate.advice import Edit
from tidegate.errors.error import EX_CONFIG, EX_USAGE, TidegateError


class RequestError(TidegateError):
    """A request names something that does not exist, or its parameters contradict each other."""

    exit_code = EX_USAGE


class SpecError(TidegateError):
    """A declaration, a transform or a suite is invalid; nothing was run."""

    exit_code = EX_CONFIG


class FieldError(SpecError):
    """One field of a declaration has a value that is not allowed.

    Args:
        owner: The declared object, for example ``Flow 'silver'``.
        field: The name of the field.
        value: The declared value; the error keeps its ``repr``.
        allowed: Description of the allowed values.
    """

    def __init__(self, owner: str, field: str, value: object, allowed: str) -> None:
        super().__init__(
            f"{owner}: {field}={value!r} is not allowed", Edit(f"allowed: {allowed}", "declaration", field)
        )
        self.owner = owner
        self.field = field
        self.value = repr(value)
        self.allowed = allowed


class DeclarationConflictError(SpecError):
    """The declaration contradicts data that is already in the lake (a renamed flow, keys that the source no longer has)."""
