"""Parquet and Avro files: each record as JSON text, and the file's own schema as its header.

So bronze has one shape for all files, and silver parses by name whatever a file was (docs/adr/0014). Read with pyarrow and
fastavro in the executors' Python: a record's number in its file is exact, and a batch of records is all that is in memory.
"""

from __future__ import annotations

import base64
import datetime
import decimal
import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow

_ROWS = 2000
"""Records that are turned into text at a time."""

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
"""Names with their types as DDL; an empty type is one that nobody knows."""


class CorruptFileError(ValueError):
    """A decoder cannot read the file."""


class RepeatedFieldError(ValueError):
    """Two columns have one name, so a record by names would lose one."""


def texts(path: str, kind: str) -> tuple[Fields, Iterator[str]]:
    """A file's fields, and its records as JSON text.

    Args:
        path: A local path.
        kind: ``parquet`` or ``avro``.

    Raises:
        CorruptFileError: It is damaged; also while the records are read.
        RepeatedFieldError: Two of its columns have one name.
        OSError: The system does not give it to us.
    """
    with _decoding():
        fields, read = _parquet(path) if kind == "parquet" else _avro(path)
    if len({name for name, _ in fields}) < len(fields):
        raise RepeatedFieldError

    def guarded() -> Iterator[str]:
        with _decoding():
            yield from read

    return fields, guarded()


@contextmanager
def _decoding() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        # pyarrow says a damaged page with an OSError, too; one from the system carries its number.
        if error.errno:
            raise
        raise CorruptFileError(type(error).__name__) from error
    except Exception as error:  # whatever a decoder trips over, the file cannot be read
        raise CorruptFileError(type(error).__name__) from error


def avro_fields(schema: Any) -> Fields:
    """The fields of an Avro record schema as DDL types; none of a schema that is no record."""
    if not isinstance(schema, dict) or schema.get("type") != "record":
        return []
    return [(str(field["name"]), _avro_type(field["type"])) for field in schema["fields"]]


def as_json(record: Any) -> str:
    """A record as JSON text: dates and times as ISO 8601, decimals as text, bytes in base64."""
    try:
        return json.dumps(record, ensure_ascii=False, allow_nan=False, default=_plain)
    except ValueError:
        return json.dumps(_finite(record), ensure_ascii=False, default=_plain)


def _parquet(path: str) -> tuple[Fields, Iterator[str]]:
    import pyarrow.parquet as pq

    file = pq.ParquetFile(path)

    def texts() -> Iterator[str]:
        with file:
            for batch in file.iter_batches(batch_size=_ROWS):
                for record in batch.to_pylist():
                    yield as_json(_by_names(record, mapped) if mapped else record)

    mapped = {field.name: field.type for field in file.schema_arrow if _has_map(field.type)}
    return [(field.name, _arrow_type(field.type)) for field in file.schema_arrow], texts()


def _has_map(kind: pyarrow.DataType) -> bool:
    import pyarrow as pa

    inner = (kind.field(place).type for place in range(kind.num_fields)) if pa.types.is_nested(kind) else ()
    return pa.types.is_map(kind) or any(map(_has_map, inner))


def _by_names(record: dict[str, Any], mapped: dict[str, pyarrow.DataType]) -> dict[str, Any]:
    return {name: _shaped(value, mapped[name]) if name in mapped else value for name, value in record.items()}


def _shaped(value: Any, kind: pyarrow.DataType) -> Any:
    """A map is an object. If a key stands in it twice, it is a list of its pairs, which no MAP fits: so none is lost."""
    import pyarrow as pa

    if value is None:
        return None
    if pa.types.is_map(kind):
        pairs = [(_name(key), _shaped(item, kind.item_type)) for key, item in value]
        named = dict(pairs)
        return named if len(named) == len(pairs) else [list(pair) for pair in pairs]
    if pa.types.is_struct(kind):
        return {field.name: _shaped(value[field.name], field.type) for field in kind}
    if pa.types.is_nested(kind) and hasattr(kind, "value_type"):
        return [_shaped(each, kind.value_type) for each in value]
    return value


def _name(key: Any) -> str:
    """The key of a map as the name that JSON needs."""
    if isinstance(key, str):
        return key
    return as_json(key) if isinstance(key, bool | int | float | dict | list) else _plain(key)


def _avro(path: str) -> tuple[Fields, Iterator[str]]:
    import fastavro

    with Path(path).open("rb") as content:
        schema = fastavro.reader(content).writer_schema

    def texts() -> Iterator[str]:
        with Path(path).open("rb") as content:
            for record in fastavro.reader(content):
                yield as_json(record)

    return avro_fields(schema), texts()


def _arrow_type(kind: pyarrow.DataType) -> str:
    import pyarrow as pa

    if pa.types.is_dictionary(kind):
        return _arrow_type(kind.value_type)
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    if pa.types.is_timestamp(kind):
        return "timestamp" if kind.tz else "timestamp_ntz"
    if pa.types.is_struct(kind):
        return f"struct<{','.join(f'{field.name}:{_arrow_type(field.type)}' for field in kind)}>"
    if pa.types.is_map(kind):
        return f"map<string,{_arrow_type(kind.item_type)}>"
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return f"array<{_arrow_type(kind.value_type)}>"
    return _ARROW.get(str(kind), "string")


def _avro_type(kind: Any) -> str:
    if isinstance(kind, list):
        known = [branch for branch in kind if branch != "null"]
        return _avro_type(known[0]) if len(known) == 1 else "string"
    if isinstance(kind, str):
        # A name of a type that was defined before: which one is not looked up.
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
        return f"struct<{','.join(f'{name}:{of}' for name, of in avro_fields(kind))}>"
    return _avro_type(plain)


def _plain(value: Any) -> str:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, datetime.datetime) and value.tzinfo is not None:
        # In its own zone an early time may be off by seconds, which few can read.
        return value.astimezone(datetime.UTC).isoformat()
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, decimal.Decimal):
        # As text, 0.00000001 would be 1E-8.
        return format(value, "f")
    return str(value)


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, dict):
        return {name: _finite(each) for name, each in value.items()}
    return [_finite(each) for each in value] if isinstance(value, list) else value
