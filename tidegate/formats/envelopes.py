"""Takes the row of a change out of its envelope.

An envelope is a decoded record as `tidegate.formats.raw_fields` has it. What cannot be a change of a row breaks a rule for
the record as a whole, as text that cannot be parsed does.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tidegate.formats.renaming import renamed_record
from tidegate.schema.names import AS_THEY_ARE, FieldNames
from tidegate.spec import ChangeRecords

NO_VALUE = "no_value"
"""The rule of a message without value."""


class Envelope:
    """Makes a record with the fields of the row, and with the columns outside it, of a record that is an envelope.

    Args:
        changes: The declaration.
        declared: The columns of the schema.
        becomes_column: Whether an undeclared field of the row is, or may become, a column.
        names: The declared names of the fields of the row.
    """

    def __init__(
        self,
        changes: ChangeRecords,
        declared: Sequence[str],
        becomes_column: Callable[[str], bool] = lambda name: False,
        names: FieldNames = AS_THEY_ARE,
    ) -> None:
        self.changes, self.becomes_column, self.names = changes, becomes_column, names
        self.paths = {name: path.split(".") for name, path in changes.paths.items()}
        self.of_row = set(declared) - self.paths.keys()
        marker = changes.unavailable
        self.markers = {marker, base64.b64encode(marker.encode()).decode()} if marker else set()

    def __call__(self, record: Mapping[str, Any]) -> tuple[Mapping[str, Any], str | None]:
        """The record of one change, and the rule that it breaks, if any.

        A record whose operation is not declared has no row: its operation decides what is done with it.

        Raises:
            RepeatedNameError: The row has a field by two names.
        """
        if record.keys() == {"schema", "payload"}:
            record = record["payload"]
            if not isinstance(record, dict):
                return {}, NO_VALUE if record is None else "malformed_json"
        outside = {name: _at(record, path) for name, path in self.paths.items()}
        operation = outside.get(self.changes.operation)
        if operation not in (*self.changes.writes, *self.changes.deletes):
            return outside, None
        deletes = operation in self.changes.deletes
        field = self.changes.before if deletes else self.changes.after
        row = record.get(field)
        if not isinstance(row, dict):
            return outside, f"missing({field})"
        row = renamed_record(row, self.names)
        if both := sorted(row.keys() & outside.keys()):
            return outside, f"repeated_field({both[0]})"
        if self.markers:
            absent = [name for name, value in row.items() if self._is_unavailable(value)]
            if not deletes and (rule := self._unavailable(absent)):
                return outside, rule
            row = {name: value for name, value in row.items() if name not in absent}
        return {**row, **outside}, None

    def _unavailable(self, absent: Sequence[str]) -> str | None:
        for name in absent:
            if name in self.of_row:
                return f"unavailable({name})"
        return "unavailable(undeclared)" if any(map(self.becomes_column, absent)) else None

    def _is_unavailable(self, value: object) -> bool:
        """Whether a text, its bytes in base64, the only item of an array or the only entry of a map is the marker."""
        if isinstance(value, (list, dict)) and len(value) == 1:
            value = next(iter(value))
        return isinstance(value, str) and value in self.markers


def fields_of_row(definition: Any, changes: ChangeRecords) -> Any:
    """The Avro schema of the row in an envelope's, without the columns outside; None if it has none."""
    fields = definition.get("fields", ()) if isinstance(definition, dict) else ()
    # The second of two fields of the same type may name it instead of defining it.
    for field in fields:
        if field["name"] in (changes.after, changes.before):
            branches = field["type"] if isinstance(field["type"], list) else [field["type"]]
            for branch in branches:
                if isinstance(branch, dict) and branch.get("type") == "record":
                    return branch
    return None


def _at(record: Any, path: Sequence[str]) -> Any:
    for name in path:
        record = record.get(name) if isinstance(record, dict) else None
    return record
