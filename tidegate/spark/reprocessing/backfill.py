"""Backfill: rows and groups of a window of event time are derived again with the present code.

The rows of a key are derived from all of its source rows, not only from those in the window. So a backfill selects every
key that has a row in the window, in the present table or in the output of the present code. All source rows of these
keys go through the steps of a micro-batch. The result replaces the rows of these keys in the table; a key without a
result is deleted.

Before it writes, a backfill stores its number, the version of the source and the keys beside the checkpoint. If the
process dies after the first write, the next run of the flow finishes the same backfill first.
"""

from __future__ import annotations

import dataclasses
import shutil
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pendulum

from tidegate.errors import SpecError
from tidegate.request import event_time, event_time_table
from tidegate.spark.batch import micro_batch
from tidegate.spark.batch.groups import split_groups
from tidegate.spark.batch.rows import split_rows, transform_records
from tidegate.spark.intake import parse
from tidegate.spark.lake import tables
from tidegate.spark.reprocessing import pending_work

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import Column, DataFrame

    from tidegate.spark.batch.split import Decision, Split
    from tidegate.spark.context import FlowContext
    from tidegate.window import Window

ALREADY_DONE = "An earlier attempt completed this request; to repeat it, clear the whole run, or start a new one"
"""Note in a flow's report when a retry has nothing to do."""


@dataclass(frozen=True, kw_only=True)
class Backfill:
    """One backfill of one flow, as it is stored beside the checkpoint."""

    number: int
    """Also the ``txnVersion`` of its writes."""
    run_key: str
    window: dict[str, str]
    source_version: int
    planned_at_ms: int
    requested_by: str
    seconds: float = 0.0
    """Duration of the search for the keys."""
    request_id: str = ""
    """Retries of one request do the backfill once. Airflow gives a cleared run a new request."""
    done: bool = False


def backfill(context: FlowContext, window: Window) -> None:
    """Derive a window of event time again, once per request, however often the run is retried.

    The flow has read its whole change feed before.

    Raises:
        SpecError: The event time column is missing, or is neither a date nor a timestamp.
        TidegateError: As for a micro-batch. If a critical expectation refuses the result, the table is unchanged.
    """
    last = _last(context)
    if last is not None and last.request_id == context.request.request_id and last.done:
        context.report.notes.append(ALREADY_DONE)
        return
    _run(context, _prepare(context, window, 0 if last is None else last.number + 1))


def finish_pending(context: FlowContext) -> None:
    """Finish a backfill that crashed after its first write; delete one that wrote nothing."""
    last = _last(context)
    if last is None or last.done:
        return
    if pending_work.has_begun(context, last.number):
        _run(context, last)
    else:
        pending_work.drop(context, last.number)
        shutil.rmtree(_keys_path(context, last.number), ignore_errors=True)


def _run(context: FlowContext, pending: Backfill) -> None:
    own = context.for_windows()

    def split(decision: Decision) -> Split | None:
        keys = own.spark.read.parquet(str(_keys_path(context, pending.number))).persist()
        own.persisted.append(keys)
        if context.flow.target.write_mode == "recompute":
            return split_groups(own, _as_feed(own, keys, pending), pending.number, decision)
        return split_rows(own, _source_rows(own, keys, pending), pending.number, decision, backfill_keys=keys)

    micro_batch.run_steps(own, pending.number, split, lambda: pending.planned_at_ms, planning=pending.seconds)
    pending_work.write(context, dataclasses.replace(pending, done=True))
    shutil.rmtree(_keys_path(context, pending.number), ignore_errors=True)


def _prepare(context: FlowContext, window: Window, number: int) -> Backfill:
    """Find the keys, and store the backfill beside the checkpoint."""
    assert context.source_table is not None
    started = time.monotonic()
    pending = Backfill(
        number=number,
        run_key=context.run_key,
        window=dataclasses.asdict(window),
        source_version=tables.version(context.spark, context.source_table),
        planned_at_ms=int(pendulum.now("UTC").timestamp() * 1000),
        requested_by=context.request.requested_by,
        request_id=context.request.request_id,
    )
    keys = _keys_in_window(context.for_windows(), window, pending)
    keys.distinct().write.mode("overwrite").parquet(str(_keys_path(context, number)))
    pending = dataclasses.replace(pending, seconds=round(time.monotonic() - started, 3))
    pending_work.write(context, pending)
    return pending


def _keys_in_window(context: FlowContext, window: Window, pending: Backfill) -> DataFrame:
    """The keys that have a row in the window, in the present table or in the output of the present code."""
    from pyspark.sql import functions as F

    spark, flow = context.spark, context.flow
    column = event_time(context.pipeline, flow)
    assert column is not None and context.source_table is not None
    if flow.target.write_mode == "recompute":
        source = tables.read(spark, context.source_table, pending.source_version)
        return source.where(_within(source, column, window, event_time_table(context.pipeline, flow))).select(
            *flow.target.keys
        )
    output = transform_records(context, _whole_feed(context, pending))
    output = output.where(_within(output, column, window, flow.target.name)).select(*flow.target.keys)
    live = tables.read(spark, context.live)
    if column in live.columns:
        live_keys = live.where(_within(live, column, window, flow.target.name)).select(*flow.target.keys)
        output = output.unionByName(live_keys)
    return output.where(" AND ".join(f"`{key}` IS NOT NULL" for key in flow.target.keys)).select(
        *[F.col(key) for key in flow.target.keys]
    )


def _whole_feed(context: FlowContext, pending: Backfill) -> DataFrame:
    """All rows of the source as inserts, in the form of its change feed."""
    from pyspark.sql import functions as F

    assert context.source_table is not None
    rows = tables.read(context.spark, context.source_table, pending.source_version)
    return rows.withColumns(
        {
            "_change_type": F.lit("insert"),
            "_commit_version": F.lit(pending.source_version).cast("bigint"),
            "_commit_timestamp": F.timestamp_millis(F.lit(pending.planned_at_ms)),
        }
    )


def _source_rows(context: FlowContext, keys: DataFrame, pending: Backfill) -> DataFrame:
    """The source rows from which the present code derives rows of the keys."""
    feed = _whole_feed(context, pending)
    names = list(context.flow.target.keys)
    ids = transform_records(context, feed).join(keys, names, "left_semi").select("_row_id").distinct().persist()
    context.persisted.append(ids)
    if context.resolved.landing is not None:
        return feed.join(ids, "_row_id", "left_semi")
    # A row of a keyed source gets its `_row_id` only when it is parsed.
    source_keys = (
        parse.keyed_feed(feed, context.resolved.source_keys)
        .join(ids, "_row_id", "left_semi")
        .select(*context.resolved.source_keys)
    )
    return feed.join(source_keys, list(context.resolved.source_keys), "left_semi")


def _as_feed(context: FlowContext, keys: DataFrame, pending: Backfill) -> DataFrame:
    """The groups in the form of a change feed."""
    from pyspark.sql import functions as F

    return keys.withColumns(
        {
            "_change_type": F.lit("insert"),
            "_commit_version": F.lit(pending.source_version).cast("bigint"),
        }
    )


def _within(rows: DataFrame, column: str, window: Window, table: str) -> Column:
    from pyspark.sql import functions as F

    kind = dict(rows.dtypes).get(column)
    if kind == "date":
        first, last = window.dates
        return F.col(column).between(F.lit(first), F.lit(last))
    if kind in ("timestamp", "timestamp_ntz"):
        start, end = (F.lit(moment).cast("timestamp").cast(kind) for moment in (window.start, window.end))
        return (F.col(column) >= start) & (F.col(column) < end)
    raise SpecError(
        f"event_time={column!r} of table {table!r} is {kind or 'not among its columns'}; declare a date or timestamp column"
    )


def _keys_path(context: FlowContext, number: int) -> Path:
    return pending_work.folder(context) / f"{number}.keys"


def _last(context: FlowContext) -> Backfill | None:
    numbers = pending_work.numbers(context)
    return pending_work.read(context, numbers[-1], Backfill) if numbers else None
