"""A sample of a file or a topic: its records, split into fields as a run splits them, and how they are written.

Longer than 300 lines: each format is recognized by what the others are not.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from tidegate.advice import Command, Edit, Either, OutsideAct, Then
from tidegate.errors import RequestError
from tidegate.formats import delimited
from tidegate.formats.reader import FileReader
from tidegate.formatting import count
from tidegate.probes import samples
from tidegate.scaffolding.spellings import spelling
from tidegate.scaffolding.value_types import of_json, of_texts
from tidegate.spec import Dialect, FileFormat, FileSource
from tidegate.store import Address

if TYPE_CHECKING:
    from tidegate.environment.clusters import Cluster

RECORDS = 1_000
"""Records of a sample."""
_SHOWN_LINES = 5
_SEPARATORS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "pipe"}
_NULLS = ("NA", "N/A", "n/a", "#N/A", "k.A.", "NULL", "null", "None", "NaN", "nan", "-", "\\N")
"""Texts that mean that there is no value, in columns of other types."""
_ENCODINGS = ("utf-8", "utf-16", "cp1252")
_COMPRESSED = (".gz", ".bz2")
_BY_HAND = Either(
    Edit("choose another file", "request"), Command.tidegate("new", "NAME", says="declare the fields by hand: {}")
)
"""What to do with a sample that cannot be read."""
_OF_TOPIC = Command.tidegate("new", "NAME", "--source", "kafka", says="declare the fields by hand: {}")

_ENVELOPES = (
    "the records are Debezium's, of which the draft has the envelope: declare the columns of the row and changes=debezium(…) instead, as "
    "in docs/guides/change-data-capture.md"
)
"""The note about a sample of change records."""


@dataclass(kw_only=True)
class Sample:
    """Records of one source."""

    format: str
    columns: dict[str, list[Any]]
    """Per field the values of all records: texts of CSV, decoded JSON of other formats, None for no value."""
    lines: list[int]
    """Per record the line in the file, or the number of the record."""
    types: dict[str, str] = field(default_factory=dict)
    """The types that the file itself has, for Parquet and Avro."""
    dialect: dict[str, Any] = field(default_factory=dict)
    """Arguments of `Dialect` that are not the default."""
    null_values: tuple[str, ...] = ("",)
    glob: str = ""
    malformed: list[int] = field(default_factory=list)
    """Lines of records that cannot be split."""
    repeated: list[str] = field(default_factory=list)
    """Names that its header has more than once; then it has no columns."""
    notes: list[str] = field(default_factory=list)
    """How it was read, for people."""
    complete: bool = True

    def lines_of(self, records: Sequence[int]) -> str:
        """The lines of records, by their positions."""
        return line_numbers([self.lines[record] for record in records])


def line_numbers(lines: Sequence[int]) -> str:
    """``line 3`` or ``lines 3, 17``, and how many more."""
    shown = ", ".join(map(str, lines[:_SHOWN_LINES]))
    more = f" and {len(lines) - _SHOWN_LINES:,} more" if len(lines) > _SHOWN_LINES else ""
    return f"line{'s' if len(lines) > 1 else ''} {shown}{more}"


def of_file(path: Address) -> Sample:
    """The first records of a file.

    Raises:
        RequestError: It does not exist, has no record, or cannot be read as any format.
    """
    try:
        entry = path.stat()
    except FileNotFoundError:
        entry = None
    if entry is None or entry.kind != "content":
        raise RequestError(f"--from {path}: there is no such file", Edit("correct the path", "request"))
    if not entry.size:
        raise RequestError(f"--from {path}: it is empty", Edit("choose another file", "request"))
    kind = _format(path)
    sample = _delimited(path) if kind == "csv" else _objects(path, kind)
    if kind == "json" and len(sample.lines) < len(sample.malformed):
        raise RequestError(
            f"--from {path}: most of its lines are no JSON objects (line {sample.malformed[0]}). A run reads "
            "one object per line",
            Edit(
                f"turn an array into lines before, for example with: jq -c '.[]' {path.name} > {path.stem}.jsonl",
                "request",
            ),
        )
    if not sample.lines or not sample.columns:
        raise RequestError(f"--from {path}: no record of it can be read as {kind}", _BY_HAND)
    sample.glob = _glob(path.name, kind)
    return sample


def of_topic(cluster: Cluster, topic: str) -> Sample:
    """The newest messages of a topic.

    Raises:
        RequestError: It has no message whose value is a JSON object.
        SourceError: The broker or the topic is unavailable.
    """
    values = samples.newest_values(cluster, topic, RECORDS)
    if not values:
        raise RequestError(f"--topic {topic}: it has no message yet", Either(OutsideAct("send one"), _OF_TOPIC))
    texts = [value.decode("utf-8", "replace") for value in values if value is not None]
    sample = Sample(format="json", columns={}, lines=[])
    _add_objects(sample, list(enumerate(texts, start=1)))
    if deletes := len(values) - len(texts):
        sample.notes.append(
            f"{count(deletes, 'message')} without value: they go to quarantine (no_value) unless the source has metadata for the key and "
            'changes=ChangeRecords(no_value="delete")'
        )
    if not sample.lines:
        raise RequestError(
            f"--topic {topic}: none of {count(len(texts), 'value')} is a JSON object.",
            Then(
                Command.tidegate("new", "NAME", "--source", "kafka", says="Avro values are declared by hand: {}"),
                Edit('declare format="avro"', "declaration"),
                Edit("set TIDEGATE_REGISTRY", "setting"),
            ),
        )
    sample.notes.append(f"{count(len(values), 'message')} of topic {topic}, the newest of each partition")
    return sample


def _format(path: Address) -> FileFormat:
    name = path.name
    for suffix in _COMPRESSED:
        name = name.removesuffix(suffix)
    suffix = PurePosixPath(name).suffix.lower()
    known: dict[str, FileFormat] = {
        **dict.fromkeys((".json", ".jsonl", ".ndjson"), "json"),
        ".parquet": "parquet",
        ".avro": "avro",
        **dict.fromkeys((".csv", ".tsv"), "csv"),
    }
    if suffix in known:
        return known[suffix]
    with path.open() as file:
        return "json" if file.read(512).lstrip()[:1] == b"{" else "csv"


def _glob(name: str, kind: FileFormat) -> str:
    """A glob for names such as this one; empty if the default of the format fits."""
    from tidegate.probes.files import glob_pattern

    default = FileSource(path="sample", format=kind, schema="a STRING").glob
    if glob_pattern(default).fullmatch(name):
        return ""
    path = PurePosixPath(name)
    return f"*{''.join(path.suffixes[-2:])}" if path.suffix in _COMPRESSED else f"*{path.suffix}"


def _read(
    path: Address, kind: FileFormat, dialect: Dialect, names: Sequence[str] = ()
) -> tuple[FileReader, list[tuple[int, str]]]:
    reader = FileReader(path, 0, kind, dialect, names)
    return reader, list(islice(reader, RECORDS + 1))


def _objects(path: Address, kind: FileFormat) -> Sample:
    dialect: dict[str, Any] = {}
    for encoding in _ENCODINGS if kind == "json" else _ENCODINGS[:1]:
        reader, records = _read(path, kind, Dialect(encoding=encoding))
        if reader.checked.problem is None or len(records) > RECORDS:
            dialect = {} if encoding == "utf-8" else {"encoding": encoding}
            break
    else:
        raise RequestError(f"--from {path}: it cannot be read as {kind} ({reader.checked.problem})", _BY_HAND)
    sample = Sample(format=kind, columns={}, lines=[], dialect=dialect, complete=len(records) <= RECORDS)
    _add_objects(sample, records[:RECORDS])
    if reader.header is not None:
        sample.types = {name: kind for name, kind in json.loads(reader.header) if kind}
    origin = "; types are those of the file" if sample.types else ""
    sample.notes.append(f"{kind}, {_extent(sample)}{origin}")
    return sample


def _add_objects(sample: Sample, records: Sequence[tuple[int, str]]) -> None:
    objects = []
    for line, text in records:
        value: Any = None
        with suppress(ValueError, RecursionError):
            value = json.loads(text)
        if isinstance(value, dict):
            objects.append(value)
            sample.lines.append(line)
        else:
            sample.malformed.append(line)
    names = list(dict.fromkeys(name for each in objects for name in each))
    sample.columns = {name: [each.get(name) for each in objects] for name in names}
    nulls = [text for text in _NULLS if any(_is_json_null(text, column) for column in sample.columns.values())]
    if nulls:
        sample.null_values = ("", *nulls)
        for name, column in sample.columns.items():
            sample.columns[name] = [None if isinstance(value, str) and value in nulls else value for value in column]
    if objects and all(map(_is_envelope, objects)):
        sample.notes.append(_ENVELOPES)


def _is_envelope(record: Mapping[str, Any]) -> bool:
    """Whether a record is one of Debezium's, or the message without value that follows one."""
    if record.keys() == {"schema", "payload"}:
        record = record["payload"] or {"op": "d", "before": None}
    return isinstance(record, dict) and "op" in record and not record.keys().isdisjoint({"after", "before", "message"})


def _delimited(path: Address) -> Sample:
    """The sample by the dialect with which most records have the same number of fields, and at least two."""
    best: tuple[tuple[int, int], Sample] | None = None
    problems: dict[str, None] = {}
    for encoding in _ENCODINGS:
        for separator in _SEPARATORS:
            comment = "#" if separator != "#" and _begins_with_comment(path, encoding) else ""
            changed = {
                **({} if separator == "," else {"separator": separator}),
                **({"comment": comment} if comment else {}),
                **({} if encoding == "utf-8" else {"encoding": encoding}),
            }
            sample = _split(path, changed)
            if isinstance(sample, str):
                problems[sample] = None
                continue
            fit = (len(sample.lines) - len(sample.malformed) if len(sample.columns) > 1 else 0, len(sample.columns))
            if best is None or fit > best[0]:
                best = (fit, sample)
        if best is not None:
            break
    if best is None:
        raise RequestError(
            f"--from {path}: it cannot be read as text with separators ({', '.join(problems)})", _BY_HAND
        )
    sample = best[1]
    if sample.repeated:
        raise RequestError(
            f"--from {path}: its header has {', '.join(map(repr, sample.repeated))} more than once, so that a "
            "run cannot tell the fields apart (repeated_header)",
            Edit("rename them where the file is made", "request"),
        )
    separator = _SEPARATORS[sample.dialect.get("separator", ",")]
    header = (
        "a header"
        if sample.dialect.get("header", True)
        else "no header, so that fields are named column_1, column_2, …"
    )
    sample.notes.append(f"csv, separated by {separator}, with {header}; {_extent(sample)}")
    if "encoding" in sample.dialect:
        sample.notes.append(
            f"encoding {sample.dialect['encoding']}, because it is not UTF-8: check letters beyond ASCII"
        )
    return sample


def _begins_with_comment(path: Address, encoding: str) -> bool:
    reader = FileReader(path, 0, "csv", Dialect(encoding=encoding, header=False, quote=""), ("line",))
    first = next(iter(reader), (1, ""))[1]
    return first.startswith("#")


def _split(path: Address, changed: dict[str, Any]) -> Sample | str:
    """The file's records by a dialect; if it does not fit the file at all, the problem."""
    dialect = Dialect(**changed)
    reader, records = _read(path, "csv", dialect)
    if reader.checked.problem is not None and len(records) <= RECORDS:
        return reader.checked.problem
    if not reader.header:
        return "no_header"
    names = delimited.header_names(reader.header, dialect)
    first = delimited.splitter(dialect)
    cells = [(line, split[0] if (split := first(text)) is not None else None) for line, text in records[:RECORDS]]
    if not _is_header(names, [row for _, row in cells if row is not None]):
        changed = {**changed, "header": False}
        cells = [(1, names), *cells]
        names = [f"column_{number}" for number in range(1, len(names) + 1)]
    if not names:
        return "malformed_header"
    repeated = [name for name in dict.fromkeys(names) if names.count(name) > 1]
    good = [(line, row) for line, row in cells if row is not None and len(row) == len(names)]
    columns = {name: [row[index] for _, row in good] for index, name in enumerate(names)}
    nulls = ("", *(text for text in _NULLS if any(_is_null(text, column) for column in columns.values())))
    return Sample(
        format="csv",
        columns={name: [None if text in nulls else text for text in column] for name, column in columns.items()},
        lines=[line for line, _ in good],
        repeated=repeated,
        dialect=changed,
        null_values=nulls,
        malformed=[line for line, row in cells if row is None or len(row) != len(names)],
        complete=len(records) <= RECORDS,
    )


def _is_header(names: Sequence[str], rows: Sequence[Sequence[str]]) -> bool:
    """Whether the first record names the fields: no cell is a value, and it is not one more record of texts.

    One name may be missing, as of the index that pandas writes, or after a separator at the end of the line.
    """
    if names.count("") > 1 or not any(names) or any(map(_is_value, names)):
        return False
    # A value that occurs again in its column is not a name.
    return not any(
        name in (row[index] for row in rows[:100] if len(row) == len(names)) for index, name in enumerate(names) if name
    )


def _is_value(name: str) -> bool:
    """Whether a text is a number, a date or a time rather than a name."""
    is_number = any(map(str.isdigit, name)) and not any(map(str.isalpha, name))
    return is_number or (name != "" and of_texts([name], spelling([[name]]).values).type != "STRING")


def _is_null(text: str, column: Sequence[str]) -> bool:
    """Whether a text stands for no value: it occurs, and the others are numbers, days or instants."""
    if text not in column:
        return False
    others = [each for each in column if each and each not in _NULLS]
    return bool(others) and of_texts(others, spelling([others]).values).type != "STRING"


def _is_json_null(text: str, column: Sequence[Any]) -> bool:
    """Whether a text stands for no value: it occurs, and the other values are no texts, or days or instants."""
    if text not in column:
        return False
    others = [value for value in column if value not in (None, "", *_NULLS)]
    return bool(others) and (
        not any(isinstance(value, str) for value in others) or of_json(others).type in ("DATE", "TIMESTAMP")
    )


def _extent(sample: Sample) -> str:
    return f"{'all' if sample.complete else 'the first'} {count(len(sample.lines), 'record')}"
