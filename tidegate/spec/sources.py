"""Where a flow's rows come from: a landing folder, a topic, or the changes of another table."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from tidegate.errors import FieldError
from tidegate.schema.contract import RESCUING, Contract
from tidegate.schema.ddl import Column, parse_ddl
from tidegate.spec.dialect import RFC_4180, Dialect
from tidegate.spec.fields import (
    check_choice,
    check_folder,
    check_positive,
    check_schema,
    check_table,
    check_texts,
    closes,
    fits,
)
from tidegate.spec.formats import PLAIN, Formats

FileFormat = Literal["csv", "json", "parquet", "avro"]
ValueFormat = Literal["json", "avro"]
Isolation = Literal["read_committed", "read_uncommitted"]
MAX_FILE_AGE_DAYS = 3_650_000
"""The stream's ``maxFileAge``, ten thousand years. Spark passes over a file that is older than the newest one by more, so one
file with a time in the future would hide all others, and Spark's own 7 days hide every late file."""

_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")
_SIZE = re.compile(r"[1-9][0-9]*[kmg]")

_GLOBS: Mapping[str, str] = {
    "csv": "*.{csv,csv.gz,csv.bz2}",
    "json": "*.{json,jsonl,ndjson,json.gz,jsonl.gz,ndjson.gz,json.bz2,jsonl.bz2,ndjson.bz2}",
    "parquet": "*.parquet",
    "avro": "*.avro",
}


@dataclass(frozen=True, kw_only=True)
class FileSource:
    """A landing folder: whole files arrive under final names and are never changed afterwards.

    Names that begin with ``_`` or ``.`` and names that do not fit ``glob`` (``.tmp`` for one) are still being
    written, or are none of ours: they are not read.
    """

    path: str
    """The folder, relative to the landing zone, for example ``flights``."""
    format: FileFormat
    """``csv``, ``json`` (one object a line), ``parquet`` or ``avro`` (object container files)."""
    schema: str
    """The fields of one record as DDL: ``"dep_delay DOUBLE, origin STRING NOT NULL"``. Silver parses by name with it;
    a record whose value does not fit the type, or that lacks a ``NOT NULL`` field, is quarantined."""
    null_values: tuple[str, ...] = ("",)
    """Texts that mean "no value", for example ``("", "NA")``."""
    dialect: Dialect = RFC_4180
    """How CSV files are written; of JSON files ``encoding`` and ``blank_lines`` hold, too."""
    glob: str = ""
    """Which file names are read, upper and lower case apart; empty takes the usual ones: ``*.csv``, ``*.json``, ``*.jsonl``
    and ``*.ndjson``, these also with ``.gz`` or ``.bz2`` behind, ``*.parquet``, ``*.avro``."""
    contract: Contract = RESCUING
    """What happens when files bring other fields than the schema has; by default they are rescued."""
    formats: Formats = PLAIN
    """How values are written, where it is not as ``docs/formats.md`` says of their types."""
    max_files_per_trigger: int = 1000
    """At most so many files a micro-batch."""
    max_bytes_per_trigger: str = "1g"
    """At most so many bytes of files a micro-batch, as they lie there; a file that is larger is read all the same."""

    def __post_init__(self) -> None:
        check_folder(self, "path", self.path)
        check_choice(self, "format", self.format, get_args(FileFormat))
        check_schema(self, self.schema)
        check_positive(self, "max_files_per_trigger", self.max_files_per_trigger)
        _check_size(self, self.max_bytes_per_trigger)
        check_texts("FileSource", "null_values", self.null_values)
        self._check_dialect()
        if not isinstance(self.glob, str) or "/" in self.glob or not closes(self.glob):
            raise FieldError("FileSource", "glob", self.glob, "a pattern for file names, as in '*.{csv,csv.gz}'")
        _check_contract(self, self.contract, self.schema)
        _check_formats(self, self.formats, self.schema, self.format)
        if not self.glob:
            object.__setattr__(self, "glob", _GLOBS[self.format])

    @property
    def columns(self) -> tuple[Column, ...]:
        """The declared fields."""
        return parse_ddl("schema", self.schema)

    def _check_dialect(self) -> None:
        if not isinstance(self.dialect, Dialect):
            raise FieldError("FileSource", "dialect", self.dialect, "a Dialect, as in Dialect(separator=';')")
        changed = self.dialect.to_json().keys()
        known = {"csv": changed, "json": {"encoding", "blank_lines"}}.get(self.format, frozenset())
        if unknown := sorted(changed - known):
            raise FieldError(
                "FileSource",
                "dialect",
                self.dialect,
                f"one without {', '.join(unknown)}: {self.format} files have none",
            )

    def identity(self) -> dict[str, Any]:
        """What a checkpoint remembers of it."""
        return {"kind": "files", "path": self.path, "format": self.format, "glob": self.glob}


@dataclass(frozen=True, kw_only=True)
class KafkaSource:
    """A topic of JSON or Avro values. Offsets live in the checkpoint alone; no consumer group is committed."""

    topic: str
    schema: str
    """The fields of one value as DDL, parsed by name in silver."""
    format: ValueFormat = "json"
    """``json``, or ``avro``: each value names its writer's schema in the registry (``TIDEGATE_REGISTRY``). A JSON value may
    name one, too."""
    contract: Contract = RESCUING
    """What happens when messages bring other fields than the schema has; by default they are rescued."""
    formats: Formats = PLAIN
    """How values are written, where it is not as ``docs/formats.md`` says of their types."""
    max_offsets_per_trigger: int = 500_000
    """At most so many messages a micro-batch, over all partitions."""
    max_bytes_per_trigger: str = "256m"
    """About so many bytes of keys, values and headers a micro-batch. A soft bound: Spark counts messages alone, so it becomes
    a number of messages by the size of those that come next in the topic, of which up to 200 are looked at."""
    isolation: Isolation = "read_committed"
    """``read_committed`` leaves out messages of transactions that were aborted and waits for those that are open, as
    Kafka's own ``isolation.level``. ``read_uncommitted`` reads them all."""

    def __post_init__(self) -> None:
        if not fits(_TOPIC, self.topic) or self.topic in (".", ".."):
            raise FieldError("KafkaSource", "topic", self.topic, "letters, digits, '.', '_' and '-', at most 249")
        check_schema(self, self.schema)
        check_choice(self, "format", self.format, get_args(ValueFormat))
        check_choice(self, "isolation", self.isolation, get_args(Isolation))
        _check_contract(self, self.contract, self.schema)
        _check_formats(self, self.formats, self.schema, self.format)
        check_positive(self, "max_offsets_per_trigger", self.max_offsets_per_trigger)
        _check_size(self, self.max_bytes_per_trigger)

    def identity(self) -> dict[str, Any]:
        """What a checkpoint remembers of it."""
        return {"kind": "kafka", "topic": self.topic}


def in_bytes(size: str) -> int:
    """A size of a declaration in bytes: ``256m`` are 256 times 1024 times 1024."""
    return int(size[:-1]) << 10 * ("kmg".index(size[-1]) + 1)


def _check_size(declared: object, size: object) -> None:
    if not fits(_SIZE, size):
        raise FieldError(type(declared).__name__, "max_bytes_per_trigger", size, "a size such as '256m' or '1g'")


def _check_contract(declared: object, contract: object, schema: str) -> None:
    owner = type(declared).__name__
    if not isinstance(contract, Contract):
        raise FieldError(owner, "contract", contract, "a Contract, as in Contract(mode='freeze')")
    contract.check_fits(owner, schema)


def _check_formats(declared: object, formats: object, schema: str, kind: FileFormat | ValueFormat) -> None:
    owner = type(declared).__name__
    if not isinstance(formats, Formats):
        raise FieldError(owner, "formats", formats, "Formats, as in Formats(decimal_comma=True)")
    if formats.decimal_comma and kind != "csv":
        # A number in JSON has a point, and 1.234 would become 1234.
        raise FieldError("Formats", "decimal_comma", True, f"False, because the numbers of {kind} have a point")
    formats.check_fits(owner, schema)


@dataclass(frozen=True)
class ChangeFeed:
    """What changed in a Delta table that another flow writes (Delta's Change Data Feed)."""

    table: str
    """For example ``bronze.flights``."""
    _: dataclasses.KW_ONLY
    max_files_per_trigger: int = 1000
    max_bytes_per_trigger: str = "1g"
    """A soft bound: a commit with change files is admitted whole, however large."""

    def __post_init__(self) -> None:
        check_table(self, "table", self.table)
        check_positive(self, "max_files_per_trigger", self.max_files_per_trigger)
        _check_size(self, self.max_bytes_per_trigger)

    def identity(self) -> dict[str, Any]:
        """What a checkpoint remembers of it."""
        return {"kind": "change_feed", "table": self.table}


Source = FileSource | KafkaSource | ChangeFeed
