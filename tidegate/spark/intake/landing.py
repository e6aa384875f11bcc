"""Reads the files of one batch: records of good files become rows, a bad file becomes one file-level quarantine entry.

The stream lists, the batch opens. Which files belong to a batch stands in the checkpoint's own source log, not in
the batch's rows: Spark leaves zero-length and vanished files out of those, and reads the rest twice when one name
holds a glob character (SPARK-58518). Executors read each file once, from its first byte to its last
(`tidegate.spark.intake.reader`); what they read is kept on disk until it is written, so what was checked is what is stored.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidegate.spark.intake.reader import CheckedFile, FileReader

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import DataFrame, SparkSession

    from tidegate.spec import FileSource

LINES = (
    "_row_id string, line string, _header string, _dialect string, _path string, _size bigint, _modified_at timestamp, "
    "_line_number bigint"
)
"""The rows of a bronze table of files, without the batch's own columns."""

_READ = (
    "_file_id string, line string, _header string, _path string, _size bigint, _modified_ms bigint, _line_number bigint, "
    "_checked string"
)
_BATCH_CHARACTERS = 4 * 1024 * 1024
_BATCH_RECORDS = 20_000


@dataclass(frozen=True)
class Landed:
    """What the files of a batch hold."""

    files: list[CheckedFile]
    """All of them, good and bad."""
    read: DataFrame | None
    """The records of all files, and a row per file with what was found out; None when no file was opened."""
    dialect: str | None
    """How they are written, where that is not the default, as JSON."""

    def rows(self, spark: SparkSession, good: list[CheckedFile]) -> DataFrame:
        """The records of some of the files as `LINES`."""
        from pyspark.sql import functions as F

        if self.read is None or not good:
            return spark.createDataFrame([], LINES)
        records = self.read.where("_checked IS NULL")
        if len(good) < len(self.files):
            known = spark.createDataFrame([(file.file_id,) for file in good], "_file_id string")
            records = records.join(F.broadcast(known), "_file_id", "left_semi")
        return records.select(
            F.concat_ws("#", "_file_id", "_line_number").alias("_row_id"),
            "line",
            "_header",
            F.lit(self.dialect).cast("string").alias("_dialect"),
            "_path",
            "_size",
            F.timestamp_millis("_modified_ms").alias("_modified_at"),
            "_line_number",
        )


def read_files(
    spark: SparkSession, files: list[tuple[str, int]], source: FileSource, persisted: list[DataFrame]
) -> Landed:
    """Read every file whole, on the executors, once.

    Args:
        spark: The batch's session.
        files: Local path and the modification time that the stream logged (milliseconds).
        source: How they are written.
        persisted: Takes the frame that the caller gives back (`unpersist`) when the batch is over.
    """
    from pyspark import StorageLevel

    if not files:
        return Landed([], None, None)
    listed = spark.createDataFrame(files, "path string, modified_ms bigint")
    kind, dialect, names = source.format, source.dialect, [column.name for column in source.columns]

    def read(batches: Iterable[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        for batch in batches:
            for file in batch.to_pylist():
                yield from batches_of(FileReader(file["path"], file["modified_ms"], kind, dialect, names))

    frame = listed.mapInArrow(read, _READ).persist(StorageLevel.DISK_ONLY)
    persisted.append(frame)
    found = frame.where("_checked IS NOT NULL").select("_checked").collect()
    checked = sorted((CheckedFile.from_json(row["_checked"]) for row in found), key=lambda file: file.path)
    return Landed(checked, frame, stored_dialect(source))


def stored_dialect(source: FileSource) -> str | None:
    """What bronze keeps beside each record of how its file was written; None for a file that its format explains."""
    if source.format != "csv":
        return None
    stored = source.dialect.to_json()
    stored.pop("encoding", None)
    # What names the fields is kept as the header, also if the file has none.
    stored.pop("header", None)
    return json.dumps(stored, ensure_ascii=False) if stored else None


def batches_of(reader: FileReader) -> Iterator[pyarrow.RecordBatch]:
    """One file's records in batches of bounded size, then one row that says what was found out about the file."""
    import pyarrow as pa

    numbers: list[int] = []
    texts: list[str] = []
    characters = 0

    def batch(checked: str | None = None) -> pyarrow.RecordBatch:
        # A whole batch is of one file: dictionaries would say it shorter, but Spark does not take them from Python.
        file, count = reader.checked, len(texts)
        columns = {
            "_file_id": pa.array([file.file_id] * count, pa.string()),
            "line": pa.array(texts, pa.string()),
            "_header": pa.array([reader.header] * count, pa.string()),
            "_path": pa.array([f"file://{file.path}"] * count, pa.string()),
            "_size": pa.array([file.size] * count, pa.int64()),
            "_modified_ms": pa.array([file.modified_ms] * count, pa.int64()),
            "_line_number": pa.array(numbers, pa.int64()),
            "_checked": pa.array([checked] * count, pa.string()),
        }
        return pa.RecordBatch.from_arrays(list(columns.values()), list(columns))

    for number, text in reader:
        numbers.append(number)
        texts.append(text)
        characters += len(text) + len(reader.header or "")
        if characters >= _BATCH_CHARACTERS or len(texts) == _BATCH_RECORDS:
            yield batch()
            numbers, texts, characters = [], [], 0
    if texts:
        yield batch()
    numbers, texts = [0], [""]
    yield batch(reader.checked.to_json())


def glob_escaped(path: str) -> str:
    """A path that Spark's readers take for itself and not for a pattern."""
    return re.sub(r"([*?\[\]{}\\])", r"\\\1", path)


def quarantine_rows(failed: list[CheckedFile]) -> list[dict[str, Any]]:
    """Bad files in the form of quarantine rows: one per file, without its content."""
    return [
        {"_row_id": file.file_id, "level": "file", "rules": [file.problem], "record": None, "source": file.source()}
        for file in failed
    ]


def unopened(path: str, modified_ms: int, problem: str) -> CheckedFile:
    """A file that is refused without a look into it."""
    try:
        size = Path(path).stat().st_size
    except OSError:
        size = 0
    return CheckedFile(path=path, modified_ms=modified_ms, size=size, sha256="", problem=problem)


def with_problem(file: CheckedFile, problem: str) -> CheckedFile:
    """The same file, refused for what an earlier attempt found."""
    return replace(file, problem=problem)
