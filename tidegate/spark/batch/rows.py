"""Row flows: parse, transform, judge, and give every source row exactly one fate."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from tidegate import report
from tidegate.checkpoints import refusal
from tidegate.errors import GateRefusedError, LedgerImbalanceError, SpecError
from tidegate.spark.batch import groups, quarantine
from tidegate.spark.batch.split import Decision, Split
from tidegate.spark.intake import contracts, parse
from tidegate.spark.lake import sinks, tables

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Row

    from tidegate.spark.context import FlowContext

FATES = ("quarantined", "written", "superseded", "deduplicated", "filtered")
"""In order of precedence: a source row of several outputs takes the first that one of them has."""

BOOKKEEPING = ("_batch_id", "_ingested_at", "_row_id")
"""Columns of a keyed table in which a difference alone is no change of the row."""

_OWN = ("_row_id", "_origin", "_filtered", "_deleted")


def split_rows(
    context: FlowContext, batch: DataFrame, batch_id: int, decision: Decision, *, anew: DataFrame | None = None
) -> Split | None:
    """Steps 1 and 2 of a micro-batch over rows.

    Args:
        context: The flow.
        batch: Rows of its source's change feed.
        batch_id: The batch.
        decision: What an earlier attempt wrote.
        anew: The keys whose rows are derived anew: what stands in the table under them gives way, whatever its order.

    Raises:
        SpecError: The transform drops what it must carry, or does not make the keys.
        LedgerImbalanceError: It loses or invents rows.
        GateRefusedError: A critical expectation is below its ``mostly``.
        ContractRefusedError: The records drifted from a frozen contract.
    """
    feed = _arriving(context, batch)
    drift = contracts.Drift(context) if context.landing is not None else None
    records = drift.parse(feed) if drift is not None else parse.keyed_feed(feed, context.source_keys)
    output = _transformed(context, records).persist()
    context.persisted.append(output)
    before, after = _census(records if drift is None else feed, output, drift)
    if before["_rows"] == 0:
        return None
    one_to_one = (before["_rows"], before["_ids"]) == (after["_rows"], after["_ids"])
    if not one_to_one:
        _check_ids(context, batch_id, records, output)
    if drift is not None:
        output = drift.settle(output, before, after, batch_id, decided=decision.quarantined)
    flagged, verdict = _flagged(context, output, batch_id, decision)
    if not one_to_one:
        flagged = _refuse_whole_rows(flagged)
    # Where a row makes one row, the MERGE counts those that an equal or newer row of the table supersedes.
    settled = anew is None and one_to_one and context.replay is None and bool(context.flow.target.keys)
    fated = _with_fates(context, flagged, against_table=anew is None and not settled).persist()
    context.persisted.append(fated)
    planned, arriving = _count(context, fated, batch_id, before["_rows"], one_to_one)
    if verdict is not None:
        if context.gate is not None and one_to_one:
            context.gate.check_split(planned.rules)
        _tell(context, verdict)
    if drift is not None:
        drift.record(batch_id)
    winners = _as_stored(context, fated, batch_id)
    refused = quarantine.from_rows(fated.where("_fate = 0"), one_to_one=one_to_one)
    keys = context.flow.target.keys
    if anew is not None:
        passed = fated.where("_fate <> 0").select("_row_id").distinct()
        return _as_replacement(context, planned, winners, anew, refused=refused, passed=passed)
    return Split(
        planned=planned,
        refused=refused if planned.quarantined else None,
        write=lambda txn: (
            sinks.upsert(winners, context.target, keys, txn) if keys else sinks.append(winners, context.target, txn)
        ),
        arriving=arriving,
        settled="rows" if settled else "",
    )


def _as_replacement(
    context: FlowContext,
    planned: report.BatchRecord,
    winners: DataFrame,
    anew: DataFrame,
    *,
    refused: DataFrame,
    passed: DataFrame,
) -> Split:
    """The rows of some keys replace what the table holds under these keys; a row that did not change stays untouched."""
    keys = context.flow.target.keys
    due = groups.replacement(context, winners, anew)
    counts = {row["_op"]: row["count"] for row in due.groupBy("_op").count().collect()}
    upserted, deleted = counts.get("upsert", 0), counts.get("delete", 0)
    line = dataclasses.replace(planned, kind="rederive", groups=upserted + deleted, upserted=upserted, deleted=deleted)
    return Split(
        planned=line,
        refused=refused if line.quarantined or tables.exists(context.quarantine) else None,
        passed=passed,
        write=lambda txn: sinks.replace_groups(due, context.target, keys, txn, ignored=BOOKKEEPING),
        arriving=upserted + deleted if tables.exists(context.target) else upserted,
        settled="groups",
    )


def transform_records(context: FlowContext, batch: DataFrame) -> DataFrame:
    """What today's code makes of rows of the change feed: the transform's columns, ``_filtered``, ``_deleted``, ``_broken``.

    Raises:
        SpecError: The transform drops what it must carry, or does not make the keys.
    """
    feed = _arriving(context, batch)
    if context.landing is not None:
        return _transformed(context, contracts.Drift(context).parse(feed))
    return _transformed(context, parse.keyed_feed(feed, context.source_keys))


def _arriving(context: FlowContext, batch: DataFrame) -> DataFrame:
    """The changes that are rows: of bronze the appends, of a keyed table all but pre-images."""
    if context.landing is not None:
        return batch.where("_change_type = 'insert'")
    return batch.where("_change_type <> 'update_preimage'")


def _census(records: DataFrame, output: DataFrame, drift: contracts.Drift | None) -> tuple[Row, Row]:
    """What one query says of the records, before or behind the parser, and of what the transform made of them.

    Returns:
        Of each side ``_rows``, their number, and ``_ids``, a sum over their ids: equal where the transform makes one row of
        each row. Also what `contracts.Drift` measures.
    """
    from pyspark.sql import functions as F

    counted = [
        F.count("*").alias("_rows"),
        F.sum(F.xxhash64("_row_id").cast("decimal(38,0)")).alias("_ids"),
    ]
    before = records.agg(
        F.lit(0).alias("_side"), *counted, *(drift.measures_of_feed(records) if drift is not None else ())
    )
    after = output.agg(F.lit(1).alias("_side"), *counted, *(drift.measures() if drift is not None else ()))
    rows = sorted(before.unionByName(after, allowMissingColumns=True).collect(), key=lambda row: row["_side"])
    return rows[0], rows[1]


def _transformed(context: FlowContext, records: DataFrame) -> DataFrame:
    """The transform's output with ``_filtered``, ``_deleted`` and ``_broken`` (built-in rules) on every row."""
    from pyspark.sql import functions as F

    name, target = context.flow.transform, context.flow.target
    output = context.transform(records) if context.transform is not None else records
    missing = [
        column for column in ("_row_id", "_origin", *target.keys, *target.sequence_by) if column not in output.columns
    ]
    if missing:
        raise SpecError(
            f"flow {context.flow.name!r}: transform {name!r} does not return {', '.join(missing)}; "
            "it must carry _row_id and _origin along and make the target's keys and sequence"
        )
    strange = [
        column
        for column in output.columns
        if column.startswith("_") and column not in (*_OWN, "_rescued", "_key", "_timestamp")
    ]
    if strange:
        raise SpecError(
            f"flow {context.flow.name!r}: transform {name!r} makes {', '.join(strange)}; names that begin with '_' are ours"
        )
    if "_filtered" not in output.columns:
        output = output.withColumn("_filtered", F.lit(None).cast("string"))
    if "_deleted" not in output.columns:
        output = output.withColumn("_deleted", F.lit(False))
    nulls = [F.when(F.col(key).isNull(), F.lit(f"null_key({key})")) for key in target.keys]
    nulls += [F.when(F.col(column).isNull(), F.lit(f"null_sequence({column})")) for column in target.sequence_by]
    missing_keys = F.array_compact(F.array(*nulls)) if nulls else F.array().cast("array<string>")
    broken = (
        F.when(F.size("_origin.broken") > 0, F.col("_origin.broken"))
        .when(F.col("_filtered").isNull(), missing_keys)
        .otherwise(F.array().cast("array<string>"))
    )
    return output.withColumns({"_deleted": F.coalesce("_deleted", F.lit(False)), "_broken": broken})


def _check_ids(context: FlowContext, batch_id: int, records: DataFrame, output: DataFrame) -> None:
    before, after = records.select("_row_id").distinct(), output.select("_row_id").distinct()
    lost = before.join(after, "_row_id", "left_anti").count()
    invented = after.join(before, "_row_id", "left_anti").count()
    if lost or invented:
        raise LedgerImbalanceError(
            context.flow.name,
            batch_id,
            {"lost": lost, "invented": invented},
            f"transform {context.flow.transform!r} lost {lost} rows and invented {invented}; nothing was written. "
            "A transform never drops a row: it sets _filtered to the name of the rule, and carries _row_id along.",
        )


def _flagged(
    context: FlowContext, output: DataFrame, batch_id: int, decision: Decision
) -> tuple[DataFrame, report.Verdict | None]:
    """Add ``_errors array<string>``: what refuses a row. A split that was decided before stands."""
    from pyspark.sql import functions as F

    if decision.quarantined:
        held = F.broadcast(
            quarantine.held_ids(context, output.sparkSession, batch_id).withColumnRenamed("rules", "_errors")
        )
        decided = output.join(held, "_row_id", "left").withColumn(
            "_errors", F.coalesce("_errors", F.array().cast("array<string>"))
        )
        changed = decided.where((F.size("_errors") == 0) & (F.size("_broken") > 0)).limit(1).count()
        if changed:
            raise SpecError(
                f"flow {context.flow.name!r}: batch {batch_id} was split before the last crash, and with today's transform or "
                "schema rows that had passed can no longer be written. Take the change back for one run, then make it again."
            )
        return decided, None
    if context.gate is None:
        return output.withColumn("_errors", F.col("_broken")), None
    # A delete may carry nothing but its key, and what is broken or set aside is no record to judge.
    judged = (F.size("_broken") == 0) & F.col("_filtered").isNull() & ~F.col("_deleted")
    flagged = context.gate.flag(output, judged)
    errors = F.when(F.size("_broken") > 0, F.col("_broken")).otherwise(F.col("_errors"))
    decided = flagged.withColumn("_errors", errors).drop("_notes")
    if context.replay is not None:
        # What once broke a rule is no sample of a batch: `mostly` and rules about the table say nothing of it.
        return decided, None
    verdict = context.gate.judge(
        flagged.where(judged), flow=context.flow.name, app_id=context.app_id, batch_id=batch_id
    )
    if context.taken(batch_id) is not None:
        return decided.withColumn("_errors", F.array_union(F.array(F.lit(refusal.RULE)), "_errors")), verdict
    if verdict.outcome == "refused":
        _tell(context, verdict)
        raise GateRefusedError(verdict)
    return decided, verdict


def _tell(context: FlowContext, verdict: report.Verdict) -> None:
    from tidegate.spark.batch import ledger

    ledger.record_verdict(context, verdict)
    context.tell_verdict(verdict)


def _refuse_whole_rows(flagged: DataFrame) -> DataFrame:
    """If one output of a source row is refused, the source row is."""
    from pyspark.sql import functions as F

    reasons = (
        flagged.where(F.size("_errors") > 0)
        .groupBy("_row_id")
        .agg(F.array_distinct(F.flatten(F.collect_list("_errors"))).alias("_all"))
    )
    joined = flagged.join(reasons, "_row_id", "left")
    return joined.withColumn("_errors", F.coalesce("_all", "_errors")).drop("_all")


def _with_fates(context: FlowContext, flagged: DataFrame, *, against_table: bool) -> DataFrame:
    """Add ``_order`` and ``_fate`` (an index into `FATES`)."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    target = context.flow.target
    candidate = (F.size("_errors") == 0) & F.col("_filtered").isNull()
    fate = F.when(F.size("_errors") > 0, F.lit(0)).when(F.col("_filtered").isNotNull(), F.lit(4))
    if target.write_mode == "append":
        return flagged.withColumn("_fate", fate.otherwise(F.lit(1)))
    order = F.struct(*[F.col(column) for column in target.sequence_by], F.col("_origin.at.*"))
    ordered = flagged.withColumn("_order", order).withColumn("_candidate", candidate)
    latest_first = Window.partitionBy("_candidate", *target.keys).orderBy(F.col("_order").desc())
    ranked = ordered.withColumn("_rank", F.row_number().over(latest_first))
    older: Column = F.lit(False)
    if against_table and tables.exists(context.target):
        held = tables.read(ranked.sparkSession, context.target).select(*target.keys, F.col("_order").alias("_held"))
        ranked = ranked.join(held, list(target.keys), "left")
        older = F.coalesce(F.col("_held") >= F.col("_order"), F.lit(False))
    fate = fate.when(F.col("_rank") > 1, F.lit(3)).when(older, F.lit(2)).otherwise(F.lit(1))
    return ranked.withColumn("_fate", fate).drop("_rank", "_candidate", "_held")


def _count(
    context: FlowContext, fated: DataFrame, batch_id: int, read: int, one_to_one: bool
) -> tuple[report.BatchRecord, int]:
    from pyspark.sql import functions as F

    told = fated.select("_row_id", "_fate", "_filtered", "_errors")
    arriving = None
    if not one_to_one:
        arriving = told.where("_fate = 1").count()
        first = told.groupBy("_row_id").agg(F.min(F.struct("_fate", "_filtered", "_errors")).alias("f"))
        told = first.select("f.*")
        read = told.count()
    counts = dict.fromkeys(FATES, 0)
    filtered: dict[str, int] = {}
    rules: dict[str, int] = {}
    for row in told.groupBy("_fate", "_filtered", "_errors").count().collect():
        number, fate = row["count"], FATES[row["_fate"]]
        counts[fate] += number
        if fate == "filtered":
            filtered[row["_filtered"]] = filtered.get(row["_filtered"], 0) + number
        if fate == "quarantined":
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
        filtered=filtered,
        deduplicated=counts["deduplicated"],
        superseded=counts["superseded"],
        rules=rules,
    )
    return record, counts["written"] if arriving is None else arriving


def _as_stored(context: FlowContext, fated: DataFrame, batch_id: int) -> DataFrame:
    from pyspark.sql import functions as F

    own = [column for column in fated.columns if not column.startswith("_") or column == "_rescued"]
    order = ["_order", "_deleted"] if context.flow.target.keys else []
    return fated.where("_fate = 1").select(
        *own,
        *order,
        "_row_id",
        F.col("_origin.ingested_at").alias("_ingested_at"),
        F.lit(batch_id).cast("bigint").alias("_batch_id"),
    )
