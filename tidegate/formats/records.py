"""Parquet and Avro files: each record as JSON text, and the file's own schema as its header.

So bronze has one layout for all files, and silver parses fields by name for every format (docs/adr/0014). Files are read with
pyarrow and fastavro in the executors' Python: record numbers are exact, and memory holds one batch of records.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from tidegate.formats import json_text
from tidegate.formats.text_stream import CorruptFileError, RepeatedFieldError
from tidegate.schema.ddl import quoted

if TYPE_CHECKING:
    import pyarrow

_BATCH_ROWS = 2000
"""Records per batch that is read and converted to text."""

_ARROW = {
    "bool": "boolean",
    "int8": "tinyint",
    "int16": "smallint",
    "int32": "int",
    "int64": "bigint",
    "uint8": "smallint",
    "uint16": "int",
    "uint32": "bigint",
    "uint64": "decimal(20,0)",
    "halffloat": "float",
    "float": "float",
    "double": "double",
    "binary": "binary",
    "large_binary": "binary",
    "date32[day]": "date",
    "date64[ms]": "date",
    "null": "",
}
_AVRO = {
    "boolean": "boolean",
    "int": "int",
    "long": "bigint",
    "float": "float",
    "double": "double",
    "bytes": "binary",
    "fixed": "binary",
    "string": "string",
    "enum": "string",
    "null": "",
}
_AVRO_LOGICAL = {
    "date": "date",
    "timestamp-millis": "timestamp",
    "timestamp-micros": "timestamp",
    "local-timestamp-millis": "timestamp_ntz",
    "local-timestamp-micros": "timestamp_ntz",
    "uuid": "string",
    "time-millis": "string",
    "time-micros": "string",
}
Fields = list[tuple[str, str]]
"""Field names and their types as DDL; an empty text is an unknown type."""


def read_records(file: BinaryIO, kind: str) -> tuple[Fields, Iterator[str]]:
    """Read a file: its fields, and its records as JSON text.

    Args:
        file: Stays open until the records are iterated, so that all that is read of it is one content.
        kind: ``parquet`` or ``avro``.

    Raises:
        CorruptFileError: The file is damaged; can also be raised while the records are iterated.
        RepeatedFieldError: Two of its columns have the same name.
        OSError: The system refuses to read the file.
    """
    content = _Bounded(file)
    with _decoder_errors():
        fields, records = _read_parquet(content) if kind == "parquet" else _read_avro(content)
    if len({name for name, _ in fields}) < len(fields):
        raise RepeatedFieldError

    def checked_records() -> Iterator[str]:
        with _decoder_errors():
            yield from records

    return fields, checked_records()


@contextmanager
def _decoder_errors() -> Iterator[None]:
    """Raise every error of a decoder as `CorruptFileError`."""
    try:
        yield
    except OSError as error:
        # pyarrow also raises an OSError for a damaged page, but without errno; errors of the system have one.
        if error.errno:
            raise
        raise CorruptFileError(type(error).__name__) from error
    except (ImportError, MemoryError):
        raise
    except Exception as error:  # decoders raise many types; any error means that the file is damaged
        raise CorruptFileError(type(error).__name__) from error


def avro_fields(schema: Any) -> Fields:
    """The fields of an Avro record schema with DDL types; empty for a schema that is not a record."""
    if not isinstance(schema, dict) or schema.get("type") != "record":
        return []
    return [(str(field["name"]), _avro_type(field["type"])) for field in schema["fields"]]


def _read_parquet(content: _Bounded) -> tuple[Fields, Iterator[str]]:
    file = pq.ParquetFile(content, page_checksum_verification=True)
    schema = file.schema_arrow

    def read() -> Iterator[str]:
        for batch in file.iter_batches(batch_size=_BATCH_ROWS):
            for record in _records(batch):
                yield json_text.as_json(_with_objects(record, map_types) if map_types else record)

    map_types = {field.name: field.type for field in schema if _has_map(field.type)}
    return [(field.name, _arrow_type(field.type)) for field in schema], read()


def _records(batch: pyarrow.RecordBatch) -> list[dict[str, Any]]:
    """The records of a batch.

    A date or time that Python cannot hold becomes a text that fits no type, so that its record alone is refused.
    """
    try:
        return list(batch.to_pylist())
    except (OverflowError, ValueError):
        columns = [[_value(scalar) for scalar in column] for column in batch.columns]
        return [dict(zip(batch.schema.names, values, strict=True)) for values in zip(*columns, strict=True)]


def _value(scalar: Any) -> Any:
    try:
        return scalar.as_py()
    except UnicodeDecodeError:
        raise
    except (OverflowError, ValueError):
        if pa.types.is_struct(scalar.type):
            return {name: _value(item) for name, item in scalar.items()}
        if pa.types.is_map(scalar.type):
            return [(_value(pair["key"]), _value(pair["value"])) for pair in scalar.values]
        if hasattr(scalar, "values"):
            return [_value(item) for item in scalar.values]
        return f"{scalar.type} {scalar.value}"


def _has_map(kind: pyarrow.DataType) -> bool:
    inner = (kind.field(index).type for index in range(kind.num_fields)) if pa.types.is_nested(kind) else ()
    return pa.types.is_map(kind) or any(map(_has_map, inner))


def _with_objects(record: dict[str, Any], map_types: dict[str, pyarrow.DataType]) -> dict[str, Any]:
    return {name: _as_object(value, map_types[name]) if name in map_types else value for name, value in record.items()}


def _as_object(value: Any, kind: pyarrow.DataType) -> Any:
    """Convert maps to JSON objects. A map with a repeated key becomes a list of pairs, which does not fit a MAP."""
    if value is None:
        return None
    if pa.types.is_map(kind):
        pairs = [(_object_key(key), _as_object(item, kind.item_type)) for key, item in value]
        items = dict(pairs)
        return items if len(items) == len(pairs) else [list(pair) for pair in pairs]
    if pa.types.is_struct(kind):
        return {field.name: _as_object(value[field.name], field.type) for field in kind}
    if pa.types.is_nested(kind) and hasattr(kind, "value_type"):
        return [_as_object(item, kind.value_type) for item in value]
    return value


def _object_key(key: Any) -> str:
    """A map key as text, since keys of a JSON object are strings."""
    if isinstance(key, str):
        return key
    return json_text.as_json(key) if isinstance(key, bool | int | float | dict | list) else json_text.default(key)


@cache
def avro() -> Any:
    """The module ``fastavro``, whose readers of logical types give a text that fits no type for a value that Python cannot hold.

    After an exception, the iterator of a file could not go on.
    """
    import fastavro
    from fastavro import read

    for name, reader in read.LOGICAL_READERS.items():
        read.LOGICAL_READERS[name] = _guarded(name.partition("-")[2], reader)
    return fastavro


class _Bounded(io.BufferedReader):
    """A file that never reads more than it has: a damaged length in it would ask for any amount of memory."""

    def __init__(self, file: BinaryIO) -> None:
        # It has all that is asked of the raw stream.
        super().__init__(file)  # type: ignore[arg-type]
        self._size = self.seek(0, io.SEEK_END)
        self.seek(0)

    def read(self, size: int | None = -1, /) -> bytes:
        return super().read(min(size, self._size) if size is not None else size)


def _guarded(name: str, reader: Any) -> Any:
    def read(value: Any, *schemas: Any) -> Any:
        try:
            return reader(value, *schemas)
        except (OverflowError, ValueError):
            return value if isinstance(value, str) else f"{name} {value}"

    return read


def _read_avro(content: _Bounded) -> tuple[Fields, Iterator[str]]:
    reader = avro().reader(content)
    return avro_fields(reader.writer_schema), (json_text.as_json(record) for record in reader)


def _arrow_type(kind: pyarrow.DataType) -> str:
    if pa.types.is_dictionary(kind):
        return _arrow_type(kind.value_type)
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    if pa.types.is_timestamp(kind):
        return "timestamp" if kind.tz else "timestamp_ntz"
    if pa.types.is_struct(kind):
        return f"struct<{','.join(f'{quoted(field.name)}:{_arrow_type(field.type)}' for field in kind)}>"
    if pa.types.is_map(kind):
        return f"map<string,{_arrow_type(kind.item_type)}>"
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return f"array<{_arrow_type(kind.value_type)}>"
    return _ARROW.get(str(kind), "string")


def _avro_type(kind: Any) -> str:
    if isinstance(kind, list):
        branches = [branch for branch in kind if branch != "null"]
        return _avro_type(branches[0]) if len(branches) == 1 else "string"
    if isinstance(kind, str):
        # References to named types defined earlier in the schema are not resolved: their type is unknown.
        return _AVRO.get(kind, "")
    logical, plain = kind.get("logicalType"), kind["type"]
    if logical == "decimal":
        return f"decimal({kind['precision']},{kind.get('scale', 0)})"
    if logical in _AVRO_LOGICAL:
        return _AVRO_LOGICAL[logical]
    if plain == "array":
        return f"array<{_avro_type(kind['items'])}>"
    if plain == "map":
        return f"map<string,{_avro_type(kind['values'])}>"
    if plain == "record":
        return f"struct<{','.join(f'{name}:{field_type}' for name, field_type in avro_fields(kind))}>"
    return _avro_type(plain)
