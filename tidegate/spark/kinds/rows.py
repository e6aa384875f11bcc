"""Row flows: the changes of a table, transformed and judged, into a table by key or appended."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pendulum
from pyspark.sql import functions as F

from tidegate import lateness
from tidegate.advice import Edit
from tidegate.checkpoints.lease import checkpoint_resource
from tidegate.checkpoints.pending_jobs import WINDOWS
from tidegate.errors import LeaseHeldError, RequestError
from tidegate.ops import heartbeats
from tidegate.runs import event_time
from tidegate.spark.batch import histories, rows, transform_errors, transform_output
from tidegate.spark.batch.dispositions import FILTERED, QUARANTINED
from tidegate.spark.batch.split import Decision
from tidegate.spark.driver import lease
from tidegate.spark.intake import parse, source_records, sources, whole_commits
from tidegate.spark.kinds.kind import Kind, Sides
from tidegate.spark.lake import tables
from tidegate.status import idle
from tidegate.store import Address

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tidegate.spark.batch.split import Split
    from tidegate.spark.context import FlowContext
    from tidegate.spark.reprocessing.backfill import Backfill
    from tidegate.spark.reprocessing.pins import Pins
    from tidegate.window import Window

_NO_BATCH = -1
"""The number of a batch that is only derived."""


def _keys_in_window(context: FlowContext, window: Window | None, pending: Backfill) -> DataFrame:
    """The keys, or scopes, from the output of the transform for all rows of the source; in a window also from the live table."""
    target, column = context.flow.target, event_time(context.pipeline, context.flow)
    output = transform_output.transform_records(
        context, _without_raising(context, _whole_feed(context, pending.source_version, pending.planned_at_ms), pending)
    )
    if window is None:
        return output.select(*target.scope)
    assert column is not None
    output = output.where(tables.within(output, column, window, target.name)).select(*target.scope)
    live = tables.read(context.spark, context.live)
    if column in live.columns:
        live_keys = live.where(tables.within(live, column, window, target.name)).select(*target.scope)
        output = output.unionByName(live_keys)
    return output.where(" AND ".join(f"`{key}` IS NOT NULL" for key in target.scope)).select(
        *[F.col(key) for key in target.scope]
    )


def _store_raising(context: FlowContext, window: Window | None, pending: Backfill, raised: str) -> None:
    names = list(context.flow.target.scope)
    if window is not None:
        column = event_time(context.pipeline, context.flow)
        assert column is not None
        names.append(column)

    def searched(part: DataFrame) -> DataFrame:
        return transform_output.transform_parsed(context, part).select(*names)

    records = transform_output.parse_records(
        context, _whole_feed(context, pending.source_version, pending.planned_at_ms)
    )
    parted = transform_errors.part(context, records, searched, raised, pending.number)
    assert parted.bypassing is not None
    parted.bypassing.select("_row_id").write.parquet(str(_raising_path(context, pending)))
    if window is None:
        return
    context.report.notes.append(
        f"transform {context.flow.transform!r} raises {parted.describe()} of its source, so that their keys are "
        "unknown: those that table or quarantine have outside the window stay as they are"
    )


def _split_keys(context: FlowContext, keys: DataFrame, pending: Backfill, decision: Decision) -> Split | None:
    batch = (
        _whole_feed(context, pending.source_version, pending.planned_at_ms)
        if pending.is_whole
        else source_rows(context, keys, pending)
    )
    return rows.replace_rows(context, batch, keys, pending.number, decision)


def source_rows(context: FlowContext, keys: DataFrame, pending: Backfill) -> DataFrame:
    """The source rows from which the present code derives rows of the keys, or scopes."""
    feed = _whole_feed(context, pending.source_version, pending.planned_at_ms)
    names, raising = list(context.flow.target.scope), _raising(context, pending)
    known = transform_output.transform_records(context, _without_raising(context, feed, pending))
    ids = known.join(keys, names, "left_semi").select("_row_id").distinct()
    if raising is not None:
        ids = ids.union(_in_table(context, raising, keys))
    ids = ids.persist()
    context.persisted.append(ids)
    if context.resolved.landing is not None:
        return feed.join(ids, "_row_id", "left_semi")
    # A row of a table gets its `_row_id` only when it is parsed.
    return parse.of_changes(feed, context.resolved.source_keys, ids, "left_semi")


def _raising_path(context: FlowContext, pending: Backfill) -> Address:
    return WINDOWS.folder(context.place) / f"{pending.number}.raising"


def _raising(context: FlowContext, pending: Backfill) -> DataFrame | None:
    """``_row_id`` of the source's rows that `_store_raising` found."""
    path = _raising_path(context, pending)
    return context.spark.read.parquet(str(path)) if path.exists() else None


def _without_raising(context: FlowContext, feed: DataFrame, pending: Backfill) -> DataFrame:
    raising = _raising(context, pending)
    if raising is None:
        return feed
    if context.resolved.landing is None:
        left = parse.of_changes(feed, context.resolved.source_keys, raising, "left_anti")
    else:
        left = feed.join(raising, "_row_id", "left_anti")
    # Otherwise Spark may move a filter on the transform's output below the join, where it meets the rows that raise.
    left = left.persist()
    context.persisted.append(left)
    return left


def _in_table(context: FlowContext, raising: DataFrame, keys: DataFrame) -> DataFrame:
    """The rows without a key today from which rows of the keys in the table were made: they leave the table for quarantine."""
    source = parse.changed_key().alias("_source")
    made = tables.read(context.spark, context.live).join(keys, list(context.flow.target.scope), "left_semi")
    return raising.withColumn("_source", source).join(made.select(source), "_source", "left_semi").select("_row_id")


def _whole_feed(context: FlowContext, version: int, planned_at_ms: int) -> DataFrame:
    """All rows of a version of the source as inserts, in the form of its change feed."""
    assert context.source_table is not None
    source = tables.read(context.spark, context.source_table, version)
    return source.withColumns(
        {
            "_change_type": F.lit("insert"),
            "_commit_version": F.lit(version).cast("bigint"),
            "_commit_timestamp": F.timestamp_millis(F.lit(planned_at_ms)),
        }
    )


def _sides(context: FlowContext, pins: Pins) -> Sides:
    """All rows of the source go through steps 1 and 2 as one batch; what is kept out of the table is taken from quarantine."""
    target, is_parsed = context.flow.target, context.resolved.landing is not None
    if not (target.keys or is_parsed):
        raise RequestError(
            f"flow {context.flow.name!r} cannot be verified: it appends every change of a row of "
            f"{_source_name(context)!r}, which has only the present rows.",
            Edit("compare its own source with a verification of the flow that writes it", "request"),
        )
    feed = _whole_feed(context, pins.source_version, pins.planned_at_ms)
    judged = rows.judge_rows(context, feed, _NO_BATCH, Decision(quarantined=True, late=True, written=False))
    actual = tables.read(context.spark, context.live, pins.version)
    expected = actual.limit(0) if judged is None else judged.written
    if target.history and judged is not None:
        expected = histories.with_versions(context, expected)
    left: dict[str, int] = {}
    if not is_parsed:
        expected, actual, left = _of_present_rows(context, pins, expected, actual, judged)
    return Sides(
        expected=expected,
        actual=actual,
        keys=target.keys or ("_row_id",),
        source=f"{_source_name(context)} at version {pins.source_version}",
        ignored=rows.BOOKKEEPING,
        not_compared=left,
    )


def _of_present_rows(
    context: FlowContext, pins: Pins, expected: DataFrame, actual: DataFrame, judged: rows.JudgedRows | None
) -> tuple[DataFrame, DataFrame, dict[str, int]]:
    """Both sides of a flow that reads a keyed table, whose present rows do not tell what the flow has read before.

    A row whose newest change is filtered or in quarantine left an earlier state in the table, if any: neither side keeps rows
    of it. Tombstones are left out, and of ``_order`` all but the declared columns.
    """
    source = parse.changed_key().alias("_source")
    kept = pins.refused_ids(context, context.spark, _NO_BATCH).select(source)
    if judged is not None:
        kept = kept.union(judged.assigned.where(F.col("_disposition").isin(QUARANTINED, FILTERED)).select(source))
    kept = kept.distinct().persist()
    context.persisted.append(kept)
    order = F.struct(*[F.col(f"_order.`{name}`").alias(name) for name in context.flow.target.sequence_by])

    def compared(side: DataFrame) -> DataFrame:
        present = side.where("NOT coalesce(_deleted, false)").withColumn("_source", source)
        return present.join(kept, "_source", "left_anti").drop("_source").withColumn("_order", order)

    earlier = (
        actual.where("NOT coalesce(_deleted, false)").withColumn("_source", source).join(kept, "_source", "left_semi")
    )
    reason = "whose source row was filtered or quarantined since"
    return compared(expected), compared(actual), {reason: earlier.count()}


def _read_stream(context: FlowContext) -> DataFrame:
    if context.flow.watermark is None:
        return sources.change_feed(context)
    # Flows that read the table with its heartbeats need both from the beginning.
    heartbeats.create(context.place)
    return whole_commits.stream(context)


def _split(context: FlowContext, batch: DataFrame, batch_id: int, decision: Decision) -> Split | None:
    if context.flow.watermark is not None and not context.work.of_entries:
        batch = whole_commits.complete(context, batch, batch_id)
    return rows.split_rows(context, batch, batch_id, decision)


def _drained(context: FlowContext) -> None:
    beat = idle.heartbeat_due(context.resolved, context.place, pendulum.now("UTC"))
    if beat is None:
        return
    # A reader that runs has found out whether heartbeats are unread, and so how many rows a batch may have: one that comes now would
    # overtake rows of its later batches.
    readers = [
        checkpoint_resource(context.pipeline.name, each.name)
        for each in context.pipeline.flows
        if each.state is not None and context.flow.target.name in each.source_tables
    ]
    holder = f"attempt {context.attempt} of {context.pipeline.name}, for a heartbeat"
    try:
        with lease.hold(context.spark, context.layout, tuple(readers), what=holder):
            heartbeats.append(context.place, beat)
    except LeaseHeldError as error:
        context.report.notes.append(f"a heartbeat is due and waits for the next run: {error.message}")
        return
    declared = context.flow.watermark
    assert declared is not None
    moved = lateness.moment(beat.event_time - declared.delay_seconds * 1_000_000)
    context.report.notes.append(
        f"no new rows of {_source_name(context)} for {declared.idle}: a heartbeat moved the watermark to {moved:%Y-%m-%d %H:%M:%S} UTC"
    )


def _source_name(context: FlowContext) -> str:
    return context.flow.source_tables[0]


KIND = Kind(
    read_stream=_read_stream,
    split=_split,
    drained=_drained,
    bookkeeping=rows.BOOKKEEPING,
    keys_in_window=_keys_in_window,
    store_raising=_store_raising,
    split_keys=_split_keys,
    read_entries=source_records.read,
    sides=_sides,
)
