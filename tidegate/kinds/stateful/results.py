"""Results of a stateful operator: judged as a whole, then appended, or merged by key.

The gate passes or refuses a batch. A result that was held back could not come back in its order.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from tidegate import hidden
from tidegate.advice import Edit, Either
from tidegate.checkpoints import checkpoint, progress
from tidegate.errors import SpecError
from tidegate.formatting import count
from tidegate.probes import delta
from tidegate.reports.ledger_line import LedgerLine
from tidegate.spark.batch import groups
from tidegate.spark.batch.split import Split
from tidegate.spark.lake import tables, writes
from tidegate.times import dates

if TYPE_CHECKING:
    from tidegate.checkpoints.progress import DeltaPosition
    from tidegate.spark.driver.execution import StateMetrics
    from tidegate.spark.job import Job

_ALLOWED = (hidden.ROW_ID,)


def split_results(job: Job, batch: DataFrame, batch_id: int, state: StateMetrics) -> Split | None:
    """Steps 1 and 2 of a batch of results; None without any.

    Args:
        batch: The results, persisted.
        state: The state after the batch.

    Raises:
        SpecError: The transform does not return the keys, returns a key twice, or a reserved name.
        GateRefusedError: A critical expectation is below its ``mostly``.
        BatchHeldError: A statistic breaks its rule.
    """
    keys = job.flow.target.keys
    _check_columns(job, batch)
    number = batch.count()
    if not number:
        return None
    if keys:
        _check_keys(job, batch, number)
    groups.judge(job, batch, batch_id)
    rows = batch if keys else _appended(job, batch, batch_id)
    record = LedgerLine(
        flow=job.flow.name,
        batch_id=batch_id,
        app_id=job.app_id,
        kind="emit",
        read=_rows_read(job, batch_id),
        results=number,
        written=number,
        state_rows=state.rows,
        state_memory_bytes=state.bytes,
        watermark=_watermark(job, batch_id),
    )
    return Split(
        prepared=record,
        refused=None,
        write=lambda txn: (
            writes.replace_groups(_upserts(rows), job.target, keys, txn)
            if keys
            else writes.append(rows, job.target, txn)
        ),
        expected_rows=number,
        settled="results" if keys else "",
    )


def _rows_read(job: Job, batch_id: int) -> int:
    """The rows of the source since the last batch with results: one without results has no line in the ledger.

    They are counted by the log of the source's table: heartbeats are no rows, and Spark's metrics miss filtered ones.
    """
    until, recorded = _position(job, batch_id), delta.transaction_version(job.target, job.app_id)
    if until is None:
        return 0
    after = None
    if recorded is not None:
        after = _position(job, progress.oldest_planned(job.place.checkpoint, recorded))
    return delta.rows_added(job.query_tables[-1], -1 if after is None else after.pin, until.pin)


def _position(job: Job, batch_id: int) -> DeltaPosition | None:
    return job.planned_batch(batch_id).delta_positions(len(job.query_tables))[-1]


def _watermark(job: Job, batch_id: int) -> datetime | None:
    """The watermark by which the results are final; None as long as there is none."""
    reached = job.planned_batch(batch_id).watermark_ms
    return dates.from_micros(reached * 1000) if reached else None


def _check_columns(job: Job, batch: DataFrame) -> None:
    where = f"flow {job.flow.name!r}: transform {job.flow.transform!r}"
    if missing := [key for key in job.flow.target.keys if key not in batch.columns]:
        raise SpecError(
            f"{where} does not return the key {', '.join(missing)}",
            Either(Edit("return it", "transform"), Edit("declare other keys", "declaration")),
        )
    if reserved := [name for name in batch.columns if name.startswith("_") and name not in _ALLOWED]:
        raise SpecError(
            f"{where} returns {', '.join(reserved)}",
            Edit("name it otherwise: names that begin with '_' are reserved", "transform"),
        )


def _check_keys(job: Job, batch: DataFrame, number: int) -> None:
    distinct = batch.select(*job.flow.target.keys).distinct().count()
    if number != distinct:
        raise SpecError(
            f"flow {job.flow.name!r}: transform {job.flow.transform!r} returns "
            f"{count(number, 'result')} for {count(distinct, 'key')} in one batch",
            Edit(
                "it must return one per key, the newest. For several results of a key declare a table without keys",
                "transform",
            ),
        )


def _appended(job: Job, batch: DataFrame, batch_id: int) -> DataFrame:
    """The rows with the columns that tables without keys have; ``_row_id`` identifies a result to flows that read the table."""
    names = [name for name in batch.columns if not name.startswith("_")]
    if hidden.ROW_ID not in batch.columns:
        options = tables.JSON if _has_exact_ids(job) else {}
        content = F.sha2(F.to_json(F.struct(*[F.col(f"`{name}`") for name in names]), options), 256)
        copy = F.row_number().over(Window.partitionBy("_content").orderBy("_content"))
        batch = batch.withColumn("_content", content).withColumn(hidden.ROW_ID, F.concat_ws("-", "_content", copy))
    planned = F.timestamp_millis(F.lit(job.work.planned_ms(job, batch_id)))
    return batch.select(
        *names, hidden.ROW_ID, planned.alias(hidden.INGESTED_AT), F.lit(batch_id).cast("bigint").alias(hidden.BATCH_ID)
    )


def _has_exact_ids(job: Job) -> bool:
    sidecar = checkpoint.versions(job.place).get(job.place.version)
    return sidecar is None or sidecar.exact_ids


def _upserts(rows: DataFrame) -> DataFrame:
    return rows.withColumn(hidden.OP, F.lit("upsert"))
