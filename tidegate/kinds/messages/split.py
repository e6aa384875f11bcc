"""Landing flows of topics: append messages and their coordinates to bronze, except those that were read before."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tidegate import hidden
from tidegate.checkpoints import topic
from tidegate.probes.messages import RULE
from tidegate.spark.batch import quarantine, topic_messages
from tidegate.spark.batch.raw import record_of
from tidegate.spark.batch.split import Decision, Split
from tidegate.spark.lake import tables, writes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tidegate.spark.job import Job


def split_messages(job: Job, batch: DataFrame, batch_id: int, decision: Decision) -> Split | None:
    """Append raw Kafka messages: key, value, headers, topic, topic id, partition, offset and timestamp.

    Args:
        batch: The connector's columns; of a replay the ``_row_id`` and ``source`` of entries, all of which are refused again.
        decision: What an earlier attempt wrote: the messages that it quarantined are counted again, also if the topic lost them.
    """
    if job.work.of_entries:
        return _returned_messages(job, batch, batch_id)
    recorded = topic.recorded(job.place)
    ids = {name: known.topic_id for name, known in recorded.items()}
    messages = topic_messages.check(job, batch, lambda: job.work.planned_offsets(job, batch_id))
    if messages.read == 0:
        return None
    for known in recorded.values():
        topic_messages.reader_of(job).check_same_topic(known)
    rows = _of_batch(job, message_rows(messages.good, ids), batch_id)
    unread = _unread_messages(job, rows)
    count = messages.stored if unread is rows else unread.count()
    refused, rules = None, dict[str, int]()
    if messages.refused is not None:
        refused = _unread_refused(job, _refused_messages(messages.refused, ids), batch_id)
        rules = _by_rule(refused)
    already_read = messages.read - count - sum(rules.values())
    if decision.quarantined:
        rules = _by_rule(job.work.refused_ids(job, rows.sparkSession, batch_id))
    quarantined = sum(rules.values())
    record = record_of(
        job,
        batch_id,
        read=count + already_read + quarantined,
        written=count,
        quarantined=quarantined,
        already_read=already_read,
        rules=rules,
    )
    return Split(
        prepared=record,
        refused=refused if quarantined else None,
        write=lambda txn: writes.append(unread, job.target, txn),
        expected_rows=count,
    )


def _returned_messages(job: Job, entries: DataFrame, batch_id: int) -> Split:
    """Entries of messages that are replayed: a timestamp that was refused is refused again."""
    known = entries.withColumns({"level": F.lit("message"), "rules": F.array(F.lit(RULE)), "record": F.lit(None)})
    count = known.count()
    record = record_of(job, batch_id, read=count, quarantined=count, rules={RULE: count})
    none = tables.read(job.spark, job.live).limit(0)
    return Split(
        prepared=record, refused=known, write=lambda txn: writes.append(none, job.target, txn), expected_rows=0
    )


def _of_batch(job: Job, rows: DataFrame, batch_id: int) -> DataFrame:
    """Rows of bronze with the columns about their batch."""
    planned = F.timestamp_millis(F.lit(job.work.planned_ms(job, batch_id)))
    return rows.select("*", planned.alias(hidden.INGESTED_AT), F.lit(batch_id).cast("bigint").alias(hidden.BATCH_ID))


def _refused_messages(refused: DataFrame, ids: Mapping[str, str]) -> DataFrame:
    """Messages with a timestamp out of range, as `tidegate.spark.batch.quarantine.REFUSED` rows."""
    row_id = _message_id(ids).alias(hidden.ROW_ID)
    return refused.select(row_id, F.lit("message").alias("level"), "rules", "record", "source")


def _by_rule(refused: DataFrame) -> dict[str, int]:
    return {row["rule"]: row["count"] for row in refused.groupBy(F.col("rules")[0].alias("rule")).count().collect()}


def message_rows(messages: DataFrame, ids: Mapping[str, str]) -> DataFrame:
    """Messages, with the connector's columns, as rows of bronze without those about their batch.

    Args:
        ids: Kafka's ids of the topics, by name; empty where the broker has none.
    """
    return messages.select(
        _message_id(ids).alias(hidden.ROW_ID),
        "key",
        "value",
        "headers",
        F.col("topic").alias(hidden.TOPIC),
        _topic_id(ids).alias(hidden.TOPIC_ID),
        F.col("partition").alias(hidden.PARTITION),
        F.col("offset").alias(hidden.OFFSET),
        F.col("timestamp").alias(hidden.TIMESTAMP),
    )


def _message_id(ids: Mapping[str, str]) -> Column:
    # `concat_ws` leaves out the topic id where the broker provides none.
    return F.concat_ws("/", "topic", _topic_id(ids), "partition", "offset")


def _topic_id(ids: Mapping[str, str]) -> Column:
    known = [F.when(F.col("topic") == name, F.lit(each)) for name, each in ids.items() if each]
    return F.coalesce(*known, F.lit(None).cast("string"))


def _unread_messages(job: Job, rows: DataFrame) -> DataFrame:
    """Without the messages of these topics that bronze has from an earlier checkpoint version or refresh."""
    if job.work.is_first_read(job) or not tables.exists(job.target):
        return rows
    read_before = F.lit(False)
    bounds = rows.groupBy(hidden.TOPIC, hidden.TOPIC_ID).agg(F.min(hidden.OFFSET), F.max(hidden.OFFSET)).collect()
    for name, topic_id, first, last in bounds:
        of_topic = (F.col(hidden.TOPIC) == name) & F.col(hidden.TOPIC_ID).eqNullSafe(topic_id)
        read_before |= of_topic & F.col(hidden.OFFSET).between(first, last)
    coordinates = [hidden.TOPIC, hidden.PARTITION, hidden.OFFSET]
    existing = tables.read(rows.sparkSession, job.target).where(read_before).select(*coordinates)
    unread = rows.join(existing, coordinates, "left_anti").persist()
    job.persisted.append(unread)
    return unread.select(*rows.columns)


def _unread_refused(job: Job, refused: DataFrame, batch_id: int) -> DataFrame:
    """Without the messages that quarantine has from an earlier checkpoint version or refresh."""
    if job.work.is_first_read(job) or not tables.exists(job.place.quarantine):
        return refused
    own = quarantine.is_of_batch(job, batch_id)
    earlier = tables.read(refused.sparkSession, job.place.quarantine).where(~own).select(hidden.ROW_ID).distinct()
    return refused.join(earlier, hidden.ROW_ID, "left_anti").select(*refused.columns)
