"""Quarantine entries in the undo of a run: as they were before it, where they are still as it left them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tidegate import hidden
from tidegate.advice import Edit
from tidegate.errors import RequestError
from tidegate.probes import delta
from tidegate.spark.batch import groups
from tidegate.spark.lake import local, tables

if TYPE_CHECKING:
    from collections.abc import Collection

    from tidegate.checkpoints.pending_jobs import PendingUndo
    from tidegate.spark.job import Job

KEYS = (hidden.ROW_ID, hidden.APP_ID, hidden.BATCH_ID)
"""The columns that identify an entry."""
PUT_BACK = ("update", "insert", "delete")
"""The states (`tables.compare`) of what is put back."""


def changed(job: Job, pending: PendingUndo) -> DataFrame | None:
    """What the run changed in entries, as from `tables.compare`; None without a change."""
    path, spark = job.place.quarantine, job.spark
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
            f"flow {job.flow.name!r}: the changes that run {pending.undoes} made to its quarantine "
            "entries were removed, possibly by VACUUM, so it cannot be put back.",
            Edit("instead, correct the code or the suite and backfill its days", "request"),
        )
    if versions:
        parts.append(_withdrawn(pending, tables.net_changes(spark, path, sorted(versions), KEYS)))
    parts += [_claimed(job, commit.number) for commit in pending.commits if commit.kind == "replay"]
    if not parts:
        return None
    entries = parts[0]
    for part in parts[1:]:
        entries = entries.unionByName(part)
    present = tables.read(spark, path)
    entries = tables.compare(entries.dropDuplicates(list(KEYS)), present, KEYS).persist()
    job.persisted.append(entries)
    return entries


def left_together(job: Job, entries: DataFrame | None, state: DataFrame) -> tuple[str, ...]:
    """The ids of the records of which rows that could be put back are left as well, sorted.

    A record with an entry that the run changed is put back as a whole, with its entry, or left as a whole: if only the rows that
    are still as the run made them were taken out, they would be in no table and in no open entry. It is left if one of its rows,
    or its entry, has changed since, or if one of its rows is in the scope of another such record that is left.

    Args:
        entries: From `changed`.
        state: The rows of the target, as from `tables.compare`.
    """
    if entries is None or hidden.ROW_ID not in state.select("before.*").columns:
        return ()
    ids = F.explode(F.array(f"before.{hidden.ROW_ID}", f"after.{hidden.ROW_ID}")).alias(hidden.ROW_ID)
    scope = job.flow.target.scope
    links = state.where(F.col(hidden.STATE).isin(*PUT_BACK)).select(*scope, ids).distinct()
    links = links.join(entries.select(hidden.ROW_ID).distinct(), hidden.ROW_ID, "left_semi").persist()
    job.persisted.append(links)
    left = _ids_of_left(state).union(entries.where(f"{hidden.STATE} = 'changed'").select(hidden.ROW_ID))
    records = _ids(links.join(left, hidden.ROW_ID, "left_semi"))
    while records:
        reached = links.join(_frame(job, records), hidden.ROW_ID, "left_semi").select(*scope)
        more = _ids(groups.join_on_keys(links, reached, scope, "left_semi"))
        if more == records:
            break
        records = more
    return tuple(sorted(records))


def leave(job: Job, state: DataFrame, records: Collection[str]) -> DataFrame:
    """The rows of the target; those that would be put back have the state ``kept`` if their scope has a row of these records."""
    if not records:
        return state
    ids, scope = _frame(job, records), job.flow.target.scope
    movable = F.col(hidden.STATE).isin(*PUT_BACK)
    of_records = state.where(movable).select(
        *scope, F.explode(F.array(f"before.{hidden.ROW_ID}", f"after.{hidden.ROW_ID}")).alias(hidden.ROW_ID)
    )
    named = (
        of_records.join(ids, hidden.ROW_ID, "left_semi")
        .select(*[F.col(key).alias(f"_s_{key}") for key in scope])
        .distinct()
        .withColumn("_kept", F.lit(True))
    )
    same = [F.col(key).eqNullSafe(F.col(f"_s_{key}")) for key in scope]
    marked = F.when(F.col("_kept") & movable, "kept").otherwise(F.col(hidden.STATE))
    return state.join(named, same, "left").withColumn(hidden.STATE, marked).select(*state.columns)


def to_put_back(job: Job, entries: DataFrame | None, state: DataFrame) -> DataFrame | None:
    """The changes of entries that are put back, as `writes.put_back` takes them; None if there are none."""
    if entries is None:
        return None
    entries = entries.where(F.col(hidden.STATE) == "update")
    if hidden.ROW_ID in state.select("before.*").columns:
        # The entry of a record that made, or makes, a row that is left stays as it is.
        kept = _ids_of_left(state).where(f"{hidden.ROW_ID} IS NOT NULL").distinct()
        entries = entries.join(kept, hidden.ROW_ID, "left_anti")
    entries = entries.select(*KEYS, "before", "after").persist()
    job.persisted.append(entries)
    return entries if entries.limit(1).count() else None


def _ids_of_left(state: DataFrame) -> DataFrame:
    """The records that made the rows that are left: before the run, by it, and now."""
    left = state.where(f"{hidden.STATE} IN ('changed', 'kept')")
    before, after, now = (
        left.select(F.col(f"{side}.{hidden.ROW_ID}").alias(hidden.ROW_ID)) for side in ("before", "after", "now")
    )
    return before.union(after).union(now)


def _ids(rows: DataFrame) -> set[str]:
    return {row[hidden.ROW_ID] for row in rows.select(hidden.ROW_ID).distinct().collect()}


def _frame(job: Job, ids: Collection[str]) -> DataFrame:
    return local.from_rows(job.spark, [(each,) for each in ids], f"{hidden.ROW_ID} string")


def _withdrawn(pending: PendingUndo, changes: DataFrame) -> DataFrame:
    """Entries are never deleted: one that the run created is withdrawn."""
    created = _with_fields(
        "after",
        state=F.lit("withdrawn"),
        changed_by=F.lit(pending.requested_by),
        changed_at=F.timestamp_millis(F.lit(pending.planned_at_ms)),
        reason=F.lit(f"undo {pending.number}"),
    )
    return changes.where("after IS NOT NULL").withColumn("before", F.coalesce("before", created))


def _claimed(job: Job, number: int) -> DataFrame:
    """The entries that a replay closed, as open ones before and as they are after: several commits without an id made them."""
    closed = tables.read(job.spark, job.place.quarantine).where(f"{hidden.REPLAY} = {number} AND state = 'replayed'")
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
