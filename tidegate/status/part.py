"""The parts of a reading, each read when it is first asked for. Starts no JVM."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, overload

from tidegate.alerting.facts import UnknownFactError

if TYPE_CHECKING:
    from tidegate.errors import TidegateError

T_co = TypeVar("T_co", covariant=True)


class part(Generic[T_co]):  # noqa: N801
    """A part of a reading, which is read when it is first asked for, and kept.

    `functools.cached_property` of Python 3.11 has one lock for all instances: a broker that does not answer would hold up every flow.
    """

    def __init__(self, read: Callable[[Any], T_co]) -> None:
        """Has the documentation of the function."""
        self.read, self.__doc__ = read, read.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        """The name under which a reading keeps it."""
        self.name = name

    @overload
    def __get__(self, reading: None, owner: type) -> Self: ...
    @overload
    def __get__(self, reading: object, owner: type) -> T_co: ...
    def __get__(self, reading: object | None, owner: type) -> Self | T_co:
        """The part; of the class, this."""
        return self if reading is None else self.of(reading)

    def of(self, reading: object) -> T_co:
        """The part of a reading."""
        known = vars(reading)
        if self.name not in known:
            self.check(reading)
            known[self.name] = self.read(reading)
        value: T_co = known[self.name]
        return value

    def check(self, reading: object) -> None:
        """Raise if the part is not to be read."""


class measured(part[T_co]):  # noqa: N801
    """A part that is read on the way to what waits for a flow. After an error it is not read any more."""

    def check(self, reading: Any) -> None:
        """Raises `UnknownFactError`: a source that did not answer is not asked again."""
        error: TidegateError | None = reading.error
        if error is not None:
            raise UnknownFactError
