"""Dataclasses as JSON, and back. Types are checked when JSON is read; unknown keys, of a newer version, are ignored."""

from __future__ import annotations

import dataclasses
import json
import threading
from collections.abc import Mapping
from types import UnionType
from typing import Any, TypeVar, cast, get_args

import msgspec

from tidegate.advice import Advice
from tidegate.errors import DamagedFileError
from tidegate.store import Address

T = TypeVar("T")

# msgspec keeps what it works out about a dataclass, and shows it to other threads before it is complete: two threads that read
# the first value of a class at once end the process by a segmentation fault. Reentrant, as a `__post_init__` may read too.
_CONVERT = threading.RLock()


def to_plain(value: Any) -> Any:
    """JSON values of a dataclass, or of anything that holds dataclasses; a value without a form in JSON becomes its text."""
    return msgspec.to_builtins(value, str_keys=True, enc_hook=_plain)


def from_plain(values: Any, kind: type[T]) -> T:
    """The reverse of `to_plain`; raises ValueError for values that do not fit."""
    if isinstance(kind, UnionType):
        return from_plain(values, _class_of(values, get_args(kind)))
    with _CONVERT:
        try:
            return msgspec.convert(values, kind, str_keys=True)
        except msgspec.ValidationError as error:
            # Before msgspec 0.21, which Airflow 3.1 does not have, it is no ValueError.
            raise ValueError(str(error)) from None


def union(kind: UnionType) -> type[Any]:
    """A union of dataclasses as the type that `from_plain` reads. Each has a field that no other has, and JSON always has it."""
    return cast("type[Any]", kind)


def own_fields(kind: type, kinds: tuple[type, ...]) -> frozenset[str]:
    """The fields of a dataclass that no other of these has."""
    names = {each: frozenset(field.name for field in dataclasses.fields(each)) for each in kinds}
    return names[kind].difference(*(names[each] for each in kinds if each is not kind))


def _class_of(values: Any, kinds: tuple[type[T], ...]) -> type[T]:
    fitting = [kind for kind in kinds if isinstance(values, Mapping) and own_fields(kind, kinds) & values.keys()]
    if len(fitting) != 1:
        raise ValueError(f"it is not one of {', '.join(kind.__name__ for kind in kinds)}")
    return fitting[0]


def changed_fields(declaration: Any) -> dict[str, Any]:
    """The fields of a dataclass that differ from their defaults, as JSON values."""
    defaults = to_plain(type(declaration)())
    return {name: value for name, value in to_plain(declaration).items() if value != defaults[name]}


def encode(value: Any, indent: int | None = None) -> str:
    """The JSON of `to_plain`, in one line without ``indent``."""
    # Not msgspec's own JSON: it refuses the lone surrogates of a file name that is not UTF-8.
    return json.dumps(to_plain(value), indent=indent)


def decode(text: str | bytes, kind: type[T]) -> T:
    """The reverse of `encode`; raises ValueError for a text that does not fit."""
    return from_plain(json.loads(text), kind)


def write(address: Address, value: Any) -> None:
    """Replace a file with the JSON of a value, as `Address.put`: one that only this process writes."""
    address.put(to_bytes(value))


def to_bytes(value: Any) -> bytes:
    """The content of a file that `read` reads. That of None counts as no file."""
    return (encode(value, indent=1) + "\n").encode()


def read(address: Address, kind: type[T], repair: Advice | None = None) -> T | None:
    """The value in a file; None when there is no file, or one with ``null``.

    Args:
        address: Of a file with the content of `to_bytes`.
        repair: What to do about a damaged file. Without it, a damaged file counts as missing.

    Raises:
        DamagedFileError: The content does not fit.
        OSError: The file cannot be read. It never counts as missing: what it says would be forgotten.
    """
    try:
        data = address.read().data
    except FileNotFoundError:
        return None
    return value_of(address, data, kind, repair)


def value_of(address: Address, data: bytes, kind: type[T], repair: Advice | None = None) -> T | None:
    """As `read`, of the content that a file has."""
    try:
        values = json.loads(data)
        return None if values is None else from_plain(values, kind)
    except ValueError as error:
        if repair is None:
            return None
        raise DamagedFileError(address, str(error), repair) from None


def _plain(value: Any) -> Any:
    return dict(value) if isinstance(value, Mapping) else str(value)
