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
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import DataFrame, SparkSession

    from tidegate.spark.intake.landing import CheckedFile

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


def check(path: str, kind: str, longest: int) -> tuple[str, str | None]:
    """Read a file whole.

    Args:
        path: A local path.
        kind: ``parquet`` or ``avro``.
        longest: Bytes that a record's text may have.

    Returns:
        Its header, and why it cannot be used: ``corrupt_file``, ``line_too_long`` or None.

    Raises:
        OSError: The system does not give it to us.
    """
    if not Path(path).stat().st_size:
        return "", None
    try:
        fields, texts = _opened(path, kind)
        for text in texts:
            if len(text) > longest:
                return "", "line_too_long"
    except OSError as error:
        # pyarrow says a damaged page with an OSError, too; one from the system carries its number.
        if error.errno:
            raise
        return "", "corrupt_file"
    except Exception:  # whatever a decoder trips over, the file cannot be read
        return "", "corrupt_file"
    return json.dumps(fields, ensure_ascii=False), None


def read_records(spark: SparkSession, files: list[CheckedFile], persisted: list[DataFrame], kind: str) -> DataFrame:
    """The records of good files as JSON text, numbered from 1 in each file.

    Args:
        spark: The batch's session.
        files: At least one good file.
        persisted: Takes the frame that the caller gives back when the batch is over.
        kind: ``parquet`` or ``avro``.

    Returns:
        `tidegate.spark.intake.landing.LINES`.
    """
    from pyspark.sql import functions as F

    facts = [(file.path, file.file_id, file.header, file.size, file.modified_ms) for file in files]
    schema = "path string, file_id string, header string, size bigint, modified_ms bigint"
    parts = min(len(files), max(spark.sparkContext.defaultParallelism, 1) * 4)
    listed = spark.createDataFrame(facts, schema).repartition(parts, "path")

    def read(batches: Iterable[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        for batch in batches:
            for file in batch.to_pylist():
                yield from _batches(file, kind)

    numbered = "_file_id string, line string, _header string, _path string, _size bigint, _modified_ms bigint, _line_number bigint"
    rows = listed.mapInArrow(read, numbered)
    lines = rows.select(
        F.concat_ws("#", "_file_id", "_line_number").alias("_row_id"),
        "line",
        "_header",
        "_path",
        "_size",
        F.timestamp_millis("_modified_ms").alias("_modified_at"),
        "_line_number",
    ).persist()
    persisted.append(lines)
    return lines


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


def _batches(file: dict[str, Any], kind: str) -> Iterator[pyarrow.RecordBatch]:
    import pyarrow as pa

    texts: list[str] = []
    done = 0

    def batch() -> pyarrow.RecordBatch:
        count = len(texts)
        same = {
            "_file_id": file["file_id"],
            "_header": file["header"],
            "_path": "file://" + file["path"],
            "_size": file["size"],
            "_modified_ms": file["modified_ms"],
        }
        columns = {name: pa.array([value] * count) for name, value in same.items()}
        columns |= {
            "line": pa.array(texts, pa.string()),
            "_line_number": pa.array(range(done + 1, done + count + 1), pa.int64()),
        }
        order = ("_file_id", "line", "_header", "_path", "_size", "_modified_ms", "_line_number")
        return pa.RecordBatch.from_arrays([columns[name] for name in order], list(order))

    for text in _opened(file["path"], kind)[1]:
        texts.append(text)
        if len(texts) == _ROWS:
            yield batch()
            done, texts = done + len(texts), []
    if texts:
        yield batch()


def _opened(path: str, kind: str) -> tuple[Fields, Iterator[str]]:
    return _parquet(path) if kind == "parquet" else _avro(path)


def _parquet(path: str) -> tuple[Fields, Iterator[str]]:
    import pyarrow.parquet as pq

    file = pq.ParquetFile(path)

    def texts() -> Iterator[str]:
        with file:
            for batch in file.iter_batches(batch_size=_ROWS):
                for record in batch.to_pylist(maps_as_pydicts="lossy"):
                    yield as_json(record)

    return [(field.name, _arrow_type(field.type)) for field in file.schema_arrow], texts()


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
        return f"map<{_arrow_type(kind.key_type)},{_arrow_type(kind.item_type)}>"
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
