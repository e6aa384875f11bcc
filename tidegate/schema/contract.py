"""What a source may bring that its schema does not say: declared, and then completed by what people answered.

A contract decides about the *shape* of what arrives: fields that the schema does not know, declared fields that are gone,
changed types. A column that it names is decided about value by value too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from tidegate.errors import FieldError
from tidegate.schema.ddl import Column, parse_ddl
from tidegate.schema.drift import Change

Mode = Literal["evolve", "rescue", "freeze", "discard_value"]
Action = Literal["evolve", "rescue", "freeze", "discard_value", "quarantine"]
Answer = Literal["evolve", "quarantine"]

COLUMN = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,127}")
"""What a field must be called to become a column."""


@dataclass(frozen=True, kw_only=True)
class Contract:
    """What happens when records no longer fit the declared schema.

    ``evolve``: a new field becomes a nullable column. ``rescue``: it goes to ``_rescued``. ``discard_value``: it is left
    out; bronze still has it. ``freeze``: nothing of the batch is written, and it waits until a person answers.
    """

    mode: Mode = "rescue"
    """For the whole table: fields that the schema does not know, fields that are gone, types that changed. A single value
    that does not fit its column's type sends its row to quarantine in any mode."""
    columns: Mapping[str, Mode] | tuple[tuple[str, Mode], ...] = ()
    """By field, before the table's mode: ``{"dep_delay": "rescue"}``. For a declared field, ``rescue`` and
    ``discard_value`` also keep a row whose value does not fit: the column is NULL, and the text is rescued or left out."""

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
        """The mode for a field."""
        return self.named().get(name, self.mode)

    def named(self) -> dict[str, Mode]:
        """The fields that have a mode of their own."""
        return dict(self.columns)

    def check_fits(self, owner: str, schema: str) -> None:
        """Refuse a column mode that makes a ``NOT NULL`` field NULL.

        Raises:
            FieldError: It does.
        """
        required = {column.name for column in parse_ddl(owner, schema) if column.required}
        for name, mode in self.named().items():
            if name in required and mode in ("rescue", "discard_value"):
                allowed = f"evolve or freeze for {name}, which is NOT NULL in the schema"
                raise FieldError("Contract", "columns", f"{name}: {mode}", allowed)

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        return {"mode": self.mode, "columns": self.named()}


RESCUING = Contract()
"""What a source has that declares none."""


@dataclass(frozen=True, kw_only=True)
class Terms:
    """A contract, with what became of earlier drift."""

    contract: Contract = field(default_factory=Contract)
    evolved: Mapping[str, str] = field(default_factory=dict)
    """Fields outside the schema that became columns, with their types: they stay columns."""
    added: frozenset[str] = frozenset()
    """Fields that the schema or the records gained later: that older files lack them is no drift."""
    answers: Mapping[str, Answer] = field(default_factory=dict)
    """What people answered, by `tidegate.schema.drift.Change.identity`."""
    columns: tuple[Column, ...] = ()
    """The declared fields."""

    def action(self, change: Change) -> Action:
        """What happens with a change that a batch brings."""
        answer = self.answers.get(change.identity())
        mode: Action = self.contract.mode_of(change.field)
        if change.formerly is not None and self.contract.named().get(change.formerly) == "freeze":
            mode = "freeze"
        if mode == "freeze" and answer is not None:
            mode = answer
        can_be_column = change.kind in ("addition", "rename_suspect") and COLUMN.fullmatch(change.field) is not None
        if mode == "evolve" and not can_be_column:
            return "rescue"
        return mode

    def discards(self) -> tuple[bool, tuple[str, ...]]:
        """Which fields that the schema does not know are left out: whether all are, and the names that are excepted."""
        all_of_them = self.contract.mode == "discard_value"
        other = [name for name, mode in self.contract.named().items() if (mode == "discard_value") != all_of_them]
        return all_of_them, tuple(other)

    def keeps_row(self, name: str) -> Literal["rescue", "discard_value"] | None:
        """Whether a value of a declared field that does not fit leaves its row whole, and where the text goes."""
        if any(column.name == name and column.required for column in self.columns):
            return None
        mode = self.contract.named().get(name)
        if mode == "rescue" or mode == "discard_value":
            return mode
        accepted = [Change.from_identity(identity) for identity, answer in self.answers.items() if answer == "evolve"]
        retyped = any(c.kind in ("type_change", "widening") and c.field == name for c in accepted)
        return "rescue" if retyped else None

    def done(self, change: Change, action: Action) -> Action:
        """What an action comes to, for the history: rows that it cannot keep go to quarantine by a rule of their own.

        Those are rows with a value that does not fit its column (``wrong_type``), and rows without a field that is
        ``NOT NULL`` (``required``).
        """
        column = next((column for column in self.columns if column.name == change.field), None)
        if column is None or action == "freeze":
            return action
        if change.kind == "removal":
            return "quarantine" if column.required else action
        retyped = change.kind in ("type_change", "widening") and not column.is_text
        return (self.keeps_row(column.name) or "quarantine") if retyped and action != "quarantine" else action
