"""Opens the files of one batch: the good ones become raw lines, a bad one becomes one file-level quarantine record.

The stream lists, the batch opens. Which files belong to a batch stands in the checkpoint's own source log, not in
the batch's rows: Spark leaves zero-length and vanished files out of those, and reads the rest twice when one name
holds a glob character (SPARK-58518). Each file is checked whole on the executors before a line of it is used,
because a truncated gzip otherwise fails the task for ever, and ``ignoreCorruptFiles`` passes half of it.
"""

from __future__ import annotations

import bz2
import codecs
import gzip
import hashlib
import json
import re
import stat
import zlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, cast

from tidegate.checkpoints.progress import decoded
from tidegate.spark.intake import records

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tidegate.spec import FileFormat

LONGEST_LINE = 16 * 1024 * 1024
"""Bytes; a longer line is not a record but a file that lost its line ends."""

LINES = "_row_id string, line string, _header string, _path string, _size bigint, _modified_at timestamp, _line_number bigint"
"""The rows of a bronze table of files, without the batch's own columns."""

_CHUNK = 1 << 20
_HEADER_END = re.compile(rb"\r\n|\n|\r")


@dataclass(frozen=True, kw_only=True)
class CheckedFile:
    """What a whole reading of one file found."""

    path: str
    modified_ms: int
    size: int
    sha256: str
    """Of the bytes as they lie there; empty when they could not be read, or nobody looked."""
    header: str
    """The first line, decoded, or the fields of a Parquet or Avro file with their types, as JSON; empty for an empty file."""
    problem: str | None
    """Why it cannot be used: ``empty_file``, ``vanished``, ``not_a_file``, ``unreadable``, ``corrupt_compression``,
    ``corrupt_file``, ``not_utf8``, ``line_too_long``, ``changed_while_read``."""

    @property
    def file_id(self) -> str:
        """Its coordinates as one text; a ``_row_id`` is this, ``#`` and the line number."""
        return f"{self.path}@{self.modified_ms}"

    def source(self) -> str:
        """The coordinates for people, as JSON."""
        return json.dumps(
            {"path": self.path, "size": self.size, "modified_ms": self.modified_ms, "sha256": self.sha256}
        )


def check_files(spark: SparkSession, files: list[tuple[str, int]], kind: FileFormat) -> list[CheckedFile]:
    """Read every file whole, on the executors.

    Args:
        spark: Its executors read.
        files: Local path and the modification time that the stream logged (milliseconds).
        kind: The format of them all.
    """
    if not files:
        return []
    parallelism = min(len(files), max(spark.sparkContext.defaultParallelism, 1) * 4)
    return spark.sparkContext.parallelize(files, parallelism).map(lambda file: check_file(*file, kind)).collect()


def check_file(path: str, modified_ms: int, kind: FileFormat) -> CheckedFile:
    """Read one file whole: decompress, decode, measure records, and see that it did not change meanwhile."""
    digest = hashlib.sha256()
    header, size, problem = "", 0, None
    try:
        before = Path(path).stat()
        if not stat.S_ISREG(before.st_mode):
            # Opening a pipe would wait for whoever writes into it.
            return CheckedFile(path=path, modified_ms=modified_ms, size=0, sha256="", header="", problem="not_a_file")
        size = before.st_size
        with Path(path).open("rb") as raw:
            while chunk := raw.read(_CHUNK):
                digest.update(chunk)
        if kind in ("csv", "json"):
            first, problem = _read_through(path)
            header = first.decode("utf-8", "replace").removeprefix("\ufeff")
        else:
            header, problem = records.check(path, kind, LONGEST_LINE)
        after = Path(path).stat()
        if (after.st_size, after.st_mtime_ns) != (before.st_size, before.st_mtime_ns):
            problem = "changed_while_read"
    except FileNotFoundError:
        return CheckedFile(path=path, modified_ms=modified_ms, size=0, sha256="", header="", problem="vanished")
    except (EOFError, zlib.error, gzip.BadGzipFile):
        problem = "corrupt_compression"
    except OSError as error:
        # bz2 says a damaged stream with a bare OSError; one from the system carries its number.
        problem = "unreadable" if error.errno else "corrupt_compression"
    if size == 0 and problem is None:
        problem = "empty_file"
    return CheckedFile(
        path=path,
        modified_ms=modified_ms,
        size=size,
        sha256=digest.hexdigest(),
        header=header,
        problem=problem,
    )


def read_lines(
    spark: SparkSession, files: list[CheckedFile], persisted: list[DataFrame], *, has_header: bool
) -> DataFrame:
    """The raw lines of good files, with their coordinates and exact line numbers.

    A file larger than a split arrives in several blocks, so a line's number is its place in the block plus the lines
    of the blocks before it; both come from one pass over the persisted text, without a shuffle of the lines.

    Args:
        spark: The batch's session.
        files: At least one good file.
        persisted: Takes the frame that the caller gives back (`unpersist`) when the batch is over.
        has_header: Whether line 1 of each file names the fields and is no record.

    Returns:
        `LINES`.
    """
    from pyspark.sql import functions as F

    by_path = {file.path: file for file in files}
    text = _text(spark, files).persist()
    persisted.append(text)
    extents = text.groupBy("_uri", "_block").agg(F.min("_place").alias("first"), F.count("*").alias("lines"))
    blocks = extents.orderBy("_uri", "_block").collect()
    facts, seen = [], dict.fromkeys(by_path, 0)
    for block in blocks:
        file = by_path[decoded(block["_uri"])]
        facts.append(
            (
                block["_uri"],
                block["_block"],
                seen[file.path] + 1 - block["first"],
                file.file_id,
                file.header if has_header else None,
                "file://" + file.path,
                file.size,
                file.modified_ms,
            )
        )
        seen[file.path] += block["lines"]
    schema = "_uri string, _block bigint, _shift bigint, _file_id string, _header string, _path string, _size bigint, _modified_ms bigint"
    known = F.broadcast(spark.createDataFrame(facts, schema))
    rows = text.join(known, ["_uri", "_block"]).withColumn("_line_number", F.col("_place") + F.col("_shift"))
    if has_header:
        rows = rows.where("_line_number > 1")
    line = F.when(F.col("_line_number") == 1, F.regexp_replace("line", "^\ufeff", "")).otherwise(F.col("line"))
    return rows.select(
        F.concat_ws("#", "_file_id", "_line_number").alias("_row_id"),
        line.alias("line"),
        "_header",
        "_path",
        "_size",
        F.timestamp_millis("_modified_ms").alias("_modified_at"),
        "_line_number",
    )


def _text(spark: SparkSession, files: list[CheckedFile]) -> DataFrame:
    from pyspark.sql import functions as F

    return spark.read.text([glob_escaped("file://" + file.path) for file in files]).select(
        F.col("value").alias("line"),
        F.col("_metadata.file_path").alias("_uri"),
        F.col("_metadata.file_block_start").alias("_block"),
        F.monotonically_increasing_id().alias("_place"),
    )


def glob_escaped(path: str) -> str:
    """A path that Spark's readers take for itself and not for a pattern."""
    return re.sub(r"([*?\[\]{}\\])", r"\\\1", path)


def _read_through(path: str) -> tuple[bytes, str | None]:
    decoder = codecs.getincrementaldecoder("utf-8")()
    header: bytes | None = None
    start, length = b"", 0
    with _opened(path) as content:
        while chunk := content.read(_CHUNK):
            try:
                decoder.decode(chunk)
            except UnicodeDecodeError:
                return start, "not_utf8"
            if header is None:
                start += chunk
                if (end := _HEADER_END.search(start)) is not None:
                    header = start[: end.start()]
            pieces = chunk.split(b"\n")
            for position, piece in enumerate(pieces):
                length = length + len(piece) if position == 0 else len(piece)
                if length > LONGEST_LINE:
                    return b"", "line_too_long"
    try:
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return start if header is None else header, "not_utf8"
    return start if header is None else header, None


def _opened(path: str) -> IO[bytes]:
    if path.endswith(".gz"):
        return cast("IO[bytes]", gzip.open(path, "rb"))
    if path.endswith(".bz2"):
        return cast("IO[bytes]", bz2.open(path, "rb"))
    return Path(path).open("rb")


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
    return CheckedFile(path=path, modified_ms=modified_ms, size=size, sha256="", header="", problem=problem)


def with_problem(file: CheckedFile, problem: str) -> CheckedFile:
    """The same file, refused for what an earlier attempt found."""
    return replace(file, problem=problem)


def no_lines(spark: SparkSession) -> DataFrame:
    """What `read_lines` returns, without a row: a batch of which every file is bad."""
    return spark.createDataFrame([], LINES)
