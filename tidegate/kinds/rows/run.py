"""Row flows: the changes of a table, transformed and judged, into a table by key or appended."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pendulum
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidegate import hidden
from tidegate.advice import Edit
from tidegate.checkpoints.lease import checkpoint_resource
from tidegate.checkpoints.pending_jobs import WINDOWS, PendingBackfill
from tidegate.errors import LeaseHeldError, RequestError
from tidegate.ops import heartbeats
from tidegate.requests.event_time import event_time
from tidegate.spark.batch import histories, rows, transform_errors, transform_output
from tidegate.spark.batch.dispositions import FILTERED, QUARANTINED
from tidegate.spark.batch.split import Decision, Split
from tidegate.spark.driver import lease
from tidegate.spark.intake import parse, source_records, whole_commits
from tidegate.spark.job import Entries, Job, Kind, Sides
from tidegate.spark.kind import change_feed, has_read_tables
from tidegate.spark.lake import tables
from tidegate.status import idle
from tidegate.store import Address
from tidegate.times import dates

if TYPE_CHECKING:
    from tidegate.spark.batch.pinned import Pinned
    from tidegate.times.window import Window

_NO_BATCH = -1
"""The number of a batch that is only derived."""


def _keys_in_window(job: Job, window: Window | None, pending: PendingBackfill) -> DataFrame:
    """The keys, or scopes, from the output of the transform for all rows of the source; in a window also from the live table."""
    target, column = job.flow.target, event_time(job.resolved.pipeline, job.flow)
    output = transform_output.transform_records(
        job, _without_raising(job, _whole_feed(job, pending.source_version, pending.planned_at_ms), pending)
    )
    if window is None:
        return output.select(*target.scope)
    assert column is not None
    output = output.where(tables.within(output, column, window, target.name)).select(*target.scope)
    live = tables.read(job.spark, job.live)
    if column in live.columns:
        live_keys = live.where(tables.within(live, column, window, target.name)).select(*target.scope)
        output = output.unionByName(live_keys)
    return output.where(" AND ".join(f"`{key}` IS NOT NULL" for key in target.scope)).select(
        *[F.col(key) for key in target.scope]
    )


def _store_raising(job: Job, window: Window | None, pending: PendingBackfill, raised: str) -> None:
    names = list(job.flow.target.scope)
    if window is not None:
        column = event_time(job.resolved.pipeline, job.flow)
        assert column is not None
        names.append(column)

    def searched(part: DataFrame) -> DataFrame:
        return transform_output.transform_parsed(job, part).select(*names)

    records = transform_output.parse_records(job, _whole_feed(job, pending.source_version, pending.planned_at_ms))
    parted = transform_errors.part(job, records, searched, raised, pending.number)
    assert parted.bypassing is not None
    parted.bypassing.select(hidden.ROW_ID).write.parquet(str(_raising_path(job, pending)))
    if window is None:
        return
    job.run.report.notes.append(
        f"transform {job.flow.transform!r} raises {parted.describe()} of its source, so that their keys are "
        "unknown: those that table or quarantine have outside the window stay as they are"
    )


def _split_keys(job: Job, keys: DataFrame, pending: PendingBackfill, decision: Decision) -> Split | None:
    return rows.replace_rows(job, source_batch(job, keys, pending), keys, pending.number, decision)


def source_batch(job: Job, keys: DataFrame, pending: PendingBackfill) -> DataFrame:
    """As `source_rows`; for the whole table all rows of the source."""
    if pending.is_whole:
        return _whole_feed(job, pending.source_version, pending.planned_at_ms)
    return source_rows(job, keys, pending)


def source_rows(job: Job, keys: DataFrame, pending: PendingBackfill) -> DataFrame:
    """The source rows from which the present code derives rows of the keys, or scopes."""
    feed = _whole_feed(job, pending.source_version, pending.planned_at_ms)
    names, raising = list(job.flow.target.scope), _raising(job, pending)
    known = transform_output.transform_records(job, _without_raising(job, feed, pending))
    ids = known.join(keys, names, "left_semi").select(hidden.ROW_ID).distinct()
    if raising is not None:
        ids = ids.union(_in_table(job, raising, keys))
    ids = ids.persist()
    job.persisted.append(ids)
    if job.resolved.landing is not None:
        return feed.join(ids, hidden.ROW_ID, "left_semi")
    # A row of a table gets its `_row_id` only when it is parsed.
    return parse.of_changes(feed, job.resolved.source_keys, ids, "left_semi")


def _raising_path(job: Job, pending: PendingBackfill) -> Address:
    return WINDOWS.folder(job.place) / f"{pending.number}.raising"


def _raising(job: Job, pending: PendingBackfill) -> DataFrame | None:
    """``_row_id`` of the source's rows that `_store_raising` found."""
    path = _raising_path(job, pending)
    return job.spark.read.parquet(str(path)) if path.exists() else None


def _without_raising(job: Job, feed: DataFrame, pending: PendingBackfill) -> DataFrame:
    raising = _raising(job, pending)
    if raising is None:
        return feed
    if job.resolved.landing is None:
        left = parse.of_changes(feed, job.resolved.source_keys, raising, "left_anti")
    else:
        left = feed.join(raising, hidden.ROW_ID, "left_anti")
    # Otherwise Spark may move a filter on the transform's output below the join, where it meets the rows that raise.
    left = left.persist()
    job.persisted.append(left)
    return left


def _in_table(job: Job, raising: DataFrame, keys: DataFrame) -> DataFrame:
    """The rows without a key today from which rows of the keys in the table were made: they leave the table for quarantine."""
    source = parse.changed_key().alias("_changed_key")
    made = tables.read(job.spark, job.live).join(keys, list(job.flow.target.scope), "left_semi")
    return (
        raising.withColumn("_changed_key", source)
        .join(made.select(source), "_changed_key", "left_semi")
        .select(hidden.ROW_ID)
    )


def _whole_feed(job: Job, version: int, planned_at_ms: int) -> DataFrame:
    """All rows of a version of the source as inserts, in the form of its change feed."""
    assert job.source_table is not None
    source = tables.read(job.spark, job.source_table, version)
    return source.withColumns(
        {
            hidden.CHANGE_TYPE: F.lit("insert"),
            hidden.COMMIT_VERSION: F.lit(version).cast("bigint"),
            hidden.COMMIT_TIMESTAMP: F.timestamp_millis(F.lit(planned_at_ms)),
        }
    )


def _sides(job: Job, pins: Pinned) -> Sides:
    """All rows of the source go through steps 1 and 2 as one batch; what is kept out of the table is taken from quarantine."""
    target, is_parsed = job.flow.target, job.resolved.landing is not None
    if not (target.keys or is_parsed):
        raise RequestError(
            f"flow {job.flow.name!r} cannot be verified: it appends every change of a row of "
            f"{_source_name(job)!r}, which has only the present rows.",
            Edit("compare its own source with a verification of the flow that writes it", "request"),
        )
    feed = _whole_feed(job, pins.source_version, pins.planned_at_ms)
    judged = rows.judge_rows(job, feed, _NO_BATCH, Decision(quarantined=True, late=True, written=False))
    actual = tables.read(job.spark, job.live, pins.version)
    expected = actual.limit(0) if judged is None else judged.written
    if target.history and judged is not None:
        expected = histories.with_versions(job, expected)
    left: dict[str, int] = {}
    if not is_parsed:
        expected, actual, left = _of_present_rows(job, pins, expected, actual, judged)
    return Sides(
        expected=expected,
        actual=actual,
        keys=target.keys or (hidden.ROW_ID,),
        source=f"{_source_name(job)} at version {pins.source_version}",
        ignored=rows.BOOKKEEPING,
        not_compared=left,
    )


def _of_present_rows(
    job: Job, pins: Pinned, expected: DataFrame, actual: DataFrame, judged: rows.JudgedRows | None
) -> tuple[DataFrame, DataFrame, dict[str, int]]:
    """Both sides of a flow that reads a keyed table, whose present rows do not tell what the flow has read before.

    A row whose newest change is filtered or in quarantine left an earlier state in the table, if any: neither side keeps rows
    of it. Tombstones are left out, and of ``_order`` all but the declared columns.
    """
    source = parse.changed_key().alias("_changed_key")
    kept = job.work.refused_ids(job, job.spark, _NO_BATCH).select(source)
    if judged is not None:
        kept = kept.union(judged.assigned.where(F.col(hidden.DISPOSITION).isin(QUARANTINED, FILTERED)).select(source))
    kept = kept.distinct().persist()
    job.persisted.append(kept)
    order = F.struct(*[F.col(f"{hidden.ORDER}.`{name}`").alias(name) for name in job.flow.target.sequence_by])

    def compared(side: DataFrame) -> DataFrame:
        present = side.where(f"NOT coalesce({hidden.DELETED}, false)").withColumn("_changed_key", source)
        return present.join(kept, "_changed_key", "left_anti").drop("_changed_key").withColumn(hidden.ORDER, order)

    earlier = (
        actual.where(f"NOT coalesce({hidden.DELETED}, false)")
        .withColumn("_changed_key", source)
        .join(kept, "_changed_key", "left_semi")
    )
    reason = "whose source row was filtered or quarantined since"
    return compared(expected), compared(actual), {reason: earlier.count()}


def _read_stream(job: Job, reading: Job) -> DataFrame | None:
    if job.flow.watermark is None:
        return change_feed(job, reading)
    # Flows that read the table with its heartbeats need both from the beginning.
    heartbeats.create(job.place)
    if has_read_tables(reading):
        return None
    return whole_commits.stream(job.spark, job.place, job.flow.feeds[0])


def _split(job: Job, batch: DataFrame, batch_id: int, decision: Decision) -> Split | None:
    if job.flow.watermark is not None and not job.work.of_entries:
        batch = whole_commits.complete(job.place, job.flow.feeds[0], batch, batch_id)
    return rows.split_rows(job, batch, batch_id, decision)


def _drained(job: Job) -> None:
    beat = idle.heartbeat_due(job.resolved, job.place, pendulum.now("UTC"))
    if beat is None:
        return
    # A reader that runs has found out whether heartbeats are unread, and so how many rows a batch may have: one that comes now would
    # overtake rows of its later batches.
    readers = [
        checkpoint_resource(job.place.pipeline, each.name)
        for each in job.resolved.pipeline.flows
        if each.state is not None and job.flow.target.name in each.source_tables
    ]
    holder = f"attempt {job.run.place.attempt} of {job.place.pipeline}, for a heartbeat"
    try:
        with lease.hold(job.spark, job.place.layout, tuple(readers), what=holder):
            heartbeats.append(job.place, beat)
    except LeaseHeldError as error:
        job.run.report.notes.append(f"a heartbeat is due and waits for the next run: {error.message}")
        return
    declared = job.flow.watermark
    assert declared is not None
    moved = dates.from_micros(beat.event_time - declared.delay_seconds * 1_000_000)
    job.run.report.notes.append(
        f"no new rows of {_source_name(job)} for {declared.idle}: a heartbeat moved the watermark to {moved:%Y-%m-%d %H:%M:%S} UTC"
    )


def _read_entries(job: Job, session: SparkSession, entries: Entries) -> DataFrame:
    assert job.source_table is not None
    rows = source_records.read(session, job.source_table, job.resolved, entries).persist()
    job.persisted.append(rows)
    return rows


def _source_name(job: Job) -> str:
    return job.flow.source_tables[0]


KIND = Kind(
    read_stream=_read_stream,
    split=_split,
    drained=_drained,
    bookkeeping=rows.BOOKKEEPING,
    keys_in_window=_keys_in_window,
    store_raising=_store_raising,
    split_keys=_split_keys,
    read_entries=_read_entries,
    sides=_sides,
)
