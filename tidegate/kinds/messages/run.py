"""Landing flows of messages: each message of a topic is stored once, raw, in bronze, except for timestamps that no table can hold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidegate import hidden
from tidegate.checkpoints import gap, overrides, progress, topic
from tidegate.checkpoints.checkpoint import ORIGIN, Origin
from tidegate.kinds.messages.split import message_rows, split_messages
from tidegate.ops import ledger
from tidegate.probes import kafka
from tidegate.sources.topics import start, unread
from tidegate.sources.topics.measure import format_offsets
from tidegate.spark.batch import topic_messages
from tidegate.spark.intake import topic_reader
from tidegate.spark.job import Entries, Job, Kind, Sides
from tidegate.spark.lake import local, tables
from tidegate.times.window import Window

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from tidegate.checkpoints.pending_jobs import PendingPiece
    from tidegate.spark.batch.pinned import Pinned


def _read_stream(job: Job, _reading: Job) -> DataFrame | None:
    stream = topic_messages.reader_of(job).stream(job.spark, job.target)
    if decisions := start.record_decisions(job.place):
        job.run.report.notes += [each.summary() for each in decisions]
        ledger.record_gaps(job.place)
    return stream


def _renewed_by(job: Job) -> Origin | None:
    """If the next messages were deleted: the accepted gap, after which a new checkpoint starts, or what made this one read again."""
    ledger.record_gaps(job.place)
    reader = topic_messages.reader_of(job)
    if not reader.needs_refresh():
        return None
    opened = ORIGIN.read(job.place)
    if opened is not None and (opened.recovers or reader.is_reading_again()):
        return opened
    return Origin(mode="accept_gap", run_key=job.run.request.run_key)


def _parts(job: Job, window: Window | None, earlier: Sequence[PendingPiece]) -> Iterator[Mapping[str, Any]]:
    """The window's offsets; each part contains a share of every partition."""
    assert window is not None
    reader = topic_messages.reader_of(job)
    source, cluster = reader.source, reader.cluster
    for name in (each.name for each in unread.present(cluster, source, topic_reader.PROBE_SECONDS)):
        ranges = kafka.offsets_within(cluster, name, window.since, window.until, isolation=source.isolation)
        for piece in earlier:
            for partition, (_, done) in piece.offsets.items() if _topic_of(job, piece) == name else ():
                begin, end = ranges.get(int(partition), (0, 0))
                ranges[int(partition)] = (min(max(begin, done), end), end)
        total = sum(end - begin for begin, end in ranges.values())
        firsts = {partition: begin for partition, (begin, end) in ranges.items() if begin < end}
        pieces = -(-total // reader.max_offsets_per_batch({name: firsts})) if total else 0
        for nth in range(pieces):
            cuts = {
                str(partition): [begin + (end - begin) * nth // pieces, begin + (end - begin) * (nth + 1) // pieces]
                for partition, (begin, end) in ranges.items()
            }
            yield {"topic": name, "offsets": {each: cut for each, cut in cuts.items() if cut[1] > cut[0]}}


def _topic_of(job: Job, piece: PendingPiece) -> str:
    return piece.topic or topic_messages.reader_of(job).source.topics[0]


def _read_piece(job: Job, piece: PendingPiece) -> DataFrame:
    """The piece's messages with a timestamp in the window, with the connector's columns. A timestamp out of range is in no window."""
    window = Window(**piece.window)
    rows = topic_messages.read(job, {_topic_of(job, piece): _ranges(piece.offsets)}).good
    first, end_time = (F.lit(moment).cast("timestamp") for moment in (window.start, window.end))
    return rows.where((F.col("timestamp") >= first) & (F.col("timestamp") < end_time))


def _read_entries(_job: Job, spark: SparkSession, entries: Entries) -> DataFrame:
    """The entries themselves: a message and its timestamp never change, so that the topic need not have it any more."""
    return local.from_rows(
        spark, [(each[hidden.ROW_ID], each["source"]) for each in entries], f"{hidden.ROW_ID} string, source string"
    )


def _ranges(offsets: Mapping[str, Sequence[int]]) -> dict[int, tuple[int, int]]:
    return {int(partition): (first, end) for partition, (first, end) in offsets.items()}


def _sides(job: Job, pins: Pinned) -> Sides:
    """The messages that the topics still have, up to the pinned offsets. Neither side has those of an accepted gap, or before a start."""
    reader = topic_messages.reader_of(job)
    source, cluster = reader.source, reader.cluster
    starts = [each for each in overrides.history(job.place) if each.act == "start"]
    present = unread.present(cluster, source, topic_reader.PROBE_SECONDS)
    offsets: progress.KafkaRanges = {}
    skipped, within, later = F.lit(False), F.lit(False), F.lit(False)
    for current in present:
        ends = _read_offsets(pins, current)
        of_topic = (F.col(hidden.TOPIC) == current.name) & (F.coalesce(hidden.TOPIC_ID, F.lit("")) == current.topic_id)
        for partition, (begin, end) in current.bounds.items():
            of_partition = of_topic & (F.col(hidden.PARTITION) == partition)
            of_start = [each for each in starts if each.topic == current.name]
            for first, last in gap.ranges_of(of_start, current.topic_id, partition):
                skipped |= of_partition & F.col(hidden.OFFSET).between(first, last)
                begin = last + 1 if first <= begin <= last else begin
            if begin < (read := min(end, ends.get(partition, 0))):
                offsets.setdefault(current.name, {})[partition] = (begin, read)
                within |= of_partition & F.col(hidden.OFFSET).between(begin, read - 1)
        for partition, end in ends.items():
            later |= of_topic & (F.col(hidden.PARTITION) == partition) & (F.col(hidden.OFFSET) >= end)
    table = tables.read(job.spark, job.live, pins.version)
    place = F.when(skipped, "skipped").when(within, "compared").when(later, "later").otherwise("gone")
    placed = table.withColumn("_place", place)
    rows_by_place = {row["_place"]: row["count"] for row in placed.groupBy("_place").count().collect()}
    actual = placed.where("_place = 'compared'").drop("_place")
    expected = actual.limit(0)
    if offsets:
        ids = {current.name: current.topic_id for current in present}
        expected = message_rows(topic_messages.read(job, offsets).good, ids).where(~skipped)
    not_compared = {
        "of messages that the topic no longer has": rows_by_place.get("gone", 0),
        "of messages after the position of the stream": rows_by_place.get("later", 0),
    }
    if starts:
        not_compared["of messages that a start skipped and a later run read"] = rows_by_place.get("skipped", 0)
    names = [current.name for current in present]
    compacted = [each for each in names if kafka.is_compacted(cluster, each, topic_reader.PROBE_SECONDS)]
    if compacted:
        removed = actual.where(F.col(hidden.TOPIC).isin(compacted)).join(expected, hidden.ROW_ID, "left_anti")
        not_compared["of messages that compaction may have removed"] = removed.count()
        actual = actual.join(removed.select(hidden.ROW_ID), hidden.ROW_ID, "left_anti")
    compared = [f"offsets {format_offsets(offsets.get(each, {})) or 'none'} of topic {each}" for each in names]
    return Sides(
        expected=expected,
        actual=actual,
        keys=(hidden.ROW_ID,),
        source=", ".join(compared),
        ignored=(hidden.INGESTED_AT, hidden.BATCH_ID),
        not_compared=not_compared,
    )


def _read_offsets(pins: Pinned, current: kafka.Topic) -> dict[int, int]:
    """The offset that follows those that the pinned batches had read, by partition of the present topic."""
    ends: dict[int, int] = {}
    for place, batch in pins.batches.items():
        known = topic.recorded(place).get(current.name)
        if known is not None and known.topic_id == current.topic_id:
            read = progress.planned_batch(place.checkpoint, batch).kafka_offsets().get(current.name, {})
            ends = {each: max(read.get(each, 0), ends.get(each, 0)) for each in read.keys() | ends.keys()}
    return ends


KIND = Kind(
    read_stream=_read_stream,
    split=split_messages,
    completed_by_target=True,
    renewed_by=_renewed_by,
    parts=_parts,
    read_piece=_read_piece,
    read_entries=_read_entries,
    sides=_sides,
)
