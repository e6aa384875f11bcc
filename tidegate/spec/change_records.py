"""Declaration of change records: each record of a source says what it does to a row, and Debezium's envelope around them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

from tidegate.errors import FieldError
from tidegate.schema.ddl import parse_ddl
from tidegate.spec.checks import check_texts, fits

NoValue = Literal["refuse", "skip", "delete"]

_COLUMN = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_PATH = re.compile(r"[^\s.]+(\.[^\s.]+)*")
_NAME = re.compile(r"[a-z][a-z0-9_]*")


@dataclass(frozen=True, kw_only=True)
class ChangeRecords:
    """How a record says whether it writes or deletes a row.

    A record that deletes gets ``_deleted`` before the transform, and keeps it if the transform does not return this column. Of
    its fields only those that are read by ``paths`` have to be there: ``NOT NULL`` of the others is for rows that are written.
    A record that neither writes nor deletes is quarantined by the rule ``operation(…)``.
    """

    operation: str = ""
    """The STRING column of the schema with the operation, for example ``op``. Empty if records have none: each message with a value
    writes its row, and one without deletes it (``no_value="delete"``)."""
    writes: tuple[str, ...] = ()
    """Values of ``operation`` of records with a row that is inserted or updated, for example ``("I", "U")``. Case-sensitive."""
    deletes: tuple[str, ...] = ()
    """Values of ``operation`` of records that delete their row."""
    refused: Mapping[str, str] = field(default_factory=dict, hash=False)
    """Names of other operations for the rule, as in ``{"t": "truncate"}``; any other value breaks ``operation(unknown)``."""
    no_value: NoValue = "refuse"
    """What is done with a message without value, by the rule ``no_value``: ``skip`` filters it, because a record before it says
    the same; ``refuse`` quarantines it. ``delete``: it deletes the row with its key; only for topics with columns of the key
    (`KafkaSource.metadata`)."""
    after: str = ""
    """The field of the record that holds the row, if the record is an envelope. The columns of the schema are then fields of the
    row, except those in ``paths``. Only for JSON and for topics."""
    before: str = ""
    """The field of an envelope that holds the row of a record that deletes."""
    paths: Mapping[str, str] = field(default_factory=dict, hash=False)
    """Columns of the schema that an envelope has outside its row, with their paths: ``{"lsn": "source.lsn"}``."""
    unavailable: str = ""
    """The text in place of a value that the record does not have. A written row with it in a declared field would overwrite the
    value in the table, so it is quarantined by the rule ``unavailable(field)``."""

    def __post_init__(self) -> None:
        for name in ("refused", "paths"):
            if not isinstance(getattr(self, name), Mapping):
                raise FieldError("ChangeRecords", name, getattr(self, name), "a mapping, as in {'t': 'truncate'}")
        for name in ("after", "before", "unavailable"):
            if not isinstance(getattr(self, name), str):
                raise FieldError("ChangeRecords", name, getattr(self, name), "a text")
        for name in ("writes", "deletes"):
            check_texts("ChangeRecords", name, getattr(self, name))
        if self.no_value not in get_args(NoValue):
            raise FieldError("ChangeRecords", "no_value", self.no_value, ", ".join(get_args(NoValue)))
        if self.operation == "":
            self._check_without_operation()
            return
        for name in ("writes", *(() if self.no_value == "delete" else ("deletes",))):
            if not getattr(self, name):
                raise FieldError("ChangeRecords", name, getattr(self, name), "at least one value of operation")
        if both := {*self.writes} & {*self.deletes} | {*self.refused} & {*self.writes, *self.deletes}:
            raise FieldError(
                "ChangeRecords", "deletes", sorted(both), "no value of writes, and none of both in refused"
            )
        if not all(fits(_NAME, name) for name in self.refused.values()):
            raise FieldError(
                "ChangeRecords", "refused", dict(self.refused), "names in lower case, as in {'t': 'truncate'}"
            )
        if not fits(_COLUMN, self.operation):
            raise FieldError("ChangeRecords", "operation", self.operation, "one column's name")
        self._check_envelope()

    def _check_without_operation(self) -> None:
        if self.no_value != "delete":
            allowed = "the column with the operation; or none with no_value='delete', for messages whose deletes have no value"
            raise FieldError("ChangeRecords", "operation", self.operation, allowed)
        for name in ("writes", "deletes", "refused", "after", "before", "paths", "unavailable"):
            if getattr(self, name):
                raise FieldError("ChangeRecords", name, getattr(self, name), "nothing without operation")

    def _check_envelope(self) -> None:
        if bool(self.after) != bool(self.before):
            raise FieldError("ChangeRecords", "before", self.before, "together with after")
        if not self.after and (self.paths or self.unavailable):
            raise FieldError("ChangeRecords", "after", self.after, "the field with the row, with paths or unavailable")
        if not all(fits(_COLUMN, name) and fits(_PATH, path) for name, path in self.paths.items()):
            allowed = "{<column>: <path of names with points between them>}, as in {'lsn': 'source.lsn'}"
            raise FieldError("ChangeRecords", "paths", dict(self.paths), allowed)
        if self.after and self.operation not in self.paths:
            allowed = f"a path for {self.operation!r}, because the operation is not in the row"
            raise FieldError("ChangeRecords", "paths", dict(self.paths), allowed)

    @property
    def has_envelope(self) -> bool:
        """Whether the row is a field of the record."""
        return bool(self.after)

    def check_fits(self, owner: str, schema: str, kind: str) -> None:
        """Refuse a schema without the columns that are named here, and an envelope in a format that has no nested fields.

        Args:
            owner: The class of the source.
            schema: Its schema, as DDL.
            kind: The format of its records.

        Raises:
            FieldError: They do not fit.
        """
        columns = {column.name: column for column in parse_ddl("schema", schema)}
        if self.no_value == "delete" and owner != "KafkaSource":
            raise FieldError(
                owner, "changes", "no_value='delete'", "'refuse' or 'skip' for files: only messages have keys"
            )
        if self.operation == "":
            return
        if missing := sorted({self.operation, *self.paths} - columns.keys()):
            raise FieldError(owner, "schema", ", ".join(columns), f"also {', '.join(missing)}, which changes names")
        if not columns[self.operation].is_text:
            raise FieldError(owner, "schema", columns[self.operation].type, f"STRING for {self.operation!r}")
        if self.has_envelope and kind != "json" and owner != "KafkaSource":
            raise FieldError(
                owner,
                "changes",
                "an envelope",
                f"records without envelope for files of format {kind}; JSON and topics may have one",
            )


def debezium(
    *, operation: str = "op", unavailable: str = "__debezium_unavailable_value", **paths: str
) -> ChangeRecords:
    """Debezium's change records, with or without the schema around them (``{"schema": …, "payload": …}``).

    ``c``, ``u`` and ``r`` (a row of a snapshot) write the row in ``after``, ``d`` deletes the row in ``before``. ``t`` breaks
    ``operation(truncate)`` and ``m`` ``operation(message)``. The message without value that follows a delete is filtered.

    Args:
        operation: The column of the schema with the operation.
        unavailable: The connector's ``unavailable.value.placeholder``.
        paths: Columns of the schema that are not in the row, with their paths in the envelope: ``lsn="source.lsn"``.
    """
    return ChangeRecords(
        operation=operation,
        writes=("c", "u", "r"),
        deletes=("d",),
        refused={"t": "truncate", "m": "message"},
        no_value="skip",
        after="after",
        before="before",
        paths={operation: "op", **paths},
        unavailable=unavailable,
    )


def check_changes(owner: str, changes: object, schema: str, kind: str) -> None:
    """Refuse what is not None or change records that fit the schema."""
    if changes is None:
        return
    if not isinstance(changes, ChangeRecords):
        raise FieldError(owner, "changes", changes, "ChangeRecords(…), debezium(…) or None")
    changes.check_fits(owner, schema, kind)
