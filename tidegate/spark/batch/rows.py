"""Row flows: parse, transform and judge rows, and assign exactly one disposition to each source row."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from tidegate import hidden
from tidegate.reports.ledger_line import LedgerLine
from tidegate.spark.batch import (
    groups,
    histories,
    judgement,
    late_rows,
    order,
    position,
    quarantine,
    scopes,
    transform_output,
)
from tidegate.spark.batch.dispositions import DEDUPLICATED, FILTERED, LATE, NAMES, QUARANTINED, SUPERSEDED, WRITTEN
from tidegate.spark.batch.split import Decision, Settled, Split
from tidegate.spark.batch.transform_output import Measured
from tidegate.spark.intake import parse
from tidegate.spark.lake import tables, writes

if TYPE_CHECKING:
    from tidegate.spark.job import Job

BOOKKEEPING = (hidden.BATCH_ID, hidden.INGESTED_AT, hidden.ROW_ID)
"""Columns of a keyed table that are not compared: a row in which only they differ is unchanged."""


@dataclass(frozen=True, kw_only=True)
class JudgedRows:
    """Rows with their dispositions, counted."""

    prepared: LedgerLine
    """The prepared ledger line."""
    assigned: DataFrame
    """All output rows with ``_disposition``, and without one what `tidegate.spark.batch.scopes.with_dispositions` adds."""
    refused: DataFrame
    """Rows for the quarantine (`tidegate.spark.batch.quarantine.REFUSED`)."""
    late: DataFrame | None
    """Rows for the late table; None if there is nothing to write."""
    written: DataFrame
    """The rows to write, with the columns of the target."""
    expected_rows: int
    settled: Settled


def split_rows(job: Job, batch: DataFrame, batch_id: int, decision: Decision) -> Split | None:
    """Steps 1 and 2 of a batch that is upserted, or appended; see `judge_rows`."""
    judged = judge_rows(job, batch, batch_id, decision)
    if judged is None:
        return None
    target = job.flow.target
    keys = target.keys
    refused = judged.refused if judged.prepared.quarantined else None
    if target.child_keys:
        changes = (
            histories.merge_source(job, judged.written)
            if target.history
            else scopes.merge_source(job, judged.written, judged.assigned.where(f"{hidden.DISPOSITION} IS NULL"))
        )
        return Split(
            prepared=judged.prepared,
            refused=refused,
            write=lambda txn: writes.replace_groups(changes, job.target, keys, txn),
            expected_rows=changes.count(),
        )
    return Split(
        prepared=judged.prepared,
        refused=refused,
        late=judged.late,
        write=lambda txn: (
            writes.upsert(judged.written, job.target, keys, txn)
            if keys
            # Those who read the table batch by batch get a commit with one file as a whole.
            else writes.append(
                judged.written if job.flow.watermark is None else judged.written.coalesce(1), job.target, txn
            )
        ),
        expected_rows=judged.expected_rows,
        settled=judged.settled,
    )


def replace_rows(
    job: Job, batch: DataFrame, keys: DataFrame, batch_id: int, decision: Decision, base: DataFrame | None = None
) -> Split | None:
    """Steps 1 and 2 of a backfill, which replaces the table's rows of its keys; unchanged rows are not rewritten.

    Args:
        batch: The source rows of the keys.
        keys: The keys, or scopes, one row each.
        base: The rows of the snapshot with which the table begins; None without one.
    """
    judged = judge_rows(job, batch, batch_id, decision)
    if judged is None:
        return None
    if job.flow.target.child_keys:
        # A record may make rows of other scopes too, of which newer records were not read.
        scope = list(job.flow.target.scope)
        written = judged.written.join(keys.select(*scope).distinct(), scope, "left_semi")
        if job.flow.target.history:
            written = histories.with_versions(job, written)
        changes = scopes.merge_source(job, written, scopes.stored_rows(job, keys, written))
    else:
        changes = groups.merge_source(job, position.with_base(job, judged.written, base, keys), keys)
    counts = {row[hidden.OP]: row["count"] for row in changes.groupBy(hidden.OP).count().collect()}
    upserted, deleted = counts.get("upsert", 0), counts.get("delete", 0)
    line = dataclasses.replace(
        judged.prepared, kind="backfill", groups=upserted + deleted, upserted=upserted, deleted=deleted
    )
    names = job.flow.target.keys
    return Split(
        prepared=line,
        refused=judged.refused if line.quarantined or tables.exists(job.place.quarantine) else None,
        passed=judged.assigned.where(f"{hidden.DISPOSITION} <> {QUARANTINED}").select(hidden.ROW_ID).distinct(),
        changes=changes,
        write=lambda txn: writes.replace_groups(changes, job.target, names, txn, ignored=BOOKKEEPING),
        expected_rows=upserted + deleted if tables.exists(job.target) else upserted,
        settled="groups",
    )


def judge_rows(
    job: Job, batch: DataFrame, batch_id: int, decision: Decision, *, replaces: bool = False
) -> JudgedRows | None:
    """Transform and judge rows and give every source row exactly one disposition; None for an empty batch.

    Args:
        batch: Rows of the source's change feed.
        replaces: Whether they replace all rows of the table, so that no row of it is newer.

    Raises:
        SpecError: The transform drops a column that it must return, or does not return the keys.
        LedgerImbalanceError: It drops or adds rows.
        TransformRefusedError: It raises on a larger share of the rows than declared.
        GateRefusedError: A critical expectation is below its ``mostly``.
        BatchHeldError: A statistic breaks its rule.
        ContractRefusedError: The records have schema changes that a frozen contract refuses.
    """
    feed = transform_output.changed_rows(job, batch)
    schema_changes = transform_output.schema_changes_of(job) if job.resolved.landing is not None else None
    records = (
        schema_changes.parse(feed) if schema_changes is not None else parse.keyed_feed(feed, job.resolved.source_keys)
    )

    def measure(output: DataFrame) -> Measured:
        return transform_output.measure(records if schema_changes is None else feed, output, schema_changes)

    output, (before, after) = transform_output.evaluate(job, records, measure, batch_id, decision)
    if before["_rows"] == 0:
        return None
    one_to_one = (before["_rows"], before["_ids"]) == (after["_rows"], after["_ids"])
    if not one_to_one:
        transform_output.check_ids(job, batch_id, records, output)
    if schema_changes is not None:
        output = schema_changes.apply_contract(output, before, after, batch_id, decided=decision.quarantined)
    flagged, verdict = judgement.flag(job, output, batch_id, decision)
    if not one_to_one:
        flagged = judgement.refuse_whole_rows(flagged)
    on_time = late_rows.judge(job, flagged, batch_id, decision, one_to_one=one_to_one)
    flagged = flagged if on_time is None else on_time.rows
    # If the transform is one to one, the MERGE counts the rows that an equal or newer row of the table supersedes.
    compares = "never" if replaces else job.work.compares
    target = job.flow.target
    settled = compares == "in_merge" and one_to_one and bool(target.keys) and not target.child_keys
    against_table = compares != "never" and not settled
    assigned = _with_dispositions(job, flagged, against_table=against_table).persist()
    job.persisted.append(assigned)
    prepared, expected_rows = _count(job, assigned, batch_id, before["_rows"], one_to_one)
    if on_time is not None:
        prepared = dataclasses.replace(prepared, watermark=on_time.watermark)
    if verdict is not None:
        if job.gate is not None and one_to_one and verdict.outcome != "dropped":
            job.gate.check_split(prepared.rules)
        judgement.record(job, verdict)
    if schema_changes is not None:
        schema_changes.record(batch_id, prepared.rules)
    return JudgedRows(
        prepared=prepared,
        assigned=assigned,
        refused=quarantine.from_rows(assigned.where(f"{hidden.DISPOSITION} = {QUARANTINED}"), one_to_one=one_to_one),
        late=late_rows.of_batch(job, assigned, _columns(job, assigned), batch_id)
        if prepared.late or decision.expects_late
        else None,
        written=_target_rows(job, assigned, batch_id),
        expected_rows=expected_rows,
        settled="rows" if settled else "",
    )


def _with_dispositions(job: Job, flagged: DataFrame, *, against_table: bool) -> DataFrame:
    """Add ``_order`` and ``_disposition`` (an index into `tidegate.spark.batch.dispositions.NAMES`)."""
    target = job.flow.target
    is_candidate = (F.size(hidden.ERRORS) == 0) & F.col(hidden.FILTERED).isNull()
    disposition = F.when(F.size(hidden.ERRORS) > 0, F.lit(QUARANTINED)).when(
        F.col(hidden.FILTERED).isNotNull(), F.lit(FILTERED)
    )
    if target.write_mode == "append":
        disposition = disposition.when(late_rows.is_late(flagged), F.lit(LATE)).otherwise(F.lit(WRITTEN))
        return _without_records(flagged).withColumn(hidden.DISPOSITION, disposition)
    ordered = _without_records(flagged.withColumn(hidden.ORDER, order.of_rows(job, flagged)))
    if target.replace_by:
        return scopes.with_dispositions(job, ordered, against_table=against_table)
    ordered = ordered.withColumn("_candidate", is_candidate)
    latest_first = Window.partitionBy("_candidate", *target.keys).orderBy(F.col(hidden.ORDER).desc())
    ranked = ordered.withColumn(hidden.RANK, F.row_number().over(latest_first))
    older = position.is_covered(job, ranked)
    if against_table and tables.exists(job.target):
        existing = tables.read(ranked.sparkSession, job.target).select(
            *target.keys, F.col(hidden.ORDER).alias(hidden.TABLE_ORDER)
        )
        ranked = ranked.join(existing, list(target.keys), "left")
        older |= F.coalesce(F.col(hidden.TABLE_ORDER) >= F.col(hidden.ORDER), F.lit(False))
    disposition = disposition.when(F.col(hidden.RANK) > 1, F.lit(DEDUPLICATED)).when(older, F.lit(SUPERSEDED))
    disposition = disposition.otherwise(F.lit(WRITTEN))
    return ranked.withColumn(hidden.DISPOSITION, disposition).drop(hidden.RANK, "_candidate", hidden.TABLE_ORDER)


def _without_records(flagged: DataFrame) -> DataFrame:
    """Keep in ``_origin`` what is still read; ``raw`` and ``source`` (as JSON) only of refused rows, for the quarantine.

    The rows are sorted, and persisted once more: the records would be most of their bytes.
    """
    values = {"raw": F.col(f"{hidden.ORIGIN}.raw"), "source": F.to_json(f"{hidden.ORIGIN}.source")}
    of_refused = [F.when(F.size(hidden.ERRORS) > 0, value).alias(name) for name, value in values.items()]
    return flagged.withColumn(hidden.ORIGIN, F.struct(f"{hidden.ORIGIN}.ingested_at", *of_refused)).drop(hidden.BROKEN)


def _count(job: Job, assigned: DataFrame, batch_id: int, read: int, one_to_one: bool) -> tuple[LedgerLine, int]:
    source_rows = assigned.where(f"{hidden.DISPOSITION} IS NOT NULL").select(
        hidden.ROW_ID, hidden.DISPOSITION, hidden.FILTERED, hidden.ERRORS
    )
    expected_rows = None
    if not one_to_one:
        # Where whole scopes are replaced, the rows of the MERGE are counted: it also deletes.
        if not job.flow.target.replace_by:
            expected_rows = source_rows.where(f"{hidden.DISPOSITION} = {WRITTEN}").count()
        first = source_rows.groupBy(hidden.ROW_ID).agg(
            F.min(F.struct(hidden.DISPOSITION, hidden.FILTERED, hidden.ERRORS)).alias("f")
        )
        source_rows = first.select("f.*")
        read = source_rows.count()
    counts = dict.fromkeys(NAMES, 0)
    filtered: dict[str, int] = {}
    rules: dict[str, int] = {}
    for row in source_rows.groupBy(hidden.DISPOSITION, hidden.FILTERED, hidden.ERRORS).count().collect():
        number, disposition = row["count"], NAMES[row[hidden.DISPOSITION]]
        counts[disposition] += number
        if disposition == "filtered":
            filtered[row[hidden.FILTERED]] = filtered.get(row[hidden.FILTERED], 0) + number
        if disposition == "quarantined":
            for rule in row[hidden.ERRORS]:
                rules[rule] = rules.get(rule, 0) + number
    record = LedgerLine(
        flow=job.flow.name,
        batch_id=batch_id,
        app_id=job.app_id,
        kind="upsert" if job.flow.target.keys else "append",
        read=read,
        written=counts["written"],
        quarantined=counts["quarantined"],
        late=counts["late"],
        filtered=filtered,
        deduplicated=counts["deduplicated"],
        superseded=counts["superseded"],
        rules=rules,
    )
    return record, counts["written"] if expected_rows is None else expected_rows


def _target_rows(job: Job, assigned: DataFrame, batch_id: int) -> DataFrame:
    """The rows to write, with the columns of the target."""
    return assigned.where(f"{hidden.DISPOSITION} = {WRITTEN}").select(
        *_columns(job, assigned), F.lit(batch_id).cast("bigint").alias(hidden.BATCH_ID)
    )


def _columns(job: Job, assigned: DataFrame) -> list[str | Column]:
    """The columns of the target but for the number of the batch."""
    columns = [column for column in assigned.columns if not column.startswith("_") or column == hidden.RESCUED]
    order = [hidden.ORDER, hidden.DELETED] if job.flow.target.keys else []
    return [*columns, *order, hidden.ROW_ID, F.col(f"{hidden.ORIGIN}.ingested_at").alias(hidden.INGESTED_AT)]
