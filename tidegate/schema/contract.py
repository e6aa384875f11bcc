"""Contracts: what happens with records that differ from the declared schema, and the answers of people to such changes.

A contract applies to the *shape* of records: undeclared fields, missing declared fields, changed types. For a column that
it names it also applies to single values that do not fit the type.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

from tidegate import hidden
from tidegate.errors import FieldError
from tidegate.formatting import count
from tidegate.schema.changes import SchemaChange
from tidegate.schema.ddl import Column, can_be_column, nested_paths, parse_ddl
from tidegate.schema.names import COLUMN

Mode = Literal["evolve", "rescue", "freeze", "discard_value"]
Action = Literal["evolve", "rescue", "freeze", "discard_value", "quarantine"]
Answer = Literal["evolve", "quarantine"]


@dataclass(frozen=True, kw_only=True)
class Contract:
    """What happens when records no longer fit the declared schema.

    ``evolve``: a new field becomes a nullable column. ``rescue``: it goes to ``_rescued``. ``discard_value``: it is
    dropped; bronze still has it. ``freeze``: nothing of the batch is written, and the batch waits for a person's answer.
    """

    mode: Mode = "rescue"
    """For the whole table: undeclared fields, missing fields, changed types. A single value that does not fit its column's
    type sends its row to quarantine in every mode."""
    columns: Mapping[str, Mode] | tuple[tuple[str, Mode], ...] = ()
    """Modes of single fields, which override the table's mode: ``{"dep_delay": "rescue"}``. For a declared field,
    ``rescue`` and ``discard_value`` also keep a row whose value does not fit: the column is NULL, and the text is rescued
    or dropped."""

    def __post_init__(self) -> None:
        modes = get_args(Mode)
        if self.mode not in modes:
            raise FieldError("Contract", "mode", self.mode, ", ".join(modes))
        try:
            pairs = tuple(sorted(dict(self.columns).items()))
        except (TypeError, ValueError):
            pairs = (("", "rescue"),)
        if not all(isinstance(name, str) and name and mode in modes for name, mode in pairs):
            raise FieldError("Contract", "columns", self.columns, f"field names, each with one of {', '.join(modes)}")
        object.__setattr__(self, "columns", pairs)

    def mode_of(self, name: str) -> Mode:
        """The mode of a field."""
        return self.column_modes().get(name, self.mode)

    def column_modes(self) -> dict[str, Mode]:
        """The fields that have a mode of their own."""
        return dict(self.columns)

    def check_fits(self, owner: str, schema: str) -> None:
        """Refuse column modes that could make a ``NOT NULL`` field NULL.

        Raises:
            FieldError: There is such a column mode.
        """
        required = {column.name for column in parse_ddl(owner, schema) if column.required}
        for name, mode in self.column_modes().items():
            if name in required and mode in ("rescue", "discard_value"):
                allowed = f"evolve or freeze for {name}, which is NOT NULL in the schema"
                raise FieldError("Contract", "columns", f"{name}: {mode}", allowed)


DEFAULT_CONTRACT = Contract()
"""The contract of a source that declares none."""


@dataclass(frozen=True, kw_only=True)
class Terms:
    """The contract in effect: as declared, completed by the answers to earlier schema changes."""

    contract: Contract = field(default_factory=Contract)
    evolved: Mapping[str, str] = field(default_factory=dict)
    """Undeclared fields that have become columns, with their types. They stay columns."""
    added: frozenset[str] = frozenset()
    """Fields that the schema or the records gained later. An older file without them is no schema change."""
    answers: Mapping[str, Answer] = field(default_factory=dict)
    """The answers to schema changes, by `tidegate.schema.changes.SchemaChange.identity`."""
    columns: tuple[Column, ...] = ()
    """The declared fields."""

    def action(self, change: SchemaChange) -> Action:
        """What to do about a schema change in a batch."""
        answer = self.answers.get(change.identity())
        mode: Action = self.contract.mode_of(change.field)
        if change.formerly is not None and self.contract.column_modes().get(change.formerly) == "freeze":
            mode = "freeze"
        if mode == "freeze" and answer is not None:
            mode = answer
        is_storable = COLUMN.fullmatch(change.field) is not None and can_be_column(change.after or "string")
        if mode == "evolve" and not (change.kind in ("addition", "rename_suspect") and is_storable):
            return "rescue"
        return mode

    def becomes_column(self, name: str) -> bool:
        """Whether an undeclared field is a column, or becomes one with the next record that has it."""
        return name in self.evolved or self.contract.mode_of(name) == "evolve"

    def discards(self) -> tuple[bool, tuple[str, ...]]:
        """Which undeclared fields are dropped: whether all of them by default, and the names that are exceptions to it."""
        by_default = self.contract.mode == "discard_value"
        exceptions = [
            name for name, mode in self.contract.column_modes().items() if (mode == "discard_value") != by_default
        ]
        return by_default, tuple(exceptions)

    def keeps_row(self, name: str) -> Literal["rescue", "discard_value"] | None:
        """What happens with the text of a value that does not fit a declared field; None when its row is quarantined."""
        if any(column.name == name and column.required for column in self.columns):
            return None
        mode = self.contract.column_modes().get(name)
        if mode == "rescue" or mode == "discard_value":
            return mode
        accepted = [
            SchemaChange.from_identity(identity) for identity, answer in self.answers.items() if answer == "evolve"
        ]
        retyped = any(c.kind in ("type_change", "widening") and c.field == name for c in accepted)
        return "rescue" if retyped else None

    def outcome(self, change: SchemaChange, action: Action) -> Action:
        """The effect of an action, as the history of schema changes records it.

        It is ``quarantine`` where other rules quarantine the rows of the change: ``wrong_type`` for a value that does not
        fit its column, ``required`` for a missing ``NOT NULL`` field.
        """
        column = next((column for column in self.columns if column.name == change.field), None)
        if column is None or action == "freeze":
            return action
        if change.kind == "removal":
            return "quarantine" if column.required else action
        retyped = change.kind in ("type_change", "widening") and not column.is_text
        return (self.keeps_row(column.name) or "quarantine") if retyped and action != "quarantine" else action

    def effect(self, change: SchemaChange, action: Action, quarantined: Mapping[str, int]) -> str:
        """What became of the rows of a batch that has a schema change, as one phrase.

        Args:
            change: The change.
            action: What the contract did about it.
            quarantined: Rows of the batch in quarantine, by rule.
        """
        column = next((column for column in self.columns if column.name == change.field), None)
        if action == "quarantine":
            return f"{_rows(quarantined, f'schema_change({change.field})')} with it went to quarantine"
        if column is None and change.field in self.evolved:
            return "a value that does not fit the column is in _rescued"
        if column is None:
            return _UNDECLARED[action]
        if change.kind == "removal":
            if column.required:
                return f"{_rows(quarantined, f'required({change.field})')} without it went to quarantine"
            return "the column is NULL in records without it"
        if column.is_text:
            return "its values are stored as text"
        lacking = "; nested fields that the schema lacks are in bronze only" if _has_more_fields(change) else ""
        match self.keeps_row(column.name):
            case "rescue":
                return f"a value that does not fit is NULL, and in {hidden.RESCUED}{lacking}"
            case "discard_value":
                return f"a value that does not fit is NULL, and in bronze only{lacking}"
        return (
            f"{_rows(quarantined, f'wrong_type({change.field})')} whose value does not fit went to quarantine{lacking}"
        )


_UNDECLARED: Mapping[str, str] = {
    "rescue": "its values are in _rescued",
    "evolve": "its values are in a column of that name",
    "discard_value": "its values are in bronze only",
}
"""What becomes of the values of a field that the schema does not have, by the action of the contract."""


def _rows(quarantined: Mapping[str, int], rule: str) -> str:
    return count(quarantined.get(rule, 0), "row")


def _has_more_fields(change: SchemaChange) -> bool:
    """Whether a STRUCT of the records, at any depth, has a field that the declared type lacks."""
    before = nested_paths(change.before or "")
    return bool(before and nested_paths(change.after or "") - before)
