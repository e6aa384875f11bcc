"""Requests, and what users declare."""

from __future__ import annotations

from collections.abc import Sequence

from tidegate.advice import Edit, Either, Then, new_version
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


class UndeclaredDependenceError(SpecError):
    """A transform depends on rows of a source that ``keys`` and ``on`` do not name, so that their changes would not reach its table.

    Args:
        problem: What the transform does.
        table: The source.
        missing: Its columns by which the transform does not limit the rows.
        declares: The field of the declaration that names other rows: ``keys``, ``replace_by`` or ``on``.
        version: The checkpoint version.
    """

    def __init__(self, problem: str, table: str, missing: Sequence[str], declares: str, version: int) -> None:
        super().__init__(
            problem,
            Either(
                Edit(f"group and join rows of {table} by {', '.join(missing)} as well", "transform"),
                Edit(f"compute what needs all rows of {table} in a flow of its own, and read its table", "declaration"),
                Then(
                    Edit(f"declare {declares} as the transform needs it", "declaration", declares), new_version(version)
                ),
            ),
        )
        self.table = table
        self.missing = list(missing)


class DeclarationConflictError(SpecError):
    """The declaration contradicts data that is already in the lake (a renamed flow, keys that the source no longer has)."""
