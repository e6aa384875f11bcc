"""Undo: the rows that a run changed get back the content that they had before it, where they are still what it made.

`tidegate.runs.undo.plan` says which commits of a run are put back. Their change feed has each row before and after. One MERGE per
table puts back what was before; a row that has changed since then is left, and so is the quarantine entry of its record, because
a record is either in the table or in quarantine. If the run changed the entry of a record, all of its rows and the entry are put
back, or all are left. The rows go back with their order, so that later records are compared with it.

The steps are those of a micro-batch. Step 3 puts the quarantine entries back: an entry that the run closed is open again, one
that it created is withdrawn. Before it writes, an undo is noted in a file beside the checkpoint. After a crash, the flow's next
run, replay or undo finishes it first if it has written anything.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import pendulum
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidegate import hidden, json_codec
from tidegate.advice import Command
from tidegate.checkpoints.pending_jobs import UNDO, PendingUndo, Undone
from tidegate.errors import RequestError
from tidegate.formatting import count
from tidegate.lake import identity
from tidegate.quarantine import claims
from tidegate.reports.ledger_line import LedgerLine
from tidegate.runs.undo import plan as planning
from tidegate.spark.batch import micro_batch
from tidegate.spark.batch.split import Decision, Split
from tidegate.spark.driver.lease import leased_flow
from tidegate.spark.lake import tables, writes
from tidegate.spark.reprocessing import pending_work, undo_entries
from tidegate.spark.reprocessing.backfill import Backfill
from tidegate.spark.reprocessing.pending_work import NotedWork

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidegate.spark.job import Job
    from tidegate.spark.lake.writes import Transaction

KEYS_KEPT = 1_000
"""How many keys of rows of each kind are written down for people."""
ALREADY_DONE = "an earlier attempt completed this request"


@dataclass(frozen=True, kw_only=True)
class Undo(PendingUndo, NotedWork):
    """The undo of one run in one flow; ``left`` are the records of `undo_entries.left_together`."""

    judges = False

    @classmethod
    def pending(cls, job: Job) -> Self | None:
        """The one in progress."""
        return UNDO.read_as(job.place, cls)

    def finish(self, job: Job) -> None:
        """Put back what is left to put back, or record what the table has."""
        _run(job, self)
        job.run.report.notes.append(f"finished the interrupted undo {self.number} of run {self.undoes}")

    def drop(self, job: Job) -> None:
        """Only its note."""
        UNDO.clear(job.place)

    def planned_ms(self, job: Job, batch_id: int) -> int:
        """When it was stored."""
        return self.planned_at_ms

    def write_refused(self, job: Job, split: Split, batch_id: int, txn: Transaction) -> None:
        """Put the quarantine entries back."""
        assert split.refused is not None
        writes.put_back(split.refused, job.place.quarantine, undo_entries.KEYS, txn)


def undo_run(job: Job) -> None:
    """Undo the run that the request names, in one flow, once.

    Raises:
        RequestError: Other work of the flow is unfinished, or the changes of the run can no longer be read.
        TidegateError: As for a run. The flow's next run finishes the undo if it has written anything.
    """
    flow, key = job.flow, job.run.request.undoes
    assert key is not None
    with leased_flow(job.spark, job.resolved, job.run, work=f"undo in flow {flow.name!r}", role="undo"):
        if not job.run.request.dry_run:
            pending_work.settle(job, Undo)
        lines = planning.read(job.place.of_pipeline, key)
        if planning.undone_by(lines, flow.name, key) is not None:
            job.run.report.notes.append(ALREADY_DONE)
            return
        _check_ready(job)
        own, _ = planning.commits(job.place, flow, lines, key)
        for line in own:
            planning.check_readable(job.place.layout, flow, line)
        pending = Undo(
            number=_highest_number(job) + 1,
            undoes=key,
            commits=tuple(_commit(line) for line in own),
            planned_at_ms=int(pendulum.now("UTC").timestamp() * 1000),
            run_id=job.run.request.run_id,
            requested_by=job.run.request.requested_by,
        )
        if job.run.request.dry_run:
            _dry_run(job, pending)
            return
        UNDO.write(job.place, pending)
        _run(job, pending)


def _run(job: Job, pending: Undo) -> None:
    request = dataclasses.replace(
        job.run.request, mode=identity.UNDO, run_id=pending.run_id, requested_by=pending.requested_by
    )
    own = dataclasses.replace(job, run=dataclasses.replace(job.run, request=request))
    own = own.doing(pending, job.spark.newSession())
    micro_batch.run_steps(own, pending.number, lambda decision: split(own, pending, decision))
    UNDO.clear(job.place)


def _dry_run(job: Job, pending: Undo) -> None:
    own = job.doing(pending, job.spark.newSession())
    job.run.report.dry_run = True
    try:
        planned = split(own, pending, None)
        if planned is not None:
            job.run.record_batch(planned.prepared)
    finally:
        own.release()


def split(job: Job, pending: Undo, decision: Decision | None) -> Split | None:
    """Steps 1 and 2: what is put back and what is left, counted; None if there is nothing to put back.

    Args:
        decision: What an earlier attempt wrote; None for a dry run, whose counts are final.
    """
    keys, spark = job.flow.target.keys, job.spark
    versions = sorted(commit.version for commit in pending.commits)
    changes = _persisted(job, tables.net_changes(spark, job.live, versions, keys))
    present = tables.read(spark, job.live)
    state = _persisted(job, _without_replaced_scopes(job, tables.compare(changes, present, keys), present, versions))
    is_decided = decision is not None and decision.quarantined
    changed_entries = None if is_decided else undo_entries.changed(job, pending)
    left = pending.left if is_decided else undo_entries.left_together(job, changed_entries, state)
    if left and decision is not None and not is_decided:
        UNDO.write(job.place, dataclasses.replace(pending, left=left))
    state = undo_entries.leave(job, state, left)
    if is_filtered := bool(job.flow.target.child_keys or left):
        changes = state.where(f"{hidden.STATE} NOT IN ('changed', 'kept')").select(*changes.columns)
    counts = {row[hidden.STATE]: row["count"] for row in state.groupBy(hidden.STATE).count().collect()}
    total, put_back = sum(counts.values()), sum(counts.get(name, 0) for name in undo_entries.PUT_BACK)
    _report_rows(job, pending, state, counts)
    entries = None
    if is_decided:
        newest = tables.version(spark, job.place.quarantine)
        commit = tables.find_commit(job.place.quarantine, job.app_id, pending.number, newest)
        prepared = json_codec.from_plain(commit.metadata["prepared"], LedgerLine)
    else:
        entries = undo_entries.to_put_back(job, changed_entries, state)
        deleted = changes.where("before IS NULL").count() if decision is not None else counts.get("delete", 0)
        prepared = LedgerLine(
            flow=job.flow.name,
            batch_id=pending.number,
            app_id=job.app_id,
            kind="undo",
            # The MERGE says what is left: until then every row counts as put back.
            groups=total,
            deleted=deleted,
            upserted=total - deleted if decision is not None else put_back - deleted,
            unchanged=0 if decision is not None else total - put_back,
            undoes=pending.undoes,
            **undo_entries.count_states(entries),
        )
        if not put_back and not (prepared.quarantined or prepared.closed):
            job.run.report.notes.append(_nothing(pending, counts))
            return None
    return Split(
        prepared=prepared,
        refused=entries,
        write=lambda txn: writes.put_back(changes, job.live, keys, txn),
        expected_rows=total - (counts.get("changed", 0) + counts.get("kept", 0) if is_filtered else 0),
        settled="groups",
    )


def _without_replaced_scopes(job: Job, state: DataFrame, present: DataFrame, versions: Sequence[int]) -> DataFrame:
    """Rows of scopes that a newer record replaced since are ``changed``: its rows give way as a whole only (ADR 25).

    Where the rows of a scope are computed together, so that each depends on others, all of them are ``changed`` if another commit
    changed one of them since (ADR 30).
    """
    target = job.flow.target
    scope = list(target.scope)
    if not target.child_keys:
        return state
    if target.history or not target.sequence_by:
        later = tables.changed_since(job.spark, job.live, versions)
        if later is None:
            return state
        named = (
            later.select(*[F.col(key).alias(f"_s_{key}") for key in scope]).distinct().withColumn("_later", F.lit(True))
        )
        same = [F.col(key).eqNullSafe(F.col(f"_s_{key}")) for key in scope]
        is_left = F.col("_later") & (F.col(hidden.STATE) != "as_before")
        marked = F.when(is_left, "changed").otherwise(F.col(hidden.STATE))
        return state.join(named, same, "left").withColumn(hidden.STATE, marked).select(*state.columns)
    made = F.coalesce(F.max(f"after.{hidden.ORDER}"), F.max(f"before.{hidden.ORDER}"))
    orders = state.groupBy(*scope).agg(made.alias("_made"))
    newer = (
        present.select(*scope, hidden.ORDER)
        .join(orders, scope)
        .where(f"{hidden.ORDER} <> _made")
        .select(*scope)
        .distinct()
    )
    is_newer = F.col("_newer") & (F.col(hidden.STATE) == "insert")
    return (
        state.join(newer.withColumn("_newer", F.lit(True)), scope, "left")
        .withColumn(hidden.STATE, F.when(is_newer, "changed").otherwise(F.col(hidden.STATE)))
        .drop("_newer")
    )


def _persisted(job: Job, rows: DataFrame) -> DataFrame:
    job.persisted.append(rows.persist())
    return rows


def _report_rows(job: Job, pending: Undo, state: DataFrame, counts: dict[str, int]) -> None:
    """Note what is left, and write the keys to a file of the attempt: they are values of the data."""
    keys = job.flow.target.keys
    path = job.run.place.undone_keys(job.flow.name)
    listed = {
        name: first_keys(state.where(F.col(hidden.STATE).isin(*states)), keys)
        for name, states in (("put_back", undo_entries.PUT_BACK), ("left", ("changed", "kept")))
    }
    json_codec.write(path, {"undoes": pending.undoes, "table": job.flow.target.name, **listed})
    if changed := counts.get("changed", 0):
        job.run.report.notes.append(
            f"{count(changed, 'row')} of {job.flow.target.name} changed after run {pending.undoes} and left as they are; "
            f"their keys: {path.key}"
        )
    if kept := counts.get("kept", 0):
        job.run.report.notes.append(
            f"{count(kept, 'row')} left with them: of the same records another row, or the quarantine entry, changed after run "
            f"{pending.undoes}"
        )
    if as_before := counts.get("as_before", 0):
        job.run.report.notes.append(f"{count(as_before, 'row')} already as before run {pending.undoes}")


def first_keys(rows: DataFrame, keys: Sequence[str]) -> list[dict[str, Any]]:
    """The first `KEYS_KEPT` keys of rows in their order; an instant is a text in UTC."""
    # PySpark gives instants in the zone of the process, without naming it.
    texts = [
        F.date_format(key, tables.JSON["timestampFormat"]).alias(key) if kind == "timestamp" else F.col(key)
        for key, kind in rows.select(*keys).dtypes
    ]
    return [row.asDict() for row in rows.sort(*keys).limit(KEYS_KEPT).select(*texts).collect()]


def _nothing(pending: Undo, counts: dict[str, int]) -> str:
    return (
        f"nothing to put back: no row of {count(sum(counts.values()), 'row')} is still what run {pending.undoes} made"
    )


def _check_ready(job: Job) -> None:
    """Check that no other work of the flow is half written: its rows are decided, and not yet all in their tables."""
    name, flow = job.place.pipeline, job.flow.name
    window = Backfill.pending(job)
    if (window is not None and window.has_begun(job)) or claims.unfinished_claim(job.place.quarantine) is not None:
        raise RequestError(
            f"flow {flow!r}: a backfill or a replay was interrupted",
            Command.tidegate("run", name, says="`{}` finishes it, then undo again"),
        )


def _commit(record: LedgerLine) -> Undone:
    assert record.target_version is not None
    return Undone(kind=record.kind, app_id=record.app_id, number=record.batch_id, version=record.target_version)


def _highest_number(job: Job) -> int:
    """The number of the flow's last undo that wrote to the quarantine or to the live table; -1 without one."""
    app_id = job.place.undos_app_id
    return max(tables.transactions(job.spark, path).get(app_id, -1) for path in (job.place.quarantine, job.live))
