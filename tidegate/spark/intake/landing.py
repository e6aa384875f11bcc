"""Reads the files of one batch: records of good files become rows, a bad file becomes one file-level quarantine entry.

The stream only lists files; the batch opens them. The files of a batch are taken from the checkpoint's source log, not from
the rows of the batch: those omit empty and vanished files, and Spark reads files twice when a name contains a glob character
(SPARK-58518). Executors read each file once, from first to last byte (`tidegate.formats.reader`); the result stays
persisted on disk until it is written, so the rows written are the rows that were checked. If Spark lost a part of it and reads files again,
their contents must have the same checksums.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidegate import hidden, json_codec
from tidegate.formats.reader import CheckedFile, FileReader
from tidegate.lake.file_id import FileId
from tidegate.spark.lake import local
from tidegate.store.location import Stores

if TYPE_CHECKING:
    import pyarrow

    from tidegate.spec import FileSource
    from tidegate.store import Address

LINES = (
    f"{hidden.ROW_ID} string, line string, {hidden.HEADER} string, {hidden.DIALECT} string, {hidden.PATH} string, "
    f"{hidden.SIZE} bigint, {hidden.MODIFIED_AT} timestamp, {hidden.LINE_NUMBER} bigint, {hidden.INGESTED_AT} timestamp, "
    f"{hidden.BATCH_ID} bigint, {hidden.CHECKSUM} string"
)
"""The columns of a bronze table of files."""

_CONTENT_COLUMNS = (
    f"{hidden.FILE_ID} string, line string, {hidden.HEADER} string, {hidden.PATH} string, {hidden.SIZE} bigint, "
    f"_modified_ms bigint, {hidden.LINE_NUMBER} bigint, _ingested_ms bigint, {hidden.BATCH_ID} bigint, "
    "_number int, _checked string"
)
CHANGED = "a file was replaced between two readings of one batch"
"""The message of the exception that then ends the write."""
_MAX_BATCH_CHARACTERS = 4 * 1024 * 1024
_MAX_BATCH_RECORDS = 20_000


@dataclass(frozen=True)
class BatchValues:
    """The values that all rows of a batch have in common.

    Python writes them into the rows. As literals of a query they would be constants of its generated code, which Spark would
    compile again for every batch.
    """

    number: int
    ingested_ms: int


@dataclass(frozen=True)
class FileBatch:
    """The files of a batch and their content."""

    files: list[CheckedFile]
    """All files, good and bad."""
    content: DataFrame | None
    """The records of all files, and one row per file with the result of its check; None when no file was read."""
    dialect: str | None
    """The dialect as JSON, where it is not the default."""
    checksums: str = ""
    """Those of the files in ``content``, by their numbers there, separated by commas. A checksum is known after the last record."""

    def rows(self, spark: SparkSession, good: list[CheckedFile]) -> DataFrame:
        """The records of the good files, with the columns of `LINES`."""
        if self.content is None or not good:
            return local.from_rows(spark, [], LINES)
        records = self.content
        if len(good) < len(self.files):
            file_ids = local.from_rows(spark, [(str(file.id),) for file in good], f"{hidden.FILE_ID} string")
            records = records.join(F.broadcast(file_ids), hidden.FILE_ID, "left_semi")
        # One literal, which is folded to an array, and compiled into nothing: generated code takes it as a reference.
        checksum = F.split(F.lit(self.checksums), ",")[F.col("_number")]
        # In the task that reads a file, after its last record: a task that raises writes nothing.
        is_record = (
            F.when(F.col("_checked").isNull(), True)
            .when(F.get_json_object("_checked", "$.sha256") == checksum, False)
            .otherwise(F.raise_error(F.lit(CHANGED)).cast("boolean"))
        )
        return records.where(is_record).select(
            F.concat_ws("#", hidden.FILE_ID, hidden.LINE_NUMBER).alias(hidden.ROW_ID),
            "line",
            hidden.HEADER,
            F.lit(self.dialect).cast("string").alias(hidden.DIALECT),
            hidden.PATH,
            hidden.SIZE,
            F.timestamp_millis("_modified_ms").alias(hidden.MODIFIED_AT),
            hidden.LINE_NUMBER,
            F.timestamp_millis("_ingested_ms").alias(hidden.INGESTED_AT),
            hidden.BATCH_ID,
            checksum.alias(hidden.CHECKSUM),
        )


def read_files(
    spark: SparkSession, files: list[FileId], source: FileSource, batch: BatchValues, persisted: list[DataFrame]
) -> FileBatch:
    """Read every file completely, once, on the executors.

    Args:
        files: Each with the modification time from the stream's source log.
        source: The source: format, dialect and columns of the files.
        persisted: The persisted frame is added here; the caller must unpersist it after the batch.
    """
    if not files:
        return FileBatch([], None, None)
    numbered = [(number, *file) for number, file in enumerate(files)]
    listed = local.from_rows(spark, numbered, "number int, path string, modified_ms bigint")
    kind, dialect, names, renames = source.format, source.dialect, [each.name for each in source.columns], source.names

    def read(listings: Iterable[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        # An executor has server and credentials of buckets from its own environment.
        stores = Stores()
        for listing in listings:
            for file in listing.to_pylist():
                address = stores.address(file["path"])
                reader = FileReader(address, file["modified_ms"], kind, dialect, names, renames)
                yield from arrow_batches(reader, batch, file["number"])

    frame = listed.mapInArrow(read, _CONTENT_COLUMNS).persist(StorageLevel.DISK_ONLY)
    persisted.append(frame)
    results = frame.where("_checked IS NOT NULL").select("_checked").collect()
    checked = sorted((json_codec.decode(row["_checked"], CheckedFile) for row in results), key=lambda file: file.path)
    by_id = {file.id: file.sha256 for file in checked}
    return FileBatch(checked, frame, stored_dialect(source), ",".join(by_id[file] for file in files))


def stored_dialect(source: FileSource) -> str | None:
    """The dialect as stored with each record in bronze, as JSON; None for the default and for formats without dialects."""
    if source.format != "csv":
        return None
    stored = json_codec.changed_fields(source.dialect)
    stored.pop("encoding", None)
    # The field names are stored as the header, also for files without one.
    stored.pop("header", None)
    return json_codec.encode(stored) if stored else None


def arrow_batches(reader: FileReader, batch: BatchValues, number: int = 0) -> Iterator[pyarrow.RecordBatch]:
    """The records of one file in Arrow batches of bounded size; the last row holds the result of the check.

    Args:
        number: That of the file among those that are read together.
    """
    numbers: list[int] = []
    texts: list[str] = []
    characters = 0

    def arrow_batch(checked: str | None = None) -> pyarrow.RecordBatch:
        # All rows are of one file. Dictionary arrays would be smaller, but Spark does not accept them from Python.
        file, count = reader.checked, len(texts)
        columns = {
            hidden.FILE_ID: pa.array([str(file.id)] * count, pa.string()),
            "line": pa.array(texts, pa.string()),
            hidden.HEADER: pa.array([reader.header] * count, pa.string()),
            hidden.PATH: pa.array([file.id.url] * count, pa.string()),
            hidden.SIZE: pa.array([file.size] * count, pa.int64()),
            "_modified_ms": pa.array([file.modified_ms] * count, pa.int64()),
            hidden.LINE_NUMBER: pa.array(numbers, pa.int64()),
            "_ingested_ms": pa.array([batch.ingested_ms] * count, pa.int64()),
            hidden.BATCH_ID: pa.array([batch.number] * count, pa.int64()),
            "_number": pa.array([number] * count, pa.int32()),
            "_checked": pa.array([checked] * count, pa.string()),
        }
        return pa.RecordBatch.from_arrays(list(columns.values()), list(columns))

    for line, text in reader:
        numbers.append(line)
        texts.append(text)
        characters += len(text) + len(reader.header or "")
        if characters >= _MAX_BATCH_CHARACTERS or len(texts) == _MAX_BATCH_RECORDS:
            yield arrow_batch()
            numbers, texts, characters = [], [], 0
    if texts:
        yield arrow_batch()
    numbers, texts = [0], [""]
    yield arrow_batch(json_codec.encode(reader.checked))


def glob_escaped(path: str) -> str:
    """Escape glob characters in a path, so that Spark's readers take it literally."""
    return re.sub(r"([*?\[\]{}\\])", r"\\\1", path)


def quarantine_rows(failed: list[CheckedFile]) -> list[dict[str, Any]]:
    """Bad files as quarantine rows: one per file, without content."""
    return [
        {hidden.ROW_ID: str(file.id), "level": "file", "rules": [file.problem], "record": None, "source": file.source()}
        for file in failed
    ]


def unread_file(landing_zone: Address, file: FileId, problem: str) -> CheckedFile:
    """The result for a file that is refused without being read."""
    try:
        size = landing_zone.of_uri(file.path).stat().size
    except (OSError, ValueError):
        size = 0
    return CheckedFile(path=file.path, modified_ms=file.modified_ms, size=size, sha256="", problem=problem)


def with_problem(file: CheckedFile, problem: str) -> CheckedFile:
    """The same file, refused for a problem of an earlier attempt."""
    return replace(file, problem=problem)
