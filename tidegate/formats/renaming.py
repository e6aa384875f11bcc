"""Gives the fields of a decoded record their declared names: the one place where this is done for values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tidegate.formats import exact_json
from tidegate.schema.names import FieldNames


class RepeatedNameError(ValueError):
    """Two fields of an object have the same declared name.

    Attributes:
        name: The declared name.
    """

    def __init__(self, name: str) -> None:
        super().__init__(f"two fields are named {name}")
        self.name = name


def renamed_record(record: Mapping[str, Any], names: FieldNames) -> Mapping[str, Any]:
    """A record, or an object in it, with the declared names of its fields.

    Raises:
        RepeatedNameError: It has a field by two names.
    """
    if not names:
        return record
    renamed: dict[str, Any] = {}
    for name, value in record.items():
        declared = names.declared(name)
        if declared in renamed:
            raise RepeatedNameError(declared)
        inside = names.inside.get(declared)
        renamed[declared] = value if inside is None else _renamed_value(value, inside, inside.containers)
    return renamed


def renamed_text(text: str, names: FieldNames, containers: tuple[str, ...] | None = None) -> str:
    """The JSON text of one field with the declared names of what is in it; a text that is no object or array as it is.

    Args:
        containers: What is around the objects in it; by default all that the names declare.

    Raises:
        RepeatedNameError: An object has a field by two names.
    """
    try:
        value = exact_json.decode(text)
    except (ValueError, RecursionError):
        # It does not fit the type of its column, which is for the cast to say.
        return text
    if not isinstance(value, dict | list):
        return text
    renamed = exact_json.as_text(_renamed_value(value, names, names.containers if containers is None else containers))
    try:
        renamed.encode()
    except UnicodeEncodeError:
        # Half of a surrogate pair that was an escape in the text.
        return text
    return renamed


def _renamed_value(value: Any, names: FieldNames, containers: tuple[str, ...]) -> Any:
    if isinstance(value, str) and not isinstance(value, exact_json.Number):
        # A part of a nested value may be JSON in a text.
        return renamed_text(value, names, containers)
    if not containers:
        return renamed_record(value, names) if isinstance(value, dict) else value
    if containers[0] == "array" and isinstance(value, list):
        return [_renamed_value(each, names, containers[1:]) for each in value]
    if containers[0] == "map" and isinstance(value, dict):
        return {key: _renamed_value(each, names, containers[1:]) for key, each in value.items()}
    return value
