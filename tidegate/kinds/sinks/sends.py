"""Flows that send the changes of a table to a sink: a batch of the table's change feed, and a record for each change.

Nothing in the lake says whether a sink has a batch, so a batch that crashed before the end of its steps is sent again: at least
once. Its changes are those of the same commits, with the same ids, in the same order per key.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from tidegate import hidden
from tidegate.checkpoints import lease
from tidegate.kinds.sinks import function_sink, kafka_sink
from tidegate.reports.ledger_line import LedgerLine
from tidegate.spark.batch import scopes
from tidegate.spark.batch.split import Split
from tidegate.spark.lake.tables import JSON, Commit
from tidegate.spec import FunctionSink, KafkaSink

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tidegate.spark.job import Job

_SENDERS: Mapping[type, Callable[[Job, DataFrame], int]] = {
    KafkaSink: kafka_sink.send,
    FunctionSink: function_sink.send,
}
"""What sends the changes of a batch, by the kind of the sink. It returns their number when the sink has all of them."""


_CONTENT = {**JSON, "ignoreNullFields": "true"}
"""A column that was added since, and is NULL, does not change the id."""


def split_changes(job: Job, batch: DataFrame, batch_id: int) -> Split | None:
    """Steps 1 and 2 for a batch of the change feed; None for an empty one. No change is ever refused."""
    changes = _changes(job, batch).persist()
    job.persisted.append(changes)
    kept, newest = F.count_if("last").alias("kept"), F.max("version").alias("newest")
    counted = changes.agg(F.count("*").alias("read"), kept, newest).first()
    if counted is None or not counted["read"]:
        return None
    sent = changes.where("last").drop("last")

    def write(_: object) -> Commit:
        lease.expect_certain()
        number = _SENDERS[type(job.flow.target)](job, sent)
        return Commit(version=counted["newest"], metrics={"numOutputRows": number}, metadata={})

    return Split(
        prepared=LedgerLine(
            flow=job.flow.name,
            batch_id=batch_id,
            app_id=job.app_id,
            kind="send",
            read=counted["read"],
            written=counted["kept"],
            deduplicated=counted["read"] - counted["kept"],
        ),
        refused=None,
        write=write,
        expected_rows=counted["kept"],
    )


def _changes(job: Job, batch: DataFrame) -> DataFrame:
    """The changes of rows, in the order of their commits for each key, and all changes of a key in one partition.

    Args:
        batch: Rows of the change feed.

    Returns:
        ``id string, type string, version bigint, key struct, row struct, last boolean``. ``id`` is the same whenever the change is
        read: the table, the version of its commit, and a hash of key and row. ``type`` is ``insert``, ``update`` or ``delete``; ``row``
        has the columns of the table without those of the platform, and is NULL for a delete. ``last`` is false for the delete of
        a key that the same commit inserts again, because both together are an update.
    """
    keys, table = job.resolved.source_keys, job.flow.source_tables[0]
    feed = scopes.without_tombstones(job, batch).where(f"{hidden.CHANGE_TYPE} <> 'update_preimage'")
    deleted = F.col(hidden.CHANGE_TYPE) == "delete"
    if hidden.DELETED in feed.columns:
        deleted = deleted | F.coalesce(hidden.DELETED, F.lit(False))
    in_order = Window.partitionBy(*[f"`{key}`" for key in keys]).orderBy(hidden.COMMIT_VERSION, (~deleted).cast("int"))

    def same_commit(other: int) -> Column:
        return F.lag(hidden.COMMIT_VERSION, other).over(in_order).eqNullSafe(F.col(hidden.COMMIT_VERSION))

    kind = F.when(deleted, "delete").when(
        same_commit(1) | F.col(hidden.CHANGE_TYPE).eqNullSafe("update_postimage"), "update"
    )
    key = F.struct(*[f"`{name}`" for name in keys])
    row = F.struct(*[f"`{name}`" for name in feed.columns if not name.startswith("_")])
    # A lake that was put back from a copy may make another change of the key under the same version.
    content = F.concat_ws(" ", F.to_json(key, JSON), F.to_json(F.when(~deleted, row), _CONTENT))
    content_hash = F.left(F.sha2(content, 256), F.lit(32))
    return feed.select(
        F.concat_ws("/", F.lit(table), hidden.COMMIT_VERSION, content_hash).alias("id"),
        kind.otherwise("insert").alias("type"),
        F.col(hidden.COMMIT_VERSION).alias("version"),
        key.alias("key"),
        F.when(~deleted, row).alias("row"),
        (~same_commit(-1)).alias("last"),
    ).sortWithinPartitions("key", "version")
