"""Quarantine entries in the undo of a run: as they were before it, where they are still as it left them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from tidegate.errors import RequestError
from tidegate.probes import delta
from tidegate.spark.lake import tables

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from tidegate.spark.context import FlowContext
    from tidegate.spark.reprocessing.undo import Undo

KEYS = ("_row_id", "_app_id", "_batch_id")
"""The columns that identify an entry."""


def to_put_back(context: FlowContext, pending: Undo, state: DataFrame) -> DataFrame | None:
    """The changes of entries that are put back, as `writes.put_back` takes them; None if there are none."""
    path, spark = context.quarantine, context.spark
    if not tables.exists(path):
        return None
    newest = tables.version(spark, path)
    parts: list[DataFrame] = []
    versions = [
        version
        for commit in pending.commits
        if commit.kind != "replay"
        and (version := tables.version_of(path, commit.app_id, commit.number, newest)) is not None
    ]
    if not all(delta.all_exist(path, delta.read_commit(path, version).files) for version in versions):
        raise RequestError(
            f"flow {context.flow.name!r}: the changes that run {pending.undoes} made to its quarantine entries were removed, possibly "
            "by VACUUM, so it cannot be put back. Instead, correct the code or the suite and backfill its days"
        )
    if versions:
        parts.append(_withdrawn(pending, tables.net_changes(spark, path, sorted(versions), KEYS)))
    parts += [_claimed(context, commit.number) for commit in pending.commits if commit.kind == "replay"]
    if not parts:
        return None
    entries = parts[0]
    for part in parts[1:]:
        entries = entries.unionByName(part)
    present = tables.read(spark, path)
    entries = tables.compare(entries.dropDuplicates(list(KEYS)), present, KEYS)
    entries = entries.where(F.col("_state") == "update")
    left = state.where("_state = 'changed'")
    if "_row_id" in left.select("before.*").columns:
        # Before, after and now: the entry of a record that made, or makes, a row that is left stays as it is.
        ids = [left.select(F.col(f"{side}._row_id").alias("_row_id")) for side in ("before", "after", "now")]
        kept = ids[0].union(ids[1]).union(ids[2]).where("_row_id IS NOT NULL").distinct()
        entries = entries.join(kept, "_row_id", "left_anti")
    entries = entries.select(*KEYS, "before", "after").persist()
    context.persisted.append(entries)
    return entries if entries.limit(1).count() else None


def _withdrawn(pending: Undo, changes: DataFrame) -> DataFrame:
    """Entries are never deleted: one that the run created is withdrawn."""
    created = _with_fields(
        "after",
        state=F.lit("withdrawn"),
        changed_by=F.lit(pending.requested_by),
        changed_at=F.timestamp_millis(F.lit(pending.planned_at_ms)),
        reason=F.lit(f"undo {pending.number}"),
    )
    return changes.where("after IS NOT NULL").withColumn("before", F.coalesce("before", created))


def _claimed(context: FlowContext, number: int) -> DataFrame:
    """The entries that a replay closed, as open ones before and as they are after: several commits without an id made them."""
    closed = tables.read(context.spark, context.quarantine).where(f"_replay = {number} AND state = 'replayed'")
    rows = closed.select(*KEYS, F.struct(*[F.col(f"`{name}`") for name in closed.columns]).alias("after"))
    nothing = F.lit(None)
    opened = _with_fields(
        "after",
        state=F.lit("open"),
        changed_by=nothing.cast("string"),
        changed_at=nothing.cast("timestamp"),
        _replay=nothing.cast("bigint"),
    )
    return rows.select(*KEYS, opened.alias("before"), "after")


def _with_fields(struct: str, **fields: Column) -> Column:
    changed = F.col(struct)
    for name, value in fields.items():
        changed = changed.withField(name, value)
    return changed


def count_states(entries: DataFrame | None) -> dict[str, Any]:
    """The counts of a ledger line about entries: opened again with their rules, and closed."""
    if entries is None:
        return {}
    opened = entries.where("before.state = 'open' AND after.state <> 'open'")
    rules = opened.select(F.explode("before.rules").alias("rule")).groupBy("rule").count().collect()
    return {
        "quarantined": opened.count(),
        "rules": {row["rule"]: row["count"] for row in rules},
        "closed": entries.where("before.state <> 'open' AND after.state = 'open'").count(),
    }
