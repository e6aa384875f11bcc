"""Stateful flows: an operator of Spark that remembers rows between batches, in increments that give what an endless stream would.

The state of batch N is valid when Spark has written ``commits/N``, and it is made only if the whole plan of the batch ran. So
every attempt evaluates and counts all results before anything else, also of a batch without results and of one that the
target has (docs/adr/0037).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pyspark.errors import AnalysisException

from tidegate.advice import OutsideAct
from tidegate.errors import (
    LateRowsDroppedError,
    SourceRewrittenError,
    SpecError,
    StateCodeChangedError,
    UnexpectedError,
)
from tidegate.kinds.stateful import ordered, results, state_plan
from tidegate.spark.batch import transform_errors
from tidegate.spark.driver.execution import state_metrics
from tidegate.spark.driver.failures import value_error
from tidegate.spark.job import Job, Kind
from tidegate.spark.kind import has_read_tables

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from tidegate.reports.ledger_line import LedgerLine
    from tidegate.spark.batch.split import Decision, Split

_PARTITIONS = "spark.sql.shuffle.partitions"


def _read_stream(job: Job, reading: Job) -> DataFrame | None:
    """The results of the transform's operator for the rows of the source; None if there are neither new rows nor new heartbeats.

    Without them Spark would not evaluate the operator either: it does that for a watermark only in the query that moved it
    (``MicroBatchExecution.constructNextBatch``).
    """
    if has_read_tables(reading):
        return None
    assert job.transform is not None
    rows = ordered.rows_in_order(job.spark, job.place, job.resolved)
    with _refusals_of_spark(job):
        output = job.transform(rows)
        state_plan.check(job.flow, output)
    return output


def _start(job: Job, writer: DataStreamWriter) -> StreamingQuery:
    """Start the query with the declared partitions, which Spark then fixes in the checkpoint."""
    state, spark = job.flow.state, job.spark
    assert state is not None
    before = spark.conf.get(_PARTITIONS)
    spark.conf.set(_PARTITIONS, str(state.partitions))
    try:
        with _refusals_of_spark(job):
            return writer.outputMode("update" if job.flow.target.keys else "append").start()
    finally:
        spark.conf.set(_PARTITIONS, str(before))


@contextmanager
def _refusals_of_spark(job: Job) -> Iterator[None]:
    """Name the flow and the condition where Spark refuses a plan; its own text may quote literals."""
    try:
        yield
    except AnalysisException as error:
        mode = "update" if job.flow.target.keys else "append"
        meaning, advice = state_plan.MODES[mode]
        raise SpecError(
            f"flow {job.flow.name!r}: Spark refuses transform {job.flow.transform!r} in output mode {mode} "
            f"({error.getCondition() or 'unsupported operation'}): {meaning}",
            advice,
        ) from error


def _evaluate(job: Job, batch: DataFrame, batch_id: int) -> DataFrame:
    """Run the whole plan of the batch, once, and check that Spark dropped no row of it.

    Raises:
        TransformRefusedError: The operator raises on a value.
        SourceRewrittenError: Rows of the source were changed or deleted.
        LateRowsDroppedError: Rows are older than the watermark although the flow below splits late rows off.
        UnexpectedError: The executed plan has no stateful operator, so that dropped rows cannot be counted.
    """
    rows = batch.persist()
    job.persisted.append(rows)
    try:
        rows.count()
    except Exception as error:
        if ordered.NOT_ADDED in str(error):
            raise SourceRewrittenError(job.flow.name, job.flow.source_tables[0], job.place.version) from None
        if (raised := value_error(error)) is None:
            raise
        problem = "on some row; without its result, all later ones of its key would be wrong"
        # From None: the cause may quote values of the data.
        raise transform_errors.refused(job, batch_id, {raised: None}, problem) from None
    metrics = state_metrics(job.spark, job.app_id)
    if not metrics.operators:
        raise UnexpectedError(
            f"flow {job.flow.name!r}, batch {batch_id}: the plan that Spark executed has no stateful "
            "operator, so that it is unknown whether rows were dropped as older than the watermark; nothing "
            "was written.",
            OutsideAct("this is a bug, or the transform makes no result of any row: report it with the run's report"),
        )
    if metrics.dropped:
        raise LateRowsDroppedError(job.flow.name, batch_id, metrics.dropped, job.flow.source_tables[0])
    return rows


def _check_written(job: Job, record: LedgerLine) -> None:
    """The state that this attempt made must be that of the results which the target has."""
    if record.code_fingerprint != job.with_fingerprints(record).code_fingerprint:
        raise StateCodeChangedError(job.flow.name, record.batch_id, job.place.version, str(job.flow.transform))


def _split(job: Job, batch: DataFrame, batch_id: int, _decision: Decision) -> Split | None:
    return results.split_results(job, batch, batch_id, state_metrics(job.spark, job.app_id))


KIND = Kind(
    read_stream=_read_stream,
    start=_start,
    evaluate=_evaluate,
    check_written=_check_written,
    split=_split,
    completed_by_target=True,
)
