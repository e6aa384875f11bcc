"""Declarations of sources: a landing folder, a topic, or the change feed of another table."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from tidegate.errors import FieldError
from tidegate.formatting import count
from tidegate.json_codec import changed_fields
from tidegate.schema.contract import DEFAULT_CONTRACT, Contract
from tidegate.schema.ddl import Column, parse_ddl
from tidegate.spec.change_records import ChangeRecords, check_changes
from tidegate.spec.checks import (
    brackets_closed,
    check_choice,
    check_folder,
    check_positive,
    check_schema,
    check_table,
    check_texts,
    check_unique,
    fits,
)
from tidegate.spec.dialect import RFC_4180, Dialect
from tidegate.spec.formats import DEFAULT_FORMATS, Formats
from tidegate.spec.intervals import Intervals, TopicIntervals
from tidegate.spec.sinks import TOPIC

FileFormat = Literal["csv", "json", "parquet", "avro"]
ValueFormat = Literal["json", "avro"]
Isolation = Literal["read_committed", "read_uncommitted"]
MAX_FILE_AGE_DAYS = 3_650_000
"""The stream's ``maxFileAge``, ten thousand years. Spark ignores files that are older than the newest one by more than this.
With Spark's default of 7 days, late files would be ignored, and one file with a time in the future would hide all others."""

_SIZE = re.compile(r"[1-9][0-9]*[kmg]")
_COLUMN = re.compile(r"[A-Za-z][A-Za-z0-9_]*")

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
        _check_size(self, self.max_bytes_per_trigger)
        check_texts("FileSource", "null_values", self.null_values)
        self._check_dialect()
        if not isinstance(self.glob, str) or "/" in self.glob or not brackets_closed(self.glob):
            raise FieldError("FileSource", "glob", self.glob, "a pattern for file names, as in '*.{csv,csv.gz}'")
        _check_contract(self, self.contract, self.schema)
        _check_formats(self, self.formats, self.schema, self.format)
        check_changes(type(self).__name__, self.changes, self.schema, self.format)
        if self.intervals is not None and not isinstance(self.intervals, Intervals):
            raise FieldError("FileSource", "intervals", self.intervals, "Intervals(…) or None")
        if not self.glob:
            object.__setattr__(self, "glob", _GLOBS[self.format])

    @property
    def columns(self) -> tuple[Column, ...]:
        """The declared fields."""
        return parse_ddl("schema", self.schema)

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

    def identity(self) -> dict[str, Any]:
        """The fields that the checkpoint's sidecar stores."""
        return {"kind": "files", "path": self.path, "format": self.format, "glob": self.glob}

    def summary(self) -> str:
        """For pages."""
        return f"{self.format} files in {self.path}/"

    def describe(self) -> str:
        """For the documentation of DAGs, as Markdown, with the limit of a batch."""
        return f"{self.format} files `{self.path}/{self.glob}`, at most {self.max_files_per_trigger:,} a batch"


@dataclass(frozen=True, kw_only=True)
class KafkaSource:
    """A topic of JSON or Avro values. Offsets live in the checkpoint alone; no consumer group is committed."""

    topic: str
    schema: str
    """The fields of one value as DDL, parsed by name in silver."""
    format: ValueFormat = "json"
    """``json``, or ``avro``: each value contains the id of its writer's schema in the registry (``TIDEGATE_REGISTRY``). A
    JSON value may contain one too."""
    contract: Contract = DEFAULT_CONTRACT
    """What happens with messages that have other fields than the schema; by default the fields are rescued."""
    formats: Formats = DEFAULT_FORMATS
    """How values are written, where it differs from ``docs/formats.md``."""
    changes: ChangeRecords | None = None
    """If each record inserts, updates or deletes a row: how it says so. ``debezium(lsn="source.lsn")`` for Debezium's."""
    max_offsets_per_trigger: int = 500_000
    """Maximum number of messages per micro-batch, over all partitions."""
    max_bytes_per_trigger: str = "256m"
    """Approximate bytes of keys, values and headers per micro-batch. A soft limit: Spark limits the number of messages only,
    so the limit is converted with the mean size of up to 200 messages that come next in the topic."""
    isolation: Isolation = "read_committed"
    """``read_committed`` skips messages of aborted transactions and waits for open ones, as Kafka's own
    ``isolation.level``. ``read_uncommitted`` reads all messages."""
    intervals: TopicIntervals | None = None
    """The days or hours of the messages, and when one is complete. Messages are read as they arrive nevertheless."""

    def __post_init__(self) -> None:
        if not fits(TOPIC, self.topic) or self.topic in (".", ".."):
            raise FieldError("KafkaSource", "topic", self.topic, "letters, digits, '.', '_' and '-', at most 249")
        check_schema(self, self.schema)
        check_choice(self, "format", self.format, get_args(ValueFormat))
        check_choice(self, "isolation", self.isolation, get_args(Isolation))
        _check_contract(self, self.contract, self.schema)
        _check_formats(self, self.formats, self.schema, self.format)
        check_changes(type(self).__name__, self.changes, self.schema, self.format)
        check_positive(self, "max_offsets_per_trigger", self.max_offsets_per_trigger)
        if self.intervals is not None and not isinstance(self.intervals, TopicIntervals):
            raise FieldError("KafkaSource", "intervals", self.intervals, "TopicIntervals(…) or None")
        _check_size(self, self.max_bytes_per_trigger)

    def identity(self) -> dict[str, Any]:
        """The fields that the checkpoint's sidecar stores."""
        return {"kind": "kafka", "topic": self.topic}

    def summary(self) -> str:
        """For pages."""
        return f"topic {self.topic}"

    def describe(self) -> str:
        """For the documentation of DAGs, as Markdown, with the limit of a batch."""
        return f"topic `{self.topic}`, at most {count(self.max_offsets_per_trigger, 'offset')} a batch"


def in_bytes(size: str) -> int:
    """Convert a declared size to bytes: ``256m`` is 256 times 1024 times 1024."""
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
        # JSON numbers have a decimal point: 1.234 would become 1234.
        raise FieldError("Formats", "decimal_comma", True, f"False, because the numbers of {kind} have a point")
    formats.check_fits(owner, schema)


@dataclass(frozen=True)
class ChangeFeed:
    """The changes of a Delta table that another flow writes (Delta's Change Data Feed)."""

    table: str
    """For example ``bronze.flights``."""
    _: dataclasses.KW_ONLY
    max_files_per_trigger: int = 1000
    max_bytes_per_trigger: str = "1g"
    """A soft limit: a commit with change files is always read in one micro-batch."""
    on: Mapping[str, str] = dataclasses.field(default_factory=dict, hash=False)
    """For each source of a flow except the first: which rows of the first source its rows belong to, as
    ``{<column of the first source>: <column of this table>}``. Both have the same type. A change of a row of this table
    recomputes the groups of these rows."""

    def __post_init__(self) -> None:
        check_table(self, "table", self.table)
        if not isinstance(self.on, Mapping) or not all(
            isinstance(name, str) and fits(_COLUMN, name) for pair in self.on.items() for name in pair
        ):
            raise FieldError(
                "ChangeFeed",
                "on",
                self.on,
                "{<column of the first source>: <column of this table>}, as in {'tail': 'id'}",
            )
        if len(set(self.on.values())) < len(self.on):
            raise FieldError(
                "ChangeFeed",
                "on",
                self.on,
                "each column of this table once, because a row must equal all of them; to join a table twice, copy it with a flow "
                "without transform",
            )
        check_positive(self, "max_files_per_trigger", self.max_files_per_trigger)
        _check_size(self, self.max_bytes_per_trigger)

    def identity(self) -> dict[str, Any]:
        """The fields that the checkpoint's sidecar stores."""
        return {"kind": "change_feed", "table": self.table, **({"on": dict(self.on)} if self.on else {})}

    def summary(self) -> str:
        """For pages."""
        return f"changes of {self.table}"

    def describe(self) -> str:
        """For the documentation of DAGs, as Markdown, with the limit of a batch."""
        pairs = ", ".join(f"`{ours}` = `{theirs}`" for ours, theirs in self.on.items())
        joined = f", joined by {pairs}" if pairs else ""
        return f"changes of `{self.table}`, about {self.max_bytes_per_trigger} a batch{joined}"

    @property
    def name(self) -> str:
        """The table without its layer: the parameter of a transform that takes several sources."""
        return self.table.partition(".")[2]


@dataclass(frozen=True)
class SnapshotFeed(ChangeFeed):
    """The full snapshots of a table, each an interval of the files that a landing flow reads into this bronze table.

    The newest complete snapshot is compared with the target: rows that it does not have are deleted, and of the others those are
    written that differ. The landing flow belongs to the same pipeline and declares ``intervals`` with ``marker``, ``manifest`` or
    ``files``.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        bounds = (self.max_files_per_trigger, self.max_bytes_per_trigger)
        if bounds != (ChangeFeed.max_files_per_trigger, ChangeFeed.max_bytes_per_trigger):
            raise FieldError("SnapshotFeed", "max_files_per_trigger", bounds, "none: a snapshot is compared as a whole")

    def identity(self) -> dict[str, Any]:
        """The fields that the checkpoint's sidecar stores."""
        return {"kind": "snapshots", "table": self.table}

    def summary(self) -> str:
        """For pages."""
        return f"snapshots of {self.table}"

    def describe(self) -> str:
        """For the documentation of DAGs, as Markdown."""
        return f"the newest complete snapshot of `{self.table}`"


LandingSource = FileSource | KafkaSource
"""What a landing flow reads: records that no flow of the project writes."""
Source = LandingSource | ChangeFeed


def check_sources(owner: str, sources: object) -> None:
    """Refuse what is not two change feeds or more, of which all after the first have ``on``."""
    if not isinstance(sources, tuple) or len(sources) < 2 or not all(type(each) is ChangeFeed for each in sources):
        raise FieldError(
            owner, "sources", sources, "a tuple of two ChangeFeed or more; one source is declared as source"
        )
    check_unique(owner, "sources", [each.name for each in sources], "names of tables after the dot")
    for each in sources[1:]:
        if not each.on:
            allowed = f"on for {each.table!r}: {{<column of {sources[0].table}>: <column of {each.table}>}}"
            raise FieldError(owner, "sources", each, allowed)
