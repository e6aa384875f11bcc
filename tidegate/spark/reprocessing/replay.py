"""A replay of a window: rows and groups are derived anew by today's code, as if it had always run.

The rows of a key come from all of its source rows, not only from those in the window. So a replay takes every source
row whose key has a row in the window, in the table as it stands or as the code makes it now, through the steps of a
micro-batch, and its rows replace what the table holds under these keys; a key that is no longer made is deleted.

A replay is planned before it writes: a number, the version of the source, and the keys. That lies beside the
checkpoint. If the process dies after the first write, the next run of the flow finishes the same replay first.
"""

from __future__ import annotations

import dataclasses
import shutil
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pendulum

from tidegate.errors import SpecError
from tidegate.request import event_time, timed_table
from tidegate.spark.batch import micro_batch
from tidegate.spark.batch.groups import split_groups
from tidegate.spark.batch.rows import split_rows, transform_records
from tidegate.spark.intake import parse
from tidegate.spark.lake import tables
from tidegate.spark.reprocessing import written_plan

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import Column, DataFrame

    from tidegate.spark.batch.split import Decision, Split
    from tidegate.spark.context import FlowContext
    from tidegate.window import Window

ONCE = "This request was done by an earlier attempt; to do it again, clear the whole run, or start a new one"
"""What a flow's report says of a retry that finds nothing left to do."""


@dataclass(frozen=True, kw_only=True)
class Rederivation:
    """One planned replay of one flow."""

    number: int
    """Its ``txnVersion``."""
    run_key: str
    window: dict[str, str]
    source_version: int
    planned_at_ms: int
    requested_by: str
    seconds: float = 0.0
    """That it took to find the keys."""
    request_id: str = ""
    """Whose retries do it once; the same run asks anew when somebody clears it."""
    done: bool = False


def replay(context: FlowContext, window: Window) -> None:
    """Derive a window anew, once per request however often its run is tried.

    Args:
        context: The flow, whose feed is drained.
        window: Of event time.

    Raises:
        SpecError: The event time's column is not there, or is neither a date nor a timestamp.
        TidegateError: As a micro-batch. What a critical expectation refuses leaves the table as it was.
    """
    last = _last(context)
    if last is not None and last.request_id == context.request.request_id and last.done:
        context.report.notes.append(ONCE)
        return
    _take(context, _plan(context, window, 0 if last is None else last.number + 1))


def finish_pending(context: FlowContext) -> None:
    """Finish a replay that a crash left half-written; forget one that wrote nothing."""
    last = _last(context)
    if last is None or last.done:
        return
    if written_plan.has_begun(context, last.number):
        _take(context, last)
    else:
        written_plan.drop(context, last.number)
        shutil.rmtree(_keys(context, last.number), ignore_errors=True)


def _take(context: FlowContext, planned: Rederivation) -> None:
    own = context.of_windows()

    def split(decision: Decision) -> Split | None:
        keys = own.spark.read.parquet(str(_keys(context, planned.number))).persist()
        own.persisted.append(keys)
        if context.flow.target.write_mode == "recompute":
            return split_groups(own, _as_feed(own, keys, planned), planned.number, decision)
        return split_rows(own, _source_rows(own, keys, planned), planned.number, decision, anew=keys)

    micro_batch.take(own, planned.number, split, lambda: planned.planned_at_ms, planning=planned.seconds)
    written_plan.write(context, dataclasses.replace(planned, done=True))
    shutil.rmtree(_keys(context, planned.number), ignore_errors=True)


def _plan(context: FlowContext, window: Window, number: int) -> Rederivation:
    """Write down what is replayed, before anything is written."""
    assert context.source_table is not None
    started = time.monotonic()
    planned = Rederivation(
        number=number,
        run_key=context.run_key,
        window=dataclasses.asdict(window),
        source_version=tables.version(context.spark, context.source_table),
        planned_at_ms=int(pendulum.now("UTC").timestamp() * 1000),
        requested_by=context.request.requested_by,
        request_id=context.request.request_id,
    )
    keys = _named_keys(context.of_windows(), window, planned)
    keys.distinct().write.mode("overwrite").parquet(str(_keys(context, number)))
    planned = dataclasses.replace(planned, seconds=round(time.monotonic() - started, 3))
    written_plan.write(context, planned)
    return planned


def _named_keys(context: FlowContext, window: Window, planned: Rederivation) -> DataFrame:
    """The keys that have a row in the window: in the table as it stands, and as today's code makes it."""
    from pyspark.sql import functions as F

    spark, flow = context.spark, context.flow
    column = event_time(context.pipeline, flow)
    assert column is not None and context.source_table is not None
    if flow.target.write_mode == "recompute":
        source = tables.read(spark, context.source_table, planned.source_version)
        return source.where(_within(source, column, window, timed_table(context.pipeline, flow))).select(
            *flow.target.keys
        )
    made = transform_records(context, _whole_feed(context, planned))
    made = made.where(_within(made, column, window, flow.target.name)).select(*flow.target.keys)
    live = tables.read(spark, context.live)
    if column in live.columns:
        held = live.where(_within(live, column, window, flow.target.name)).select(*flow.target.keys)
        made = made.unionByName(held)
    return made.where(" AND ".join(f"`{key}` IS NOT NULL" for key in flow.target.keys)).select(
        *[F.col(key) for key in flow.target.keys]
    )


def _whole_feed(context: FlowContext, planned: Rederivation) -> DataFrame:
    """All rows of the source as its change feed would bring them at once."""
    from pyspark.sql import functions as F

    assert context.source_table is not None
    rows = tables.read(context.spark, context.source_table, planned.source_version)
    return rows.withColumns(
        {
            "_change_type": F.lit("insert"),
            "_commit_version": F.lit(planned.source_version).cast("bigint"),
            "_commit_timestamp": F.timestamp_millis(F.lit(planned.planned_at_ms)),
        }
    )


def _source_rows(context: FlowContext, keys: DataFrame, planned: Rederivation) -> DataFrame:
    """The source rows that today's code makes into rows of the keys."""
    feed = _whole_feed(context, planned)
    names = list(context.flow.target.keys)
    ids = transform_records(context, feed).join(keys, names, "left_semi").select("_row_id").distinct().persist()
    context.persisted.append(ids)
    if context.landing is not None:
        return feed.join(ids, "_row_id", "left_semi")
    # A row of a keyed source has no id of its own until it is a record.
    wanted = parse.keyed_feed(feed, context.source_keys).join(ids, "_row_id", "left_semi").select(*context.source_keys)
    return feed.join(wanted, list(context.source_keys), "left_semi")


def _as_feed(context: FlowContext, keys: DataFrame, planned: Rederivation) -> DataFrame:
    """The named groups as a change feed names them."""
    from pyspark.sql import functions as F

    return keys.withColumns(
        {
            "_change_type": F.lit("insert"),
            "_commit_version": F.lit(planned.source_version).cast("bigint"),
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
        f"event_time={column!r} of table {table!r} is {kind or 'not among its columns'}; declare a column that is a date or a timestamp"
    )


def _keys(context: FlowContext, number: int) -> Path:
    return written_plan.folder(context) / f"{number}.keys"


def _last(context: FlowContext) -> Rederivation | None:
    known = written_plan.numbers(context)
    return Rederivation(**written_plan.read(context, known[-1])) if known else None
