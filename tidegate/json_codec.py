"""Dataclasses as JSON, and back. Types are checked when JSON is read; unknown keys, of a newer version, are ignored."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from tidegate.advice import Advice
from tidegate.errors import DamagedFileError
from tidegate.store import Address

T = TypeVar("T")


def to_plain(value: Any) -> Any:
    """JSON values of a dataclass, or of anything that holds dataclasses; a value without a form in JSON becomes its text."""
    return msgspec.to_builtins(value, str_keys=True, enc_hook=_plain)


def from_plain(values: Any, kind: type[T]) -> T:
    """The reverse of `to_plain`; raises ValueError for values that do not fit."""
    return msgspec.convert(values, kind, str_keys=True)


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
    """Replace a file with the JSON of a value, as `Address.put`."""
    address.put((encode(value, indent=1) + "\n").encode())


def read(address: Address, kind: type[T], repair: Advice | None = None) -> T | None:
    """The value in a file; None when there is no file.

    Args:
        address: Of a file that `write` made.
        repair: What to do about a damaged file. Without it, a damaged file counts as missing.

    Raises:
        DamagedFileError: The content does not fit.
        OSError: The file cannot be read. It never counts as missing: what it says would be forgotten.
    """
    try:
        return decode(address.read().data, kind)
    except FileNotFoundError:
        return None
    except ValueError as error:
        if repair is None:
            return None
        raise DamagedFileError(address, str(error), repair) from None


def _plain(value: Any) -> Any:
    return dict(value) if isinstance(value, Mapping) else str(value)
