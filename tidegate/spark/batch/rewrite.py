"""Judges a rewrite before it changes a row of the table: a backfill, the swap of a full refresh or a new version, a snapshot.

What is counted: rows that the table has before and after, by key, and source rows that go to quarantine. A rewrite that deletes
or quarantines more than its limits allow is refused (`tidegate.spec.limits.RewriteLimits`), unless the request accepts that
number by name. A dry run counts the same and writes nothing.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidegate import hidden, json_codec
from tidegate.advice import Advice, Command, OutsideAct
from tidegate.checkpoints import checkpoint, rewrite
from tidegate.checkpoints.rewrite import JudgedRewrite
from tidegate.errors import RewriteRefusedError
from tidegate.planning.backfill import command
from tidegate.reports.impact import Impact, acceptance
from tidegate.spark.batch import quarantine
from tidegate.spark.lake import tables, writes

if TYPE_CHECKING:
    from tidegate.spark.job import Job

_SAMPLE = 5
"""How many keys of each effect a sample has."""


@dataclass(frozen=True, kw_only=True)
class Measured:
    """The counts of a rewrite, and the keys of some of its rows."""

    impact: Impact
    sample: dict[str, list[str]]
    """``deleted``, ``changed``, ``added`` and ``quarantined`` to keys as JSON, or to ids of source rows."""


def measure(
    job: Job, before: DataFrame, after: DataFrame, *, keys: tuple[str, ...], refused: DataFrame | None, read: int
) -> Measured:
    """Compare the rows of the table with those that replace them.

    Args:
        job: The flow; its `release` unpersists what is persisted here.
        before: Rows of the table, all of which the rewrite replaces.
        after: The new rows.
        keys: The key columns of both; empty if they cannot be compared by key.
        refused: Source rows that go to quarantine, with ``_row_id``; None for none.
        read: The number of source rows.
    """
    old, new = _without_tombstones(before), _without_tombstones(after)
    if keys and all(_type_of(old, key) == _type_of(new, key) for key in keys):
        counts, sample = _effects(job, old, new, keys)
    else:
        rows_before, rows_after = old.count(), new.count()
        kept = min(rows_before, rows_after)
        counts, sample = {"deleted": rows_before - kept, "changed": kept, "added": rows_after - kept}, {}
    deleted, changed, added = (counts.get(effect, 0) for effect in ("deleted", "changed", "added"))
    kept = changed + counts.get("unchanged", 0)
    quarantined = 0
    if refused is not None:
        ids = quarantine.without_entries(job, refused.select(hidden.ROW_ID).distinct()).persist()
        job.persisted.append(ids)
        quarantined = ids.count()
        if quarantined:
            sample["quarantined"] = [row[hidden.ROW_ID] for row in ids.orderBy(hidden.ROW_ID).take(_SAMPLE)]
    impact = Impact(
        before=kept + deleted,
        after=kept + added,
        deleted=deleted,
        changed=changed,
        added=added,
        read=read,
        quarantined=quarantined,
    )
    return Measured(impact=impact, sample=sample)


def check(
    job: Job, measured: Measured, what: str, *, judged: Impact | None = None, instead: Advice | None = None
) -> None:
    """Report what a rewrite does, and refuse it beyond the limits of the flow.

    Args:
        job: The flow with the work whose writes follow.
        measured: Its counts.
        what: Its name for messages.
        judged: Of a rewrite that an earlier attempt has begun to write: what was judged then. It is not judged again, but if the
            code was edited since, it may not delete more.
        instead: Of a swap or a snapshot, which waits when it is refused: what to do if the numbers are wrong. A backfill does not
            wait.

    Raises:
        RewriteRefusedError: It exceeds a limit, and the request does not accept that number.
    """
    flow, impact = job.flow.name, measured.impact
    job.run.report.impact = impact
    if measured.sample:
        path = job.run.place.sample(flow)
        json_codec.write(path, measured.sample)
        job.run.report.notes.append(f"keys of some of these rows: {path.key} in the lake")
    job.run.publish()
    limits = job.resolved.pipeline.rewrite_limits_of(job.flow)
    if job.flow.keeps_rows:
        limits = dataclasses.replace(limits, rows=0, deleted_share=0)
    needed = {
        acceptance(flow, each, getattr(impact, each)): f"{impact.phrase(each)}, more than {limits.share(each):.1%}"
        for each in limits.exceeded(impact)
        if judged is None or getattr(impact, each) > getattr(judged, each)
    }
    earlier = rewrite.recorded(job.place)
    accepted = set(job.run.request.accept)
    if earlier is not None and earlier.app_id == job.app_id and instead is not None:
        accepted |= set(earlier.accepted)
    # What a recovery loses was accepted before it began.
    origin = checkpoint.ORIGIN.read(job.place)
    if impact.deleted <= (0 if origin is None else origin.may_delete):
        accepted.add(acceptance(flow, "deleted", impact.deleted))
    reasons = tuple(reason for name, reason in needed.items() if name not in accepted)
    accepting = _accepting(job, tuple(needed), is_begun=instead is not None or judged is not None)
    if job.run.request.dry_run:
        if reasons:
            job.run.report.notes.append(
                f"a run would be refused: it would {' and '.join(reasons)}. To accept: {accepting.written}"
            )
        return
    if not needed:
        return
    record = JudgedRewrite(
        what=what,
        app_id=job.app_id,
        impact=impact,
        reasons=reasons,
        accepted=() if reasons else tuple(needed),
        run_key=job.run.request.run_key,
    )
    rewrite.record(job.place, record)
    if reasons:
        correct = instead or OutsideAct("give the command again")
        raise RewriteRefusedError(
            flow, what, impact=json_codec.to_plain(impact), reasons=reasons, correct=correct, accept=accepting
        )


def _accepting(job: Job, accept: tuple[str, ...], *, is_begun: bool) -> Command:
    """The command that writes what was refused. What is staged, or half-written, is completed by an increment."""
    request = dataclasses.replace(job.run.request, accept=accept)
    if is_begun:
        request = dataclasses.replace(request, mode="incremental", window=None, gaps=False)
    return command(request)


def _without_tombstones(rows: DataFrame) -> DataFrame:
    return rows.where(f"NOT coalesce({hidden.DELETED}, false)") if hidden.DELETED in rows.columns else rows


def _type_of(rows: DataFrame, column: str) -> str | None:
    return rows.schema[column].dataType.simpleString() if column in rows.columns else None


def _effects(
    job: Job, old: DataFrame, new: DataFrame, keys: tuple[str, ...]
) -> tuple[dict[str, int], dict[str, list[str]]]:
    """Rows by effect, and the keys of some. Columns of only one side, or of different types, are not compared."""
    ignored = (*keys, *job.kind.bookkeeping)
    compared = [name for name in new.columns if name not in ignored and _type_of(old, name) == _type_of(new, name)]
    same_key = reduce(
        lambda left, right: left & right, [F.col(f"t.{key}").eqNullSafe(F.col(f"s.{key}")) for key in keys]
    )
    differs = writes.differs(compared, new.schema, old.schema)
    both = (
        old.select(*keys, *compared)
        .withColumn("_is", F.lit(True))
        .alias("t")
        .join(new.select(*keys, *compared).withColumn("_is", F.lit(True)).alias("s"), same_key, "full_outer")
    )
    effect = (
        F.when(F.col("t._is").isNull(), F.lit("added"))
        .when(F.col("s._is").isNull(), F.lit("deleted"))
        .when(F.expr(differs or "false"), F.lit("changed"))
        .otherwise(F.lit("unchanged"))
    )
    key = F.struct(*[F.coalesce(F.col(f"t.{name}"), F.col(f"s.{name}")).alias(name) for name in keys])
    effects = both.select(effect.alias("effect"), F.to_json(key, tables.JSON).alias("key")).persist()
    job.persisted.append(effects)
    counts = {row["effect"]: row["count"] for row in effects.groupBy("effect").count().collect()}
    sample = {
        name: [row["key"] for row in effects.where(F.col("effect") == name).orderBy("key").take(_SAMPLE)]
        for name in ("deleted", "changed", "added")
        if name in counts
    }
    return counts, sample
