"""Undo: the rows that a run changed get back the content that they had before it, where they are still what it made.

`tidegate.planning.undo` says which commits of a run are put back. Their change feed has each row before and after. One MERGE per
table puts back what was before; a row that has changed since then is left, and so is the quarantine entry of its record, because
a record is either in the table or in quarantine. The rows go back with their order, so that later records are compared with it.

The steps are those of a micro-batch. Step 3 puts the quarantine entries back: an entry that the run closed is open again, one
that it created is withdrawn. Before it writes, an undo is noted in a file beside the checkpoint. After a crash, the flow's next
run, replay or undo finishes it first if it has written anything.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pendulum

from tidegate import identity, json_codec
from tidegate.errors import RequestError
from tidegate.formatting import count
from tidegate.planning import undo as planning
from tidegate.probes import delta
from tidegate.quarantine import claims
from tidegate.report import BatchRecord
from tidegate.spark.batch import micro_batch
from tidegate.spark.batch.split import Split
from tidegate.spark.batch.work import Work
from tidegate.spark.driver.leased import leased_flow
from tidegate.spark.lake import sinks, tables
from tidegate.spark.reprocessing import pending_work

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from tidegate.checkpoints.checkpoint import CheckpointRef
    from tidegate.spark.batch.split import Decision
    from tidegate.spark.context import FlowContext
    from tidegate.spark.lake.sinks import Transaction

ENTRY = ("_row_id", "_app_id", "_batch_id")
"""The columns that identify a quarantine entry."""
KEYS_KEPT = 1_000
"""How many keys of rows of each kind are written down for people."""
ALREADY_DONE = "an earlier attempt completed this request"
_REPAIR = "Restore it from a backup."


@dataclass(frozen=True, kw_only=True)
class Undone:
    """A commit that is put back."""

    kind: str
    """Of its ledger line."""
    app_id: str
    number: int
    version: int
    """Of the target."""


@dataclass(frozen=True, kw_only=True)
class Undo(Work):
    """The undo of one run in one flow, as it is stored beside the checkpoint."""

    number: int
    """Also the ``txnVersion`` of its writes."""
    undoes: str
    """The key of the run that is undone."""
    commits: tuple[Undone, ...]
    planned_at_ms: int
    run_id: str
    """Of the undo itself, for its ledger line, also when a later run writes it."""
    requested_by: str

    def app_id(self, ref: CheckpointRef) -> str:
        """One for all undos of the flow."""
        return ref.undos_app_id

    def planned_ms(self, context: FlowContext, batch_id: int) -> int:
        """When it was stored."""
        return self.planned_at_ms

    def write_refused(self, context: FlowContext, split: Split, batch_id: int, txn: Transaction) -> None:
        """Put the quarantine entries back."""
        assert split.refused is not None
        sinks.put_back(split.refused, context.quarantine, ENTRY, txn)


def undo_run(context: FlowContext) -> None:
    """Undo the run that the request names, in one flow, once.

    Raises:
        RequestError: Other work of the flow is unfinished, or the changes of the run can no longer be read.
        TidegateError: As for a run. The flow's next run finishes the undo if it has written anything.
    """
    name, flow, key = context.pipeline.name, context.flow, context.request.undoes
    assert key is not None
    with leased_flow(context, work=f"undo in flow {flow.name!r}", holder=f"undo {context.attempt} of {name}"):
        if not context.request.dry_run:
            finish_pending(context)
        lines = planning.read(context.layout, name, key)
        if planning.undone_by(lines, flow.name, key) is not None:
            context.report.notes.append(ALREADY_DONE)
            return
        _check_ready(context)
        own, _ = planning.commits(context.layout, context.pipeline, flow, lines, key)
        for line in own:
            planning.check_readable(context.layout, flow, line)
        pending = Undo(
            number=_highest_number(context) + 1,
            undoes=key,
            commits=tuple(_commit(line.record) for line in own),
            planned_at_ms=int(pendulum.now("UTC").timestamp() * 1000),
            run_id=context.request.run_id,
            requested_by=context.request.requested_by,
        )
        if context.request.dry_run:
            _dry_run(context, pending)
            return
        json_codec.write(_marker(context), pending)
        _run(context, pending)


def finish_pending(context: FlowContext) -> None:
    """Finish an undo that crashed after its first write; drop one that wrote nothing."""
    pending = json_codec.read(_marker(context), Undo, _REPAIR)
    if pending is None:
        return
    if _highest_number(context) < pending.number:
        _marker(context).unlink()
        return
    _run(context, pending)
    context.report.notes.append(f"finished the interrupted undo {pending.number} of run {pending.undoes}")


def _run(context: FlowContext, pending: Undo) -> None:
    request = dataclasses.replace(
        context.request, mode=identity.UNDO, run_id=pending.run_id, requested_by=pending.requested_by
    )
    own = dataclasses.replace(context, run=dataclasses.replace(context.run, request=request))
    own = own.doing(pending, context.spark.newSession())
    micro_batch.run_steps(own, pending.number, lambda decision: split(own, pending, decision))
    _marker(context).unlink()


def _dry_run(context: FlowContext, pending: Undo) -> None:
    own = context.doing(pending, context.spark.newSession())
    context.report.dry_run = True
    try:
        planned = split(own, pending, None)
        if planned is not None:
            context.record_batch(planned.prepared)
    finally:
        own.release()


def split(context: FlowContext, pending: Undo, decision: Decision | None) -> Split | None:
    """Steps 1 and 2: what is put back and what is left, counted; None if there is nothing to put back.

    Args:
        decision: What an earlier attempt wrote; None for a dry run, whose counts are final.
    """
    keys, spark = context.flow.target.keys, context.spark
    versions = sorted(commit.version for commit in pending.commits)
    changes = _persisted(context, tables.net_changes(spark, context.live, versions, keys))
    state = _persisted(context, _compared(changes, tables.read(spark, context.live), keys))
    counts = {row["_state"]: row["count"] for row in state.groupBy("_state").count().collect()}
    total, put_back = sum(counts.values()), counts.get("update", 0) + counts.get("insert", 0) + counts.get("delete", 0)
    _report_rows(context, pending, state, counts)
    entries = None
    if decision is not None and decision.quarantined:
        newest = tables.version(spark, context.quarantine)
        commit = tables.find_commit(context.quarantine, context.app_id, pending.number, newest)
        prepared = json_codec.from_plain(commit.metadata["prepared"], BatchRecord)
    else:
        entries = _entries(context, pending, state)
        deleted = changes.where("before IS NULL").count() if decision is not None else counts.get("delete", 0)
        prepared = BatchRecord(
            flow=context.flow.name,
            batch_id=pending.number,
            app_id=context.app_id,
            kind="undo",
            # The MERGE says what is left: until then every row counts as put back.
            groups=total,
            deleted=deleted,
            upserted=total - deleted if decision is not None else put_back - deleted,
            unchanged=0 if decision is not None else total - put_back,
            undoes=pending.undoes,
            **_counted(entries),
        )
        if not put_back and not (prepared.quarantined or prepared.closed):
            context.report.notes.append(_nothing(pending, counts))
            return None
    return Split(
        prepared=prepared,
        refused=entries,
        write=lambda txn: sinks.put_back(changes, context.live, keys, txn),
        expected_rows=total,
        settled="groups",
    )


def _persisted(context: FlowContext, rows: DataFrame) -> DataFrame:
    context.persisted.append(rows.persist())
    return rows


def _compared(changes: DataFrame, table: DataFrame, keys: tuple[str, ...]) -> DataFrame:
    """The changes with the present row as ``now``, and ``_state``.

    ``_state`` is ``update``, ``insert`` or ``delete`` for a row that is put back, ``as_before`` or ``changed`` for one that is left.
    """
    from pyspark.sql import functions as F

    present = table.select(
        *[F.col(f"`{key}`").alias(f"_now_{key}") for key in keys],
        F.struct(*[F.col(f"`{name}`") for name in table.columns]).alias("now"),
    )
    same_key = [F.col(f"`{key}`").eqNullSafe(F.col(f"`_now_{key}`")) for key in keys]
    joined = changes.join(present, same_key, "left").drop(*[f"_now_{key}" for key in keys])
    state = (
        F.when(F.col("now").eqNullSafe(F.col("before")), "as_before")
        .when(~F.col("now").eqNullSafe(F.col("after")), "changed")
        .when(F.col("after").isNull(), "insert")
        .when(F.col("before").isNull(), "delete")
        .otherwise("update")
    )
    return joined.withColumn("_state", state)


def _entries(context: FlowContext, pending: Undo, state: DataFrame) -> DataFrame | None:
    """The changes of quarantine entries to put back, as `sinks.put_back` takes them; None if there are none."""
    from pyspark.sql import functions as F

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
        parts.append(_withdrawn(pending, tables.net_changes(spark, path, sorted(versions), ENTRY)))
    parts += [_claimed(spark, context, commit.number) for commit in pending.commits if commit.kind == "replay"]
    if not parts:
        return None
    entries = parts[0]
    for part in parts[1:]:
        entries = entries.unionByName(part)
    present = tables.read(spark, path)
    entries = _compared(entries.dropDuplicates(list(ENTRY)), present, ENTRY)
    entries = entries.where(F.col("_state") == "update")
    left = state.where("_state = 'changed'")
    if "_row_id" in left.select("before.*").columns:
        # Before, after and now: the entry of a record that made, or makes, a row that is left stays as it is.
        ids = [left.select(F.col(f"{side}._row_id").alias("_row_id")) for side in ("before", "after", "now")]
        kept = ids[0].union(ids[1]).union(ids[2]).where("_row_id IS NOT NULL").distinct()
        entries = entries.join(kept, "_row_id", "left_anti")
    entries = _persisted(context, entries.select(*ENTRY, "before", "after"))
    return entries if entries.limit(1).count() else None


def _withdrawn(pending: Undo, changes: DataFrame) -> DataFrame:
    """Entries are never deleted: one that the run created is withdrawn."""
    from pyspark.sql import functions as F

    created = _with_fields(
        "after",
        state=F.lit("withdrawn"),
        changed_by=F.lit(pending.requested_by),
        changed_at=F.timestamp_millis(F.lit(pending.planned_at_ms)),
        reason=F.lit(f"undo {pending.number}"),
    )
    return changes.where("after IS NOT NULL").withColumn("before", F.coalesce("before", created))


def _claimed(spark: SparkSession, context: FlowContext, number: int) -> DataFrame:
    """The entries that a replay closed, as open ones before and as they are after: several commits without an id made them."""
    from pyspark.sql import functions as F

    closed = tables.read(spark, context.quarantine).where(f"_replay = {number} AND state = 'replayed'")
    rows = closed.select(*ENTRY, F.struct(*[F.col(f"`{name}`") for name in closed.columns]).alias("after"))
    nothing = F.lit(None)
    opened = _with_fields(
        "after",
        state=F.lit("open"),
        changed_by=nothing.cast("string"),
        changed_at=nothing.cast("timestamp"),
        _replay=nothing.cast("bigint"),
    )
    return rows.select(*ENTRY, opened.alias("before"), "after")


def _with_fields(struct: str, **fields: Column) -> Column:
    from pyspark.sql import functions as F

    changed = F.col(struct)
    for name, value in fields.items():
        changed = changed.withField(name, value)
    return changed


def _counted(entries: DataFrame | None) -> dict[str, Any]:
    """The counts of a ledger line about entries: opened again with their rules, and closed."""
    from pyspark.sql import functions as F

    if entries is None:
        return {}
    opened = entries.where("before.state = 'open' AND after.state <> 'open'")
    rules = opened.select(F.explode("before.rules").alias("rule")).groupBy("rule").count().collect()
    return {
        "quarantined": opened.count(),
        "rules": {row["rule"]: row["count"] for row in rules},
        "closed": entries.where("before.state <> 'open' AND after.state = 'open'").count(),
    }


def _report_rows(context: FlowContext, pending: Undo, state: DataFrame, counts: dict[str, int]) -> None:
    """Note what is left, and write the keys to a file of the attempt: they are values of the data."""
    keys = context.flow.target.keys
    path = context.layout.undone_keys(
        context.pipeline.name, context.request.run_key, context.attempt, context.flow.name
    )
    listed = {
        name: [
            row.asDict()
            for row in state.where(state["_state"].isin(*states)).select(*keys).sort(*keys).limit(KEYS_KEPT).collect()
        ]
        for name, states in (("put_back", ("update", "insert", "delete")), ("left", ("changed",)))
    }
    json_codec.write(path, {"undoes": pending.undoes, "table": context.flow.target.name, **listed})
    if changed := counts.get("changed", 0):
        context.report.notes.append(
            f"{count(changed, 'row')} of {context.flow.target.name} changed after run {pending.undoes} and left as they are; "
            f"their keys: {path.relative_to(context.layout.lake)}"
        )
    if as_before := counts.get("as_before", 0):
        context.report.notes.append(f"{count(as_before, 'row')} already as before run {pending.undoes}")


def _nothing(pending: Undo, counts: dict[str, int]) -> str:
    return (
        f"nothing to put back: no row of {count(sum(counts.values()), 'row')} is still what run {pending.undoes} made"
    )


def _check_ready(context: FlowContext) -> None:
    """Check that no other work of the flow is half written: its rows are decided, and not yet all in their tables."""
    name, flow = context.pipeline.name, context.flow.name
    if pending_work.is_unfinished(context) or claims.unfinished_claim(context.quarantine) is not None:
        raise RequestError(
            f"flow {flow!r}: a backfill or a replay was interrupted; `tidegate run {name}` finishes it, then undo again"
        )


def _commit(record: BatchRecord) -> Undone:
    assert record.target_version is not None
    return Undone(kind=record.kind, app_id=record.app_id, number=record.batch_id, version=record.target_version)


def _highest_number(context: FlowContext) -> int:
    """The number of the flow's last undo that wrote to the quarantine or to the live table; -1 without one."""
    app_id = context.ref.undos_app_id
    return max(tables.transactions(context.spark, path).get(app_id, -1) for path in (context.quarantine, context.live))


def _marker(context: FlowContext) -> Any:
    return context.layout.undo(context.pipeline.name, context.flow.name)
