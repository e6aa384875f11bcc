"""The output of a row flow's transform, with the rules that need no suite: keys, sequence columns, declared days, lateness."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidegate import hidden
from tidegate.advice import Edit
from tidegate.errors import LedgerImbalanceError, SpecError
from tidegate.formats.envelopes import NO_VALUE
from tidegate.formatting import count
from tidegate.lake import identity
from tidegate.spark.batch import late_rows, order, scopes, transform_errors
from tidegate.spark.batch.split import Decision
from tidegate.spark.batch.transform_errors import Parted
from tidegate.spark.derivation.check import derive_checked
from tidegate.spark.driver.failures import value_error
from tidegate.spark.intake import bronze, contracts, parse
from tidegate.spark.lake import tables
from tidegate.times import dates
from tidegate.times.window import Window

if TYPE_CHECKING:
    from tidegate.spark.job import Job

Measured = tuple[dict[str, Any], dict[str, Any]]
"""What `measure` returns."""
_ALLOWED = (hidden.ROW_ID, hidden.ORIGIN, hidden.FILTERED, hidden.DELETED)


def transform_records(job: Job, batch: DataFrame) -> DataFrame:
    """The output of today's transform for rows of the change feed, with ``_filtered``, ``_deleted`` and ``_broken``.

    Raises:
        SpecError: The transform drops a column that it must return, does not return the keys, or returns a sequence column
            that has no order.
    """
    return transform_parsed(job, parse_records(job, batch))


def parse_records(job: Job, batch: DataFrame) -> DataFrame:
    """Rows of the change feed as typed rows with ``_row_id`` and ``_origin``, the input of the transform."""
    feed = changed_rows(job, batch)
    if job.resolved.landing is not None:
        return schema_changes_of(job).parse(feed)
    return parse.keyed_feed(feed, job.resolved.source_keys)


def schema_changes_of(job: Job) -> contracts.SchemaChanges:
    """The schema changes in one batch of a flow that parses records."""
    cluster = getattr(job.resolved.landing, "cluster", None)
    return contracts.SchemaChanges(
        job.place,
        job.resolved,
        job.run,
        # Files have no registry: their schemas are in them.
        registry=None if cluster is None else job.registry_of(cluster),
        app_id=job.app_id,
        is_replay=job.work.of_entries,
    )


def transform_parsed(job: Job, records: DataFrame, *, checked: bool = False) -> DataFrame:
    """The transform's output with ``_filtered``, ``_deleted`` and ``_broken`` (built-in rules) on every row.

    Args:
        records: As `parse_records` returns them.
        checked: Whether the transform's plan is checked, if its present code is not yet (`tidegate.spark.derivation`).
    """
    name, target = job.flow.transform, job.flow.target
    output = _transformed(job, records, checked=checked)
    missing = [
        column
        for column in (hidden.ROW_ID, hidden.ORIGIN, *target.keys, *target.sequence_by)
        if column not in output.columns
    ]
    if missing:
        raise SpecError(
            f"flow {job.flow.name!r}: transform {name!r} does not return {', '.join(missing)}",
            Edit("it must return _row_id, _origin, the target's keys and its sequence columns", "transform"),
        )
    order.check(job, output)
    known = {*_ALLOWED, hidden.RESCUED, *bronze.columns()}
    reserved = [column for column in output.columns if column.startswith("_") and column not in known]
    if reserved:
        raise SpecError(
            f"flow {job.flow.name!r}: transform {name!r} returns {', '.join(reserved)}",
            Edit("name it otherwise: names that begin with '_' are reserved", "transform"),
        )
    landing = job.resolved.landing
    are_changes = landing is not None and landing.changes is not None
    if hidden.FILTERED not in output.columns:
        output = output.withColumn(hidden.FILTERED, F.lit(None).cast("string"))
    if are_changes:
        output = output.withColumn(hidden.FILTERED, F.coalesce(f"{hidden.ORIGIN}.filters", hidden.FILTERED))
    if hidden.DELETED not in output.columns:
        # A transform that selects columns must not turn the delete of a change record into a row.
        output = output.withColumn(hidden.DELETED, F.col(f"{hidden.ORIGIN}.deletes") if are_changes else F.lit(False))
    output = _limited_by_event_time(job, output)
    nulls = [F.when(F.col(key).isNull(), F.lit(f"null_key({key})")) for key in target.scope]
    # A delete of a whole scope has only the scope's key.
    of_row = ~F.coalesce(hidden.DELETED, F.lit(False)) | scopes.has_child_key(target)
    nulls += [F.when(F.col(key).isNull() & of_row, F.lit(f"null_key({key})")) for key in target.child_keys]
    nulls += order.broken_rules(job, output)
    nulls += late_rows.broken_rules(job, output)
    if landing is not None and not are_changes:
        # Change records say themselves what a message without value means.
        nulls.append(
            F.when(F.col(f"{hidden.ORIGIN}.raw").isNull() & ~F.coalesce(hidden.DELETED, F.lit(False)), F.lit(NO_VALUE))
        )
    missing_keys = F.array_compact(F.array(*nulls)) if nulls else F.array().cast("array<string>")
    broken = (
        F.when(F.size(f"{hidden.ORIGIN}.broken") > 0, F.col(f"{hidden.ORIGIN}.broken"))
        .when(F.col(hidden.FILTERED).isNull(), missing_keys)
        .otherwise(F.array().cast("array<string>"))
    )
    return output.withColumns({hidden.DELETED: F.coalesce(hidden.DELETED, F.lit(False)), hidden.BROKEN: broken})


def _transformed(job: Job, records: DataFrame, *, checked: bool) -> DataFrame:
    transform = job.transform
    if transform is None:
        return records
    if checked and job.flow.kind.follows_feed:
        return derive_checked(
            job.place.layout, job.resolved, job.run, job.transform, [records], lambda rows: transform(*rows)
        )
    return transform(records)


def _limited_by_event_time(job: Job, output: DataFrame) -> DataFrame:
    """Rows of days that the table does not declare are filtered; deletes are not, whatever their event time."""
    target = job.flow.target
    if target.event_time is None or not (target.first_day or target.last_day):
        return output
    first, last = target.first_day or str(dates.FIRST), target.last_day or str(dates.LAST)
    within = tables.within(
        output, target.event_time, Window.of_dates(first, last, job.resolved.pipeline.timezone), target.name
    )
    outside = ~within & ~F.coalesce(hidden.DELETED, F.lit(False))
    # An end that is not declared is open, also for years that no declaration can name, as that of 9999-12-31.
    if not target.first_day:
        outside &= F.col(target.event_time) > F.lit(str(dates.FIRST)).cast("date")
    if not target.last_day:
        outside &= F.col(target.event_time) < F.lit(str(dates.LAST)).cast("date")
    rule = F.when(outside, F.lit(f"outside({target.event_time})"))
    return output.withColumn(hidden.FILTERED, F.coalesce(hidden.FILTERED, rule))


def changed_rows(job: Job, batch: DataFrame) -> DataFrame:
    """The changes to process: of a bronze table the inserts, of a keyed table all but pre-images and tombstones of scopes."""
    if job.resolved.landing is not None:
        return batch.where(f"{hidden.CHANGE_TYPE} = 'insert'")
    return scopes.without_tombstones(job, batch).where(f"{hidden.CHANGE_TYPE} <> 'update_preimage'")


def evaluate(
    job: Job, records: DataFrame, measure: Callable[[DataFrame], Measured], batch_id: int, decision: Decision
) -> tuple[DataFrame, Measured]:
    """The output, persisted and measured; once more without the rows on which the transform raises, if it does.

    Raises:
        SpecError: The transform raises on rows that an earlier attempt passed, or that cannot be refused.
        TransformRefusedError: It raises on a larger share of the rows than declared.
    """

    def attempt(parted: Parted) -> tuple[DataFrame, Measured]:
        output = parted.add_bypassing(transform_parsed(job, parted.rows, checked=True)).persist()
        job.persisted.append(output)
        return output, measure(output)

    decided = decision.quarantined
    parted = transform_errors.part_decided(job, records, batch_id) if decided else Parted(rows=records)
    try:
        return attempt(parted)
    except Exception as error:
        if (raised := value_error(error)) is None:
            raise
    if not job.work.split_is_final:
        raise SpecError(
            f"flow {job.flow.name!r}: today's transform {job.flow.transform!r} raises {raised} on "
            "rows that no quarantine entry keeps out of the table, so the table cannot be derived again.",
            Edit("correct the transform, then try again", "transform"),
        )
    if decided:
        raise SpecError(
            f"flow {job.flow.name!r}: batch {batch_id} was split by an earlier attempt, and today's "
            f"transform raises {raised} on rows that passed then.",
            Edit("undo the change for one run, then apply it again", "transform"),
        )
    parted = transform_errors.part(job, records, lambda rows: transform_parsed(job, rows), raised, batch_id)
    if parted.raised:
        what = f"{identity.label(job.app_id, batch_id)}: transform {job.flow.transform!r} raises {parted.describe()}"
        next_step = f"correct it, then tidegate quarantine replay {job.place.pipeline} {job.flow.name}"
        job.run.report.notes.append(
            f"{what}, which would go to quarantine"
            if job.run.request.dry_run
            else f"{what}, which are in quarantine: {next_step}"
        )
    try:
        return attempt(parted)
    except Exception as error:
        if (raised := value_error(error)) is None:
            raise
    raise transform_errors.refused(job, batch_id, {raised: None}, transform_errors.NOT_BY_ROW)


def measure(records: DataFrame, output: DataFrame, schema_changes: contracts.SchemaChanges | None) -> Measured:
    """Measure the transform's input and output with one query.

    Returns:
        For input and output each ``_rows``, the number of rows, and ``_ids``, sums over the hashes of their ids; both are
        equal if the transform is one to one. Also what `contracts.SchemaChanges` measures.
    """
    # As two halves, which do not overflow: a sum of decimals takes ten times as long.
    ids = F.xxhash64(hidden.ROW_ID)
    halves = {"_high": F.shiftright(ids, 32), "_low": ids.bitwiseAND(F.lit((1 << 32) - 1))}
    counted = [F.count("*").alias("_rows"), *[F.sum(half).alias(name) for name, half in halves.items()]]
    headers = [] if schema_changes is None else schema_changes.header_of(records)
    before = records.groupBy(*headers).agg(F.lit(0).alias("_side"), *counted)
    after = output.agg(
        F.lit(1).alias("_side"), *counted, *(schema_changes.measures() if schema_changes is not None else ())
    )
    rows = before.unionByName(after, allowMissingColumns=True).collect()
    sides = [[row for row in rows if row["_side"] == side] for side in (0, 1)]
    totals = [
        {
            "_rows": sum(row["_rows"] for row in side),
            "_ids": tuple(sum(row[name] or 0 for row in side) for name in halves),
        }
        for side in sides
    ]
    of_files = [row[bronze.HEADER] for row in sides[0]] if headers else []
    return {**totals[0], "_headers": of_files}, {**sides[1][0].asDict(), **totals[1]}


def check_ids(job: Job, batch_id: int, records: DataFrame, output: DataFrame) -> None:
    """Check that an output which is not one to one has every record, and no other.

    Raises:
        LedgerImbalanceError: The transform drops or adds records.
    """
    before, after = records.select(hidden.ROW_ID).distinct(), output.select(hidden.ROW_ID).distinct()
    dropped = before.join(after, hidden.ROW_ID, "left_anti").count()
    added = after.join(before, hidden.ROW_ID, "left_anti").count()
    if dropped or added:
        raise LedgerImbalanceError(
            job.flow.name,
            batch_id,
            {"lost": dropped, "invented": added},
            f"transform {job.flow.transform!r} dropped {count(dropped, 'row')} and added {added:,}; nothing was written.",
            Edit(
                "return every row: to filter one, set _filtered to the name of the rule; keep _row_id. explode drops rows with an empty "
                "array; explode_outer does not",
                "transform",
            ),
        )
