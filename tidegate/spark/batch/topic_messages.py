"""The messages of ranges of offsets: read by Spark's connector, and message by message where it fails.

The connector converts the timestamp of each message before any rule of ours: one that Spark cannot hold fails the whole range, and one
before 1582 becomes another day. Then the range is read again with librdkafka (`tidegate.probes.messages`), by one task for each
partition. It gives each message as it is, so that only those whose timestamp no table can hold are refused, however many they are.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidegate.errors import TidegateError, UnexpectedError
from tidegate.probes import messages
from tidegate.sources.topics.measure import format_offsets
from tidegate.spark.driver import failures
from tidegate.spark.intake.topic_reader import TopicReader
from tidegate.spark.lake import local
from tidegate.spec import KafkaSource
from tidegate.times import dates

if TYPE_CHECKING:
    from tidegate.spark.job import Job

Ranges = Mapping[str, Mapping[int, tuple[int, int]]]
"""By topic: partition to the first offset and the offset after the last one."""
COLUMNS = ("key", "value", "headers", "topic", "partition", "offset", "timestamp")
"""Those of the connector that bronze stores."""
_READ = (
    "key binary, value binary, headers array<struct<key:string,value:binary>>, topic string, partition int, offset bigint, "
    "timestamp timestamp, _sent_ms bigint, _record string, _failure binary"
)
_ARROW = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", tz="UTC")),
        ("_sent_ms", pa.int64()),
        ("_record", pa.string()),
        ("_failure", pa.binary()),
    ]
)
_BATCH_BYTES, _BATCH_MESSAGES = 8 * 1024 * 1024, 10_000


@dataclass(frozen=True, kw_only=True)
class Messages:
    """Messages that were read, each once."""

    good: DataFrame
    """Those to store, with `COLUMNS`, persisted."""
    stored: int
    """How many these are."""
    read: int
    """How many there are with the refused ones."""
    refused: DataFrame | None = None
    """Those with a timestamp out of range: ``topic``, ``partition``, ``offset``, their ``rules``, ``record`` and ``source`` as in
    quarantine; None for none."""


def reader_of(job: Job) -> TopicReader:
    """The topics of a flow that reads some, as its checkpoint reads them."""
    assert isinstance(job.flow.source, KafkaSource)
    return TopicReader(job.place, job.flow.source, job.cluster, job.live)


def read(job: Job, ranges: Ranges) -> Messages:
    """The messages of ranges of offsets; at least one range.

    Raises:
        TidegateError: As `check`.
    """
    begin, end = (
        {name: {str(partition): cut[side] for partition, cut in cuts.items()} for name, cuts in ranges.items()}
        for side in (0, 1)
    )
    rows = (
        job.spark.read.format("kafka")
        .options(**reader_of(job).options(job.spark))
        .option("assign", json.dumps({name: list(cuts) for name, cuts in ranges.items()}))
        .option("startingOffsets", json.dumps(begin))
        .option("endingOffsets", json.dumps(end))
        .load()
    )
    return check(job, rows, lambda: ranges)


def check(job: Job, rows: DataFrame, ranges: Callable[[], Ranges]) -> Messages:
    """Evaluate what the connector reads; if it fails, or returns a timestamp out of range, read the ranges message by message.

    Args:
        rows: The connector's columns.
        ranges: The offsets that ``rows`` has, for the second reading.

    Raises:
        SourceUnavailableError: The broker does not answer. Transient.
        OffsetsExpiredError: Messages of the ranges were deleted.
        SourceError: The broker has a damaged message, which the error names.
    """
    session = rows.sparkSession
    rows = rows.select(*COLUMNS).persist()
    job.persisted.append(rows)
    first, end = (F.timestamp_millis(F.lit(bound)) for bound in (dates.FIRST_MS, dates.END_MS))
    fits = (F.col("timestamp") >= first) & (F.col("timestamp") < end)
    try:
        counted = rows.agg(F.count("*").alias("read"), F.count_if(~fits).alias("refused")).first()
        assert counted is not None
        if not counted["refused"]:
            return Messages(good=rows, stored=counted["read"], read=counted["read"])
        why = "it returned timestamps out of range"
    except Exception as error:
        failure = failures.translate(error, what="the connector", checkpoint=str(job.place.checkpoint))
        if not isinstance(failure, UnexpectedError):
            # The broker, or the machine: it would fail in the same way for any reader.
            raise
        why = failures.condition_of(error)
    rows.unpersist()
    again = _read_singly(job, session, ranges())
    prefix = reader_of(job).source.prefix
    offsets = " ".join(format_offsets(cuts, prefix(name)) for name, cuts in sorted(ranges().items()))
    job.run.report.notes.append(
        f"offsets {offsets} were read again message by message, since Spark's connector failed: {why}"
    )
    return again


def _read_singly(job: Job, session: Any, ranges: Ranges) -> Messages:
    reader = reader_of(job)
    cluster, isolation = reader.cluster, reader.source.isolation
    listed = local.from_rows(
        session,
        [(name, each, first, end) for name, cuts in ranges.items() for each, (first, end) in sorted(cuts.items())],
        "topic string, partition int, first bigint, end bigint",
    )

    def read_partitions(listings: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for listing in listings:
            for each in listing.to_pylist():
                yield from arrow_batches(
                    messages.read_range(
                        cluster, each["topic"], each["partition"], each["first"], each["end"], isolation=isolation
                    )
                )

    frame = listed.mapInArrow(read_partitions, _READ).persist(StorageLevel.DISK_ONLY)
    job.persisted.append(frame)
    problems = frame.where("_failure IS NOT NULL").select("_failure").collect()
    if problems:
        error: TidegateError = pickle.loads(problems[0]["_failure"])  # from our own task
        raise error
    counts = frame.agg(F.count("*").alias("read"), F.count("_record").alias("refused")).first()
    assert counts is not None
    coordinates = F.struct("topic", "partition", "offset", F.col("_sent_ms").alias("timestamp_ms"))
    refused = frame.where("_record IS NOT NULL").select(
        "topic",
        "partition",
        "offset",
        F.array(F.lit(messages.RULE)).alias("rules"),
        F.col("_record").alias("record"),
        F.to_json(coordinates).alias("source"),
    )
    good = frame.where("_record IS NULL").select(*COLUMNS)
    stored = counts["read"] - counts["refused"]
    return Messages(good=good, stored=stored, read=counts["read"], refused=refused if counts["refused"] else None)


def arrow_batches(received: Iterable[Any]) -> Iterator[pa.RecordBatch]:
    """Messages of librdkafka in Arrow batches of bounded size; an error that reading them raises is a row of its own at the end.

    An exception of a task would reach the driver only as text.
    """
    rows: list[dict[str, Any]] = []
    size = 0
    try:
        for message in received:
            row, length = _row(message)
            rows.append(row)
            size += length
            if size >= _BATCH_BYTES or len(rows) == _BATCH_MESSAGES:
                yield pa.RecordBatch.from_pylist(rows, schema=_ARROW)
                rows, size = [], 0
    except TidegateError as error:
        rows.append({"_failure": pickle.dumps(error)})
    if rows:
        yield pa.RecordBatch.from_pylist(rows, schema=_ARROW)


def _row(message: Any) -> tuple[dict[str, Any], int]:
    """A message with the columns of `_READ`, and about how many bytes it has."""
    key, value, headers, sent_ms = message.key(), message.value(), message.headers(), messages.sent_ms(message)
    coordinates = {"topic": message.topic(), "partition": message.partition(), "offset": message.offset()}
    if messages.is_refused(message):
        record = messages.as_text(message)
        return {**coordinates, "_sent_ms": sent_ms, "_record": record}, len(record)
    pairs = None if headers is None else [{"key": name, "value": content} for name, content in headers]
    size = sum(len(part) for part in (key, value, *(content for _, content in headers or ())) if part is not None)
    content = {"key": key, "value": value, "headers": pairs, "timestamp": sent_ms * 1000, "_sent_ms": sent_ms}
    return {**coordinates, **content}, size
