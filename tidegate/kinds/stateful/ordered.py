"""The stream of a stateful flow: the rows that its source table got, in the order of its commits, with the watermark.

A row is late only by rows of earlier commits (docs/architecture/kinds.md, "State"). A commit of the table has one file, so that the limits
of a batch do not cut it. Heartbeats join the rows below the watermark, which they move, and are filtered out above it. An unread
heartbeat must not overtake rows that were added before it: then all that is unread is one batch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from tidegate import hidden
from tidegate.advice import Command, Edit
from tidegate.checkpoints import checkpoint, progress
from tidegate.errors import SetupError, SpecError
from tidegate.ops import heartbeats
from tidegate.probes import delta
from tidegate.spark.intake import whole_commits

if TYPE_CHECKING:
    from tidegate.lake.place import Place
    from tidegate.project.resolution import ResolvedFlow

NOT_ADDED = "a row of the source of a flow with state was changed or deleted"
"""The text of the error that the query raises for such a change (`tidegate.spark.driver.failures`)."""
_BEAT = "_heartbeat"


def rows_in_order(spark: SparkSession, place: Place, resolved: ResolvedFlow) -> DataFrame:
    """The rows of the source, as a transform gets them, with the watermark on their event time.

    Raises:
        SpecError: The event time of the source is no TIMESTAMP.
        SetupError: As `_heartbeats`.
    """
    writer, feed = resolved.writer, resolved.flow.feeds[0]
    assert writer is not None and writer.watermark is not None and writer.target.event_time is not None
    event_time = writer.target.event_time
    changes = whole_commits.stream(spark, place, feed, bounded=not _has_unread_heartbeats(place, resolved))
    kind = dict(changes.dtypes).get(event_time)
    if kind != "timestamp":
        raise SpecError(
            f"flow {place.flow!r}: event_time={event_time!r} of table {feed.table!r} is "
            f"{kind or 'not among its columns'}",
            Edit(f"a watermark needs a TIMESTAMP: cast it in the transform of flow {writer.name!r}", "transform"),
        )
    added = F.when(F.col(hidden.CHANGE_TYPE) == "insert", F.lit(True)).otherwise(F.raise_error(F.lit(NOT_ADDED)))
    visible = [name for name in changes.columns if not name.startswith("_") or name in (hidden.ROW_ID, hidden.RESCUED)]
    rows = changes.where(added).select(*visible, F.lit(False).alias(_BEAT))
    beats = _heartbeats(spark, place, resolved).select(F.col("event_time").alias(event_time), F.lit(True).alias(_BEAT))
    # Heartbeats first: Spark asks the sources for their newest versions in this order. So the rows that were added before a
    # heartbeat are read with it, or earlier.
    both = beats.unionByName(rows, allowMissingColumns=True)
    # Spark drops what is not after the watermark, the flow below what is before it: one millisecond lies between.
    delay = f"{writer.watermark.delay_seconds * 1000 + 1} milliseconds"
    return both.withWatermark(event_time, delay).where(_is_row(event_time)).select(*visible)


def _has_unread_heartbeats(place: Place, resolved: ResolvedFlow) -> bool:
    path, reached, read = resolved.heartbeats(place.layout), progress.read(place.checkpoint).last_planned, 0
    assert path is not None
    if reached is not None:
        position = progress.planned_batch(place.checkpoint, reached).delta_positions(
            1 + len(resolved.flow.source_tables)
        )[0]
        read = 0 if position is None else max(0, position.pin)
    # Version 0 is the empty table.
    return (delta.current_version(path) or 0) > read


def _is_row(event_time: str) -> Column:
    """Whether it is no heartbeat. Without the event time in it, Spark would filter before the watermark sees the heartbeat."""
    return ~(F.col(_BEAT) & F.col(event_time).isNotNull())


def _heartbeats(spark: SparkSession, place: Place, resolved: ResolvedFlow) -> DataFrame:
    """The heartbeats as a stream: all that there are, then the new ones. The table is made in case the row flow has not ended a run.

    Raises:
        SetupError: They are those of another environment, which has none.
    """
    writer, path = resolved.writer, resolved.heartbeats(place.layout)
    assert writer is not None and path is not None
    above = resolved.above(place.layout)
    if above.layout is place.layout:
        heartbeats.create(checkpoint.current(above, writer.checkpoint_version))
    elif not path.exists():
        owner, says = above.layout.owner.environment, f"run flow {writer.name!r} in this environment, too: {{}}"
        raise SetupError(
            f"flow {place.flow!r} reads {writer.target.name!r} of environment {owner!r}, where no flow with state has read it: it has no "
            "heartbeats there",
            Command.tidegate("run", place.pipeline, "--flow", writer.name, says=says),
        )
    return spark.readStream.format("delta").load(str(path)).select("event_time")
