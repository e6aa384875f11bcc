"""A snapshot beside changes: compared with the table once all changes are read, and written where it is right.

A snapshot with a position says of every key what it was there. Keys with a later change are left; of the others the table gets
the row of the snapshot, or a tombstone where it has none. The changes up to there count no more, whenever they arrive, because the snapshot
has them (`tidegate.spark.batch.position`). So the table is the snapshot with the highest position and the changes after it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame, types
from pyspark.sql import functions as F

from tidegate import hidden
from tidegate.advice import Command
from tidegate.checkpoints import rewrite
from tidegate.formatting import count
from tidegate.kinds.rows_with_snapshots import records
from tidegate.kinds.snapshots import compare
from tidegate.reports.report import DifferingRow
from tidegate.sources.snapshots import announcements, beside
from tidegate.sources.snapshots.announcements import Snapshot
from tidegate.sources.snapshots.beside import BESIDE, COMPARISONS, Beside, Comparison, Positioned
from tidegate.sources.snapshots.waiting import announce_newest
from tidegate.spark.batch import micro_batch, order, position, rows
from tidegate.spark.batch.rows import JudgedRows
from tidegate.spark.batch.split import Decision, Split
from tidegate.spark.lake import tables, writes

if TYPE_CHECKING:
    from tidegate.spark.job import Job

_EFFECT, _KEY, _DIFFERING = "_effect", "_key_json", "_differing"
_WRITTEN = ("missing", "different", "unexpected")


def compare_next(job: Job) -> None:
    """Announce the newest complete snapshot, and compare it, if it was not; raises as `compare_announced`."""
    if tables.exists(job.target):
        announce_newest(job.place, job.resolved.pipeline, job.flow)
        compare_announced(job)


def finish(job: Job) -> None:
    """Record a snapshot that a crash has interrupted after its write."""
    known = beside.read(job.place)
    if known.begun is not None and position.is_written(job, known.begun):
        _compare(job, known.begun.snapshot)


def compare_announced(job: Job) -> None:
    """Compare the snapshot announced last, if it was not.

    Raises:
        RewriteRefusedError: It deletes more rows than the flow's limits allow; nothing of it was written.
        TidegateError: As `rows.judge_rows`, and of the six steps.
    """
    finish(job)
    newest = announcements.announced(job.place)
    if newest is not None and newest.number > beside.read(job.place).compared:
        _compare(job, newest)


def _compare(job: Job, snapshot: Snapshot) -> None:
    own = job.doing(records.OfSnapshot(job.target, snapshot), job.spark.newSession())
    micro_batch.run_steps(own, snapshot.number, lambda _: _split(own, snapshot))
    known = beside.read(job.place)
    is_base = known.begun is not None and known.begun.snapshot.number == snapshot.number
    BESIDE.write(job.place, Beside(compared=snapshot.number, base=known.begun if is_base else known.base))


def _split(job: Job, snapshot: Snapshot) -> Split | None:
    """Steps 1 and 2; None for a snapshot that is only compared."""
    reading, known = records.reading_of(job), beside.read(job.place)
    judged = records.judged_rows(reading, snapshot, Decision(quarantined=False, written=False))
    stored = tables.read(job.spark, job.target)
    made = stored.limit(0) if judged is None else compare.written_rows(judged)
    if judged is not None:
        compare.note_repeated(reading, snapshot, judged.prepared)
    own, why = _position(job, judged, made)
    kind = position.order_type(stored)
    if own is not None and known.base is not None and not _is_after(job, own.text, known.base.position, kind):
        why = f"it is not after snapshot {known.base.snapshot.name}, with which the table begins"
    marked = _marked(job, stored, made, own, snapshot.number).persist()
    job.persisted.append(marked)
    comparison = _comparison(marked, snapshot, own, why)
    if why or own is None or judged is None:
        _record(job, snapshot, comparison)
        BESIDE.write(job.place, dataclasses.replace(known, begun=None))
        return None
    changes = marked.where(F.col(_EFFECT).isin(*_WRITTEN)).drop(_EFFECT, _KEY, _DIFFERING)
    line = dataclasses.replace(
        judged.prepared,
        kind="snapshot",
        groups=sum(
            (comparison.equal, comparison.missing, comparison.different, comparison.unexpected, comparison.overtaken)
        ),
        upserted=comparison.missing + comparison.different,
        deleted=comparison.unexpected,
        unchanged=comparison.equal,
        overtaken=comparison.overtaken,
        source_versions={reading.flow.source_tables[0]: compare.version(reading)},
    )
    if job.target == job.live:
        judged_before = rewrite.recorded(job.place)
        if judged_before is not None and judged_before.app_id == job.app_id and snapshot.name not in judged_before.what:
            # What was accepted of another snapshot.
            rewrite.clear(job.place)
        compare.judge(
            reading,
            snapshot,
            present=stored.where(f"NOT {hidden.DELETED}"),
            changed=changes,
            written=changes.where(f"NOT {hidden.DELETED}"),
            deleted=line.deleted,
            read=line.read,
        )
    _record(job, snapshot, comparison)
    BESIDE.write(job.place, dataclasses.replace(known, begun=Positioned(snapshot=snapshot, position=own.text)))
    merged, keys = changes.withColumn(hidden.OP, F.lit("upsert")), job.flow.target.keys
    return Split(
        prepared=line,
        refused=None,
        changes=merged,
        write=lambda txn: writes.replace_groups(merged, job.target, keys, txn, ignored=rows.BOOKKEEPING),
        expected_rows=line.upserted + line.deleted,
    )


@dataclass(frozen=True)
class _OwnPosition:
    """The position of a snapshot."""

    text: tuple[str, ...]
    """As `Positioned.position`."""
    values: tuple[Any, ...]
    """The values of its ``sequence_by`` columns."""


def _position(job: Job, judged: JudgedRows | None, made: DataFrame) -> tuple[_OwnPosition | None, str]:
    """The position of a snapshot, or None and why it has none."""
    names = job.flow.target.sequence_by
    named = ", ".join(names)
    if judged is None:
        return None, "it has no rows, and so no position"
    if judged.prepared.quarantined:
        broken = ", ".join(f"{rule} {number:,}" for rule, number in sorted(judged.prepared.rules.items()))
        number = judged.prepared.quarantined
        return None, f"{count(number, 'record')} of it {'breaks' if number == 1 else 'break'} a rule ({broken})"
    if not set(names) <= set(made.columns):
        return None, f"its rows have no position ({named})"
    declared = [
        each.cast("string").alias(f"_text_{name}") for name, each in zip(names, order.declared(job), strict=True)
    ]
    values = made.select(*names, *declared).distinct().limit(2).collect()
    if len(values) > 1:
        return None, f"its rows have several positions ({named}), as those of exports that overlap"
    texts = tuple(values[0][f"_text_{name}"] for name in names) if values else ()
    if not texts or any(text is None or text == "NaN" for text in texts):
        return None, f"its rows have no position ({named})"
    return _OwnPosition(texts, tuple(values[0][name] for name in names)), ""


def _is_after(job: Job, own: Sequence[str], base: Sequence[str], kind: types.StructType) -> bool:
    after = position.literal(own, kind) > position.literal(base, kind)
    return bool(job.spark.range(1).select(after.alias("after")).collect()[0]["after"])


def _marked(job: Job, stored: DataFrame, made: DataFrame, own: _OwnPosition | None, number: int) -> DataFrame:
    """Every key of the table and of the snapshot, with how they differ, and the row that the table gets."""
    keys, sequence = job.flow.target.keys, job.flow.target.sequence_by
    compared = [name for name in records.compared_columns(job, made.columns) if name in stored.columns]
    same_key = reduce(and_, [F.col(f"t.`{key}`").eqNullSafe(F.col(f"s.`{key}`")) for key in keys])
    joined = stored.alias("t").join(made.alias("s"), same_key, "full_outer")
    is_there, was_there = F.col(f"s.{hidden.ROW_ID}").isNotNull(), F.col(f"t.{hidden.ORDER}").isNotNull()
    is_present = was_there & ~F.coalesce(F.col(f"t.{hidden.DELETED}"), F.lit(False))
    is_later = F.lit(False)
    if own is not None:
        declared = F.struct(*[F.col(f"t.{hidden.ORDER}.`{name}`") for name in sequence])
        is_later = was_there & (declared > position.literal(own.text, position.order_type(stored)))
    differing = F.array_compact(
        F.array(
            *[F.when(F.expr(writes.differs([name], made.schema, stored.schema)), F.lit(name)) for name in compared],
            F.lit(None).cast("string"),
        )
    )
    effect = (
        F.when(is_later, F.when(is_there | is_present, F.lit("overtaken")))
        .when(is_there & ~is_present, F.lit("missing"))
        .when(~is_there & is_present, F.lit("unexpected"))
        .when(is_there & (F.size(differing) > 0), F.lit("different"))
        .when(is_there, F.lit("equal"))
    )
    values = {} if own is None else dict(zip(sequence, own.values, strict=True))
    known = {name: F.coalesce(F.col(f"s.`{name}`"), F.col(f"t.`{name}`")) for name in keys}
    known |= {name: F.lit(value).cast(stored.schema[name].dataType) for name, value in values.items()}
    row = records.target_row(job, stored.schema, made.columns, None if own is None else own.text, number)
    row = [
        known[name].alias(name) if name in known else column for name, column in zip(stored.columns, row, strict=True)
    ]
    key = F.to_json(F.struct(*[known[name].alias(name) for name in keys]), tables.JSON)
    marked = joined.select(effect.alias(_EFFECT), key.alias(_KEY), differing.alias(_DIFFERING), *row)
    return marked.where(f"{_EFFECT} IS NOT NULL")


def _comparison(marked: DataFrame, snapshot: Snapshot, own: _OwnPosition | None, why: str) -> Comparison:
    counts = {row[_EFFECT]: row["count"] for row in marked.groupBy(_EFFECT).count().collect()}
    named = marked.where(F.col(_EFFECT).isin(*_WRITTEN)).orderBy(_EFFECT, _KEY).limit(beside.KEPT)
    sample = named.select(_EFFECT, _KEY, _DIFFERING).collect()
    return Comparison(
        name=snapshot.name,
        position=() if own is None else own.text,
        why=why,
        **{each: counts.get(each, 0) for each in ("equal", "missing", "different", "unexpected", "overtaken")},
        rows=tuple(
            DifferingRow(
                effect=row[_EFFECT],
                key=row[_KEY],
                columns=tuple(row[_DIFFERING]) if row[_EFFECT] == "different" else (),
            )
            for row in sample
        ),
    )


def _record(job: Job, snapshot: Snapshot, comparison: Comparison) -> None:
    """Keep the keys of what differs from the live table, and report the counts."""
    if job.target != job.live:
        return
    COMPARISONS.write(job.place, snapshot.number, comparison)
    if comparison.why:
        done = f"was only compared, because {comparison.why}"
    elif comparison.rows:
        done = "was written"
    else:
        return
    command = Command.tidegate("snapshots", job.place.pipeline, job.flow.name, says="`{}` names keys")
    job.run.report.notes.append(f"snapshot {comparison.name} {done}: {comparison.summary()}; {command.text}")
