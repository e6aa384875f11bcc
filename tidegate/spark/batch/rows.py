"""Row flows: parse, transform and judge rows, and assign exactly one disposition to each source row."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tidegate import dates, identity, report
from tidegate.checkpoints import refusal
from tidegate.errors import GateRefusedError, LedgerImbalanceError, SpecError
from tidegate.formatting import count
from tidegate.spark.batch import groups, histories, late_rows, quarantine, scopes, statistics, transform_errors
from tidegate.spark.batch.dispositions import DEDUPLICATED, FILTERED, LATE, NAMES, QUARANTINED, SUPERSEDED, WRITTEN
from tidegate.spark.batch.split import Decision, Settled, Split
from tidegate.spark.batch.transform_errors import Parted
from tidegate.spark.driver.failures import value_error
from tidegate.spark.intake import contracts, parse
from tidegate.spark.lake import tables, writes
from tidegate.window import Window

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from tidegate.spark.context import FlowContext

BOOKKEEPING = ("_batch_id", "_ingested_at", "_row_id")
"""Columns of a keyed table that are not compared: a row in which only they differ is unchanged."""

_ALLOWED = ("_row_id", "_origin", "_filtered", "_deleted")


@dataclass(frozen=True, kw_only=True)
class JudgedRows:
    """Rows with their dispositions, counted."""

    prepared: report.BatchRecord
    """The prepared ledger line."""
    assigned: DataFrame
    """All output rows with ``_disposition``, and without one what `tidegate.spark.batch.scopes.with_dispositions` adds."""
    refused: DataFrame
    """Rows for the quarantine (`tidegate.spark.batch.quarantine.REFUSED`)."""
    late: DataFrame | None
    """Rows for the late table; None if there are none."""
    written: DataFrame
    """The rows to write, with the columns of the target."""
    expected_rows: int
    settled: Settled


def split_rows(context: FlowContext, batch: DataFrame, batch_id: int, decision: Decision) -> Split | None:
    """Steps 1 and 2 of a batch that is upserted, or appended; see `judge_rows`."""
    judged = judge_rows(context, batch, batch_id, decision)
    if judged is None:
        return None
    target = context.flow.target
    keys = target.keys
    refused = judged.refused if judged.prepared.quarantined else None
    if target.child_keys:
        changes = (
            histories.merge_source(context, judged.written)
            if target.history
            else scopes.merge_source(context, judged.written, judged.assigned.where("_disposition IS NULL"))
        )
        return Split(
            prepared=judged.prepared,
            refused=refused,
            write=lambda txn: writes.replace_groups(changes, context.target, keys, txn),
            expected_rows=changes.count(),
        )
    return Split(
        prepared=judged.prepared,
        refused=refused,
        late=judged.late,
        write=lambda txn: (
            writes.upsert(judged.written, context.target, keys, txn)
            if keys
            # Those who read the table batch by batch get a commit with one file as a whole.
            else writes.append(
                judged.written if context.flow.watermark is None else judged.written.coalesce(1), context.target, txn
            )
        ),
        expected_rows=judged.expected_rows,
        settled=judged.settled,
    )


def replace_rows(
    context: FlowContext, batch: DataFrame, keys: DataFrame, batch_id: int, decision: Decision
) -> Split | None:
    """Steps 1 and 2 of a backfill, which replaces the table's rows of its keys; unchanged rows are not rewritten.

    Args:
        batch: The source rows of the keys.
        keys: The keys, or scopes, one row each.
    """
    judged = judge_rows(context, batch, batch_id, decision)
    if judged is None:
        return None
    if context.flow.target.child_keys:
        # A record may make rows of other scopes too, of which newer records were not read.
        scope = list(context.flow.target.scope)
        written = judged.written.join(keys.select(*scope).distinct(), scope, "left_semi")
        if context.flow.target.history:
            written = histories.with_versions(context, written)
        changes = scopes.merge_source(context, written, scopes.stored_rows(context, keys, written))
    else:
        changes = groups.merge_source(context, judged.written, keys)
    counts = {row["_op"]: row["count"] for row in changes.groupBy("_op").count().collect()}
    upserted, deleted = counts.get("upsert", 0), counts.get("delete", 0)
    line = dataclasses.replace(
        judged.prepared, kind="backfill", groups=upserted + deleted, upserted=upserted, deleted=deleted
    )
    names = context.flow.target.keys
    return Split(
        prepared=line,
        refused=judged.refused if line.quarantined or tables.exists(context.quarantine) else None,
        passed=judged.assigned.where(f"_disposition <> {QUARANTINED}").select("_row_id").distinct(),
        changes=changes,
        write=lambda txn: writes.replace_groups(changes, context.target, names, txn, ignored=BOOKKEEPING),
        expected_rows=upserted + deleted if tables.exists(context.target) else upserted,
        settled="groups",
    )


def judge_rows(
    context: FlowContext, batch: DataFrame, batch_id: int, decision: Decision, *, replaces: bool = False
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
    feed = _changed_rows(context, batch)
    schema_changes = contracts.SchemaChanges(context) if context.resolved.landing is not None else None
    records = (
        schema_changes.parse(feed)
        if schema_changes is not None
        else parse.keyed_feed(feed, context.resolved.source_keys)
    )

    def evaluate(parted: Parted) -> tuple[DataFrame, dict[str, Any], dict[str, Any]]:
        output = parted.add_bypassing(transform_parsed(context, parted.rows)).persist()
        context.persisted.append(output)
        return output, *_measure(records if schema_changes is None else feed, output, schema_changes)

    output, before, after = _evaluated(context, records, evaluate, batch_id, decision)
    if before["_rows"] == 0:
        return None
    one_to_one = (before["_rows"], before["_ids"]) == (after["_rows"], after["_ids"])
    if not one_to_one:
        _check_ids(context, batch_id, records, output)
    if schema_changes is not None:
        output = schema_changes.apply_contract(output, before, after, batch_id, decided=decision.quarantined)
    flagged, verdict = _flagged(context, output, batch_id, decision)
    if not one_to_one:
        flagged = _refuse_whole_rows(flagged)
    on_time = late_rows.judge(context, flagged, batch_id, decision, one_to_one=one_to_one)
    flagged = flagged if on_time is None else on_time.rows
    # If the transform is one to one, the MERGE counts the rows that an equal or newer row of the table supersedes.
    compares = "never" if replaces else context.work.compares
    target = context.flow.target
    settled = compares == "in_merge" and one_to_one and bool(target.keys) and not target.child_keys
    against_table = compares != "never" and not settled
    assigned = _with_dispositions(context, flagged, against_table=against_table).persist()
    context.persisted.append(assigned)
    prepared, expected_rows = _count(context, assigned, batch_id, before["_rows"], one_to_one)
    if on_time is not None:
        prepared = dataclasses.replace(prepared, watermark=on_time.watermark)
    if verdict is not None:
        if context.gate is not None and one_to_one and verdict.outcome != "dropped":
            context.gate.check_split(prepared.rules)
        _record_verdict(context, verdict)
    if schema_changes is not None:
        schema_changes.record(batch_id)
    return JudgedRows(
        prepared=prepared,
        assigned=assigned,
        refused=quarantine.from_rows(assigned.where(f"_disposition = {QUARANTINED}"), one_to_one=one_to_one),
        late=late_rows.of_batch(context, assigned, _columns(context, assigned), batch_id) if prepared.late else None,
        written=_target_rows(context, assigned, batch_id),
        expected_rows=expected_rows,
        settled="rows" if settled else "",
    )


def _evaluated(
    context: FlowContext,
    records: DataFrame,
    evaluate: Callable[[Parted], tuple[DataFrame, dict[str, Any], dict[str, Any]]],
    batch_id: int,
    decision: Decision,
) -> tuple[DataFrame, dict[str, Any], dict[str, Any]]:
    """Step 1, once more without the rows on which the transform raises, if it does."""
    decided = decision.quarantined
    parted = transform_errors.part_decided(context, records, batch_id) if decided else Parted(rows=records)
    try:
        return evaluate(parted)
    except Exception as error:
        if (raised := value_error(error)) is None:
            raise
    if not context.work.split_is_final:
        raise SpecError(
            f"flow {context.flow.name!r}: today's transform {context.flow.transform!r} raises {raised} on rows that no quarantine entry "
            "keeps out of the table, so the table cannot be derived again. Correct the transform, then try again."
        )
    if decided:
        raise SpecError(
            f"flow {context.flow.name!r}: batch {batch_id} was split by an earlier attempt, and today's transform raises {raised} on "
            "rows that passed then. Undo the change for one run, then apply it again."
        )
    parted = transform_errors.part(context, records, lambda rows: transform_parsed(context, rows), raised, batch_id)
    if parted.raised:
        what = f"{identity.label(context.app_id, batch_id)}: transform {context.flow.transform!r} raises {parted.describe()}"
        next_step = f"correct it, then tidegate quarantine replay {context.pipeline.name} {context.flow.name}"
        context.report.notes.append(
            f"{what}, which would go to quarantine"
            if context.request.dry_run
            else f"{what}, which are in quarantine: {next_step}"
        )
    try:
        return evaluate(parted)
    except Exception as error:
        if (raised := value_error(error)) is None:
            raise
    raise transform_errors.refused(context, batch_id, {raised: None}, transform_errors.NOT_BY_ROW)


def transform_records(context: FlowContext, batch: DataFrame) -> DataFrame:
    """The output of today's transform for rows of the change feed, with ``_filtered``, ``_deleted`` and ``_broken``.

    Raises:
        SpecError: The transform drops a column that it must return, or does not return the keys.
    """
    return transform_parsed(context, parse_records(context, batch))


def parse_records(context: FlowContext, batch: DataFrame) -> DataFrame:
    """Rows of the change feed as typed rows with ``_row_id`` and ``_origin``, the input of the transform."""
    feed = _changed_rows(context, batch)
    if context.resolved.landing is not None:
        return contracts.SchemaChanges(context).parse(feed)
    return parse.keyed_feed(feed, context.resolved.source_keys)


def _changed_rows(context: FlowContext, batch: DataFrame) -> DataFrame:
    """The changes to process: of a bronze table the inserts, of a keyed table all but pre-images and tombstones of scopes."""
    if context.resolved.landing is not None:
        return batch.where("_change_type = 'insert'")
    return scopes.without_tombstones(context, batch).where("_change_type <> 'update_preimage'")


def _measure(
    records: DataFrame, output: DataFrame, schema_changes: contracts.SchemaChanges | None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Measure the transform's input and output with one query.

    Returns:
        For input and output each ``_rows``, the number of rows, and ``_ids``, sums over the hashes of their ids; both are
        equal if the transform is one to one. Also what `contracts.SchemaChanges` measures.
    """
    from pyspark.sql import functions as F

    # As two halves, which do not overflow: a sum of decimals takes ten times as long.
    ids = F.xxhash64("_row_id")
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
    of_files = [row[parse.HEADER] for row in sides[0]] if headers else []
    return {**totals[0], "_headers": of_files}, {**sides[1][0].asDict(), **totals[1]}


def transform_parsed(context: FlowContext, records: DataFrame) -> DataFrame:
    """The transform's output with ``_filtered``, ``_deleted`` and ``_broken`` (built-in rules) on every row.

    Args:
        records: As `parse_records` returns them.
    """
    from pyspark.sql import functions as F

    name, target = context.flow.transform, context.flow.target
    output = context.transform(records) if context.transform is not None else records
    missing = [
        column for column in ("_row_id", "_origin", *target.keys, *target.sequence_by) if column not in output.columns
    ]
    if missing:
        raise SpecError(
            f"flow {context.flow.name!r}: transform {name!r} does not return {', '.join(missing)}; "
            "it must return _row_id, _origin, the target's keys and its sequence columns"
        )
    reserved = [
        column
        for column in output.columns
        if column.startswith("_") and column not in (*_ALLOWED, "_rescued", *parse.OF_FILES, *parse.OF_MESSAGES)
    ]
    if reserved:
        raise SpecError(
            f"flow {context.flow.name!r}: transform {name!r} returns {', '.join(reserved)}; names that begin with '_' are reserved"
        )
    landing = context.resolved.landing
    are_changes = landing is not None and landing.changes is not None
    if "_filtered" not in output.columns:
        output = output.withColumn("_filtered", F.lit(None).cast("string"))
    if are_changes:
        output = output.withColumn("_filtered", F.coalesce("_origin.filters", "_filtered"))
    if "_deleted" not in output.columns:
        # A transform that selects columns must not turn the delete of a change record into a row.
        output = output.withColumn("_deleted", F.col("_origin.deletes") if are_changes else F.lit(False))
    output = _limited_by_event_time(context, output)
    nulls = [F.when(F.col(key).isNull(), F.lit(f"null_key({key})")) for key in target.scope]
    # A delete of a whole scope has only the scope's key.
    of_row = ~F.coalesce("_deleted", F.lit(False)) | scopes.has_child_key(target)
    nulls += [F.when(F.col(key).isNull() & of_row, F.lit(f"null_key({key})")) for key in target.child_keys]
    nulls += [F.when(F.col(column).isNull(), F.lit(f"null_sequence({column})")) for column in target.sequence_by]
    nulls += late_rows.broken_rules(context, output)
    missing_keys = F.array_compact(F.array(*nulls)) if nulls else F.array().cast("array<string>")
    broken = (
        F.when(F.size("_origin.broken") > 0, F.col("_origin.broken"))
        .when(F.col("_filtered").isNull(), missing_keys)
        .otherwise(F.array().cast("array<string>"))
    )
    return output.withColumns({"_deleted": F.coalesce("_deleted", F.lit(False)), "_broken": broken})


def _limited_by_event_time(context: FlowContext, output: DataFrame) -> DataFrame:
    """Rows of days that the table does not declare are filtered; deletes are not, whatever their event time."""
    from pyspark.sql import functions as F

    target = context.flow.target
    if target.event_time is None or not (target.first_day or target.last_day):
        return output
    first, last = target.first_day or str(dates.FIRST), target.last_day or str(dates.LAST)
    within = tables.within(
        output, target.event_time, Window.of_dates(first, last, context.pipeline.timezone), target.name
    )
    outside = ~within & ~F.coalesce("_deleted", F.lit(False))
    # An end that is not declared is open, also for years that no declaration can name, as that of 9999-12-31.
    if not target.first_day:
        outside &= F.col(target.event_time) > F.lit(str(dates.FIRST)).cast("date")
    if not target.last_day:
        outside &= F.col(target.event_time) < F.lit(str(dates.LAST)).cast("date")
    rule = F.when(outside, F.lit(f"outside({target.event_time})"))
    return output.withColumn("_filtered", F.coalesce("_filtered", rule))


def _check_ids(context: FlowContext, batch_id: int, records: DataFrame, output: DataFrame) -> None:
    before, after = records.select("_row_id").distinct(), output.select("_row_id").distinct()
    dropped = before.join(after, "_row_id", "left_anti").count()
    added = after.join(before, "_row_id", "left_anti").count()
    if dropped or added:
        raise LedgerImbalanceError(
            context.flow.name,
            batch_id,
            {"lost": dropped, "invented": added},
            f"transform {context.flow.transform!r} dropped {count(dropped, 'row')} and added {added:,}; nothing was written. "
            "A transform must return every row: to filter one, set _filtered to the name of the rule. It must keep _row_id. "
            "explode drops rows with an empty array; explode_outer does not.",
        )


def _flagged(
    context: FlowContext, output: DataFrame, batch_id: int, decision: Decision
) -> tuple[DataFrame, report.Verdict | None]:
    """Add ``_errors array<string>``, the rules that refuse a row; a split that an earlier attempt decided is kept."""
    from pyspark.sql import functions as F

    if decision.quarantined:
        refused = F.broadcast(
            context.work.refused_ids(context, output.sparkSession, batch_id).withColumnRenamed("rules", "_errors")
        )
        decided = output.join(refused, "_row_id", "left").withColumn(
            "_errors", F.coalesce("_errors", F.array().cast("array<string>"))
        )
        if not context.work.split_is_final:
            return decided.withColumn(
                "_errors", F.when(F.size("_errors") > 0, F.col("_errors")).otherwise(F.col("_broken"))
            ), None
        changed = decided.where((F.size("_errors") == 0) & (F.size("_broken") > 0)).limit(1).count()
        if changed:
            raise SpecError(
                f"flow {context.flow.name!r}: batch {batch_id} was split by an earlier attempt, and rows that passed then break a rule "
                "with today's transform or schema. Undo the change for one run, then apply it again."
            )
        return decided, None
    taken_out = context.work.decision(context, batch_id, "take") is not None
    # Not judged: deletes, which may have only their key, and rows that are broken or filtered.
    judged = (F.size("_broken") == 0) & F.col("_filtered").isNull() & ~F.col("_deleted")
    measured = statistics.measure(context, output.where(judged), batch_id)
    dropping = statistics.dropping(measured)
    if context.gate is None or dropping:
        of_batch = F.array(*map(F.lit, (refusal.RULE,) if taken_out else dropping)).cast("array<string>")
        verdict = statistics.judged(context, None, measured, batch_id)
        return output.withColumn("_errors", F.array_union(of_batch, "_broken")), verdict
    flagged = context.gate.flag(output, judged)
    errors = F.when(F.size("_broken") > 0, F.col("_broken")).otherwise(F.col("_errors"))
    decided = flagged.withColumn("_errors", errors).drop("_notes")
    if context.work.of_entries:
        # Replayed entries are no sample of a batch: `mostly` and rules about the table do not apply to them.
        return decided, None
    verdict = context.gate.judge(
        flagged.where(judged), flow=context.flow.name, app_id=context.app_id, batch_id=batch_id
    )
    if taken_out:
        return decided.withColumn("_errors", F.array_union(F.array(F.lit(refusal.RULE)), "_errors")), verdict
    if verdict.outcome == "refused":
        _record_verdict(context, statistics.judged(context, verdict, measured, batch_id) or verdict)
        raise GateRefusedError(verdict)
    return decided, statistics.judged(context, verdict, measured, batch_id)


def _record_verdict(context: FlowContext, verdict: report.Verdict) -> None:
    from tidegate.spark.batch import ledger

    ledger.record_verdict(context, verdict)
    context.record_verdict(verdict)


def _refuse_whole_rows(flagged: DataFrame) -> DataFrame:
    """Refuse all output rows of a source row if one of them is refused."""
    from pyspark.sql import functions as F

    reasons = (
        flagged.where(F.size("_errors") > 0)
        .groupBy("_row_id")
        .agg(F.array_distinct(F.flatten(F.collect_list("_errors"))).alias("_all"))
    )
    joined = flagged.join(reasons, "_row_id", "left")
    return joined.withColumn("_errors", F.coalesce("_all", "_errors")).drop("_all")


def _with_dispositions(context: FlowContext, flagged: DataFrame, *, against_table: bool) -> DataFrame:
    """Add ``_order`` and ``_disposition`` (an index into `tidegate.spark.batch.dispositions.NAMES`)."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    target = context.flow.target
    is_candidate = (F.size("_errors") == 0) & F.col("_filtered").isNull()
    disposition = F.when(F.size("_errors") > 0, F.lit(QUARANTINED)).when(
        F.col("_filtered").isNotNull(), F.lit(FILTERED)
    )
    if target.write_mode == "append":
        disposition = disposition.when(late_rows.is_late(flagged), F.lit(LATE)).otherwise(F.lit(WRITTEN))
        return _without_records(flagged).withColumn("_disposition", disposition)
    order = F.struct(*[F.col(column) for column in target.sequence_by], F.col("_origin.at.*"))
    ordered = _without_records(flagged.withColumn("_order", order))
    if target.replace_by:
        return scopes.with_dispositions(context, ordered, against_table=against_table)
    ordered = ordered.withColumn("_candidate", is_candidate)
    latest_first = Window.partitionBy("_candidate", *target.keys).orderBy(F.col("_order").desc())
    ranked = ordered.withColumn("_rank", F.row_number().over(latest_first))
    older: Column = F.lit(False)
    if against_table and tables.exists(context.target):
        existing = tables.read(ranked.sparkSession, context.target).select(
            *target.keys, F.col("_order").alias("_table_order")
        )
        ranked = ranked.join(existing, list(target.keys), "left")
        older = F.coalesce(F.col("_table_order") >= F.col("_order"), F.lit(False))
    disposition = disposition.when(F.col("_rank") > 1, F.lit(DEDUPLICATED)).when(older, F.lit(SUPERSEDED))
    disposition = disposition.otherwise(F.lit(WRITTEN))
    return ranked.withColumn("_disposition", disposition).drop("_rank", "_candidate", "_table_order")


def _without_records(flagged: DataFrame) -> DataFrame:
    """Keep in ``_origin`` what is still read; ``raw`` and ``source`` (as JSON) only of refused rows, for the quarantine.

    The rows are sorted, and persisted once more: the records would be most of their bytes.
    """
    from pyspark.sql import functions as F

    values = {"raw": F.col("_origin.raw"), "source": F.to_json("_origin.source")}
    of_refused = [F.when(F.size("_errors") > 0, value).alias(name) for name, value in values.items()]
    return flagged.withColumn("_origin", F.struct("_origin.ingested_at", *of_refused)).drop("_broken")


def _count(
    context: FlowContext, assigned: DataFrame, batch_id: int, read: int, one_to_one: bool
) -> tuple[report.BatchRecord, int]:
    from pyspark.sql import functions as F

    source_rows = assigned.where("_disposition IS NOT NULL").select("_row_id", "_disposition", "_filtered", "_errors")
    expected_rows = None
    if not one_to_one:
        # Where whole scopes are replaced, the rows of the MERGE are counted: it also deletes.
        if not context.flow.target.replace_by:
            expected_rows = source_rows.where(f"_disposition = {WRITTEN}").count()
        first = source_rows.groupBy("_row_id").agg(F.min(F.struct("_disposition", "_filtered", "_errors")).alias("f"))
        source_rows = first.select("f.*")
        read = source_rows.count()
    counts = dict.fromkeys(NAMES, 0)
    filtered: dict[str, int] = {}
    rules: dict[str, int] = {}
    for row in source_rows.groupBy("_disposition", "_filtered", "_errors").count().collect():
        number, disposition = row["count"], NAMES[row["_disposition"]]
        counts[disposition] += number
        if disposition == "filtered":
            filtered[row["_filtered"]] = filtered.get(row["_filtered"], 0) + number
        if disposition == "quarantined":
            for rule in row["_errors"]:
                rules[rule] = rules.get(rule, 0) + number
    record = report.BatchRecord(
        flow=context.flow.name,
        batch_id=batch_id,
        app_id=context.app_id,
        kind="upsert" if context.flow.target.keys else "append",
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


def _target_rows(context: FlowContext, assigned: DataFrame, batch_id: int) -> DataFrame:
    """The rows to write, with the columns of the target."""
    from pyspark.sql import functions as F

    return assigned.where(f"_disposition = {WRITTEN}").select(
        *_columns(context, assigned), F.lit(batch_id).cast("bigint").alias("_batch_id")
    )


def _columns(context: FlowContext, assigned: DataFrame) -> list[str | Column]:
    """The columns of the target but for the number of the batch."""
    from pyspark.sql import functions as F

    columns = [column for column in assigned.columns if not column.startswith("_") or column == "_rescued"]
    order = ["_order", "_deleted"] if context.flow.target.keys else []
    return [*columns, *order, "_row_id", F.col("_origin.ingested_at").alias("_ingested_at")]
