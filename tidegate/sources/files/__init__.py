"""The declaration of a landing folder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from tidegate.errors import FieldError
from tidegate.json_codec import changed_fields
from tidegate.schema.contract import DEFAULT_CONTRACT, Contract
from tidegate.schema.ddl import Column, parse_ddl
from tidegate.schema.names import FieldNames, Renames, field_names
from tidegate.spec.change_records import ChangeRecords, check_changes
from tidegate.spec.checks import (
    brackets_closed,
    check_choice,
    check_folder,
    check_positive,
    check_schema,
    check_size,
    check_texts,
)
from tidegate.spec.formats import (
    DEFAULT_FORMATS,
    RFC_4180,
    Dialect,
    Formats,
    check_contract,
    check_formats,
    checked_fields,
)
from tidegate.spec.intervals import Intervals

FileFormat = Literal["csv", "json", "parquet", "avro"]
MAX_FILE_AGE_DAYS = 3_650_000
"""The stream's ``maxFileAge``, ten thousand years. Spark ignores files that are older than the newest one by more than this.
With Spark's default of 7 days, late files would be ignored, and one file with a time in the future would hide all others."""

_GLOBS: Mapping[str, str] = {
    "csv": "*.{csv,csv.gz,csv.bz2}",
    "json": "*.{json,jsonl,ndjson,json.gz,jsonl.gz,ndjson.gz,json.bz2,jsonl.bz2,ndjson.bz2}",
    "parquet": "*.parquet",
    "avro": "*.avro",
}


@dataclass(frozen=True, kw_only=True)
class FileSource:
    """A landing folder: complete files arrive under final names and never change afterwards.

    Files whose name begins with ``_`` or ``.`` or does not match ``glob`` (for example ``.tmp``) are ignored: they are
    incomplete or do not belong to the source.
    """

    path: str
    """The folder, relative to the landing zone, for example ``flights``."""
    format: FileFormat
    """``csv``, ``json`` (one object a line), ``parquet`` or ``avro`` (object container files)."""
    schema: str
    """The fields of one record as DDL: ``"dep_delay DOUBLE, origin STRING NOT NULL"``. Silver parses fields by name;
    a record with a value that does not fit its type, or without a ``NOT NULL`` field, is quarantined."""
    fields: Renames = ()
    """Fields whose name in the records is not that in the schema: ``{"Order ID": "order_id"}``, and of nested fields
    ``{("customer", "First Name"): "first_name"}``. A record may also have the name in the schema, but not both. The name in the
    records is kept as the column's comment."""
    null_values: tuple[str, ...] = ("",)
    """Texts that mean "no value", for example ``("", "NA")``."""
    dialect: Dialect = RFC_4180
    """The dialect of CSV files; for JSON files, ``encoding`` and ``blank_lines``."""
    glob: str = ""
    """Which file names are read, case-sensitive. Empty takes the default of the format: ``*.csv``, ``*.json``, ``*.jsonl``
    and ``*.ndjson``, each also with ``.gz`` or ``.bz2`` appended, ``*.parquet``, ``*.avro``."""
    contract: Contract = DEFAULT_CONTRACT
    """What happens with files that have other fields than the schema; by default the fields are rescued."""
    formats: Formats = DEFAULT_FORMATS
    """How values are written, where it differs from ``docs/formats.md``."""
    changes: ChangeRecords | None = None
    """If each record inserts, updates or deletes a row: how it says so. ``debezium(lsn="source.lsn")`` for Debezium's."""
    max_files_per_trigger: int = 1000
    """Maximum number of files per micro-batch."""
    max_bytes_per_trigger: str = "1g"
    """Maximum bytes of files per micro-batch, as stored (compressed). A single larger file is read nevertheless."""
    intervals: Intervals | None = None
    """The days or hours that the files are parts of, and when one is complete. Files are read as they land nevertheless."""

    def __post_init__(self) -> None:
        check_folder(self, "path", self.path)
        check_choice(self, "format", self.format, get_args(FileFormat))
        check_schema(self, self.schema)
        check_positive(self, "max_files_per_trigger", self.max_files_per_trigger)
        check_size(self, self.max_bytes_per_trigger)
        check_texts("FileSource", "null_values", self.null_values)
        self._check_dialect()
        if not isinstance(self.glob, str) or "/" in self.glob or not brackets_closed(self.glob):
            raise FieldError("FileSource", "glob", self.glob, "a pattern for file names, as in '*.{csv,csv.gz}'")
        check_contract(self, self.contract, self.schema)
        check_formats(self, self.formats, self.schema, self.format)
        check_changes(type(self).__name__, self.changes, self.schema, self.format)
        fields = checked_fields(
            self, self.fields, self.schema, self.contract, self.changes, self.dialect if self.format == "csv" else None
        )
        object.__setattr__(self, "fields", fields)
        if self.intervals is not None and not isinstance(self.intervals, Intervals):
            raise FieldError("FileSource", "intervals", self.intervals, "Intervals(…) or None")
        if not self.glob:
            object.__setattr__(self, "glob", _GLOBS[self.format])

    @property
    def columns(self) -> tuple[Column, ...]:
        """The declared fields."""
        return parse_ddl("schema", self.schema)

    @property
    def names(self) -> FieldNames:
        """The names of fields in records that are not those in the schema."""
        return field_names(self.fields, self.columns)

    def _check_dialect(self) -> None:
        if not isinstance(self.dialect, Dialect):
            raise FieldError("FileSource", "dialect", self.dialect, "a Dialect, as in Dialect(separator=';')")
        changed = changed_fields(self.dialect).keys()
        applicable = {"csv": changed, "json": {"encoding", "blank_lines"}}.get(self.format, frozenset())
        if unknown := sorted(changed - applicable):
            raise FieldError(
                "FileSource",
                "dialect",
                self.dialect,
                f"a Dialect without {', '.join(unknown)}, which {self.format} files do not have",
            )

    @property
    def deletes_unread(self) -> bool:
        """Whether it deletes data after a time, read or not, by a setting of its own."""
        return False

    def identity(self) -> dict[str, Any]:
        """The fields that the checkpoint's sidecar stores."""
        return {"kind": "files", "path": self.path, "format": self.format, "glob": self.glob}

    def summary(self) -> str:
        """For pages."""
        return f"{self.format} files in {self.path}/"

    def describe(self) -> str:
        """For the documentation of DAGs, as Markdown, with the limit of a batch."""
        return f"{self.format} files `{self.path}/{self.glob}`, at most {self.max_files_per_trigger:,} a batch"
