"""A snapshot becomes changes of a history: what it says that the snapshot before it did not, and what the one after it says again."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import reduce
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidegate import hidden
from tidegate.advice import Edit
from tidegate.checkpoints import refusal, rewrite
from tidegate.errors import SpecError
from tidegate.formatting import count
from tidegate.kinds.snapshot_histories import fold
from tidegate.kinds.snapshots import compare
from tidegate.reports.ledger_line import LedgerLine
from tidegate.sources.snapshots import announcements
from tidegate.sources.snapshots.announcements import Snapshot
from tidegate.spark.batch import groups, quarantine, rows, scopes
from tidegate.spark.batch.rows import JudgedRows
from tidegate.spark.batch.split import Decision, Split
from tidegate.spark.batch.work import Stream
from tidegate.spark.lake import local, tables, writes
from tidegate.spec.table import SNAPSHOT_AT
from tidegate.status.completeness import begin_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidegate.spark.job import Job

NO_BATCH = -1
"""The number of a batch that is only derived."""


@dataclass(frozen=True)
class ReadAgain(Stream):
    """Snapshots that the table has, whose rows are derived again: entries keep out what they kept out before."""

    compares = "never"
    split_is_final = False
    has_statistics = False

    def planned_ms(self, job: Job, batch_id: int) -> int:
        """Their rows are of no batch."""
        return 0

    def refused_ids(self, job: Job, spark: SparkSession, batch_id: int) -> DataFrame:
        """Those of all batches of the checkpoint."""
        return quarantine.refused_in_backfill(job, spark)


@dataclass(frozen=True, kw_only=True)
class Statements:
    """What some snapshots say."""

    times: tuple[datetime, ...]
    judged: JudgedRows | None
    """Their records, judged; None if they have none."""
    rows: DataFrame | None
    """Their rows, with ``snapshot_at``; None if they have no record."""
    refused: DataFrame | None
    """The keys of their records in quarantine, with ``snapshot_at``, NULL for one that cannot be read; None without any."""


def read(job: Job, snapshots: Sequence[Snapshot], batch_id: int, decision: Decision) -> Statements:
    """The records of some snapshots, transformed and judged by the work of the job; raises as `rows.judge_rows`."""
    zone = ZoneInfo(job.resolved.pipeline.timezone)
    times = {each.name: begin_of(zone, each.name) for each in snapshots}
    merged = Snapshot(number=NO_BATCH, name="", files=dict(file for each in snapshots for file in each.files.items()))
    own = compare.records(job, merged, batch_id)
    listed = {
        (file.url, int(times[each.name].timestamp())) for each in snapshots for file in compare.named_files(job, each)
    }
    at = local.from_rows(own.sparkSession, sorted(listed), "_file_of string, _begins_s bigint")
    at = at.select("_file_of", F.timestamp_seconds("_begins_s").alias(SNAPSHOT_AT))
    own = own.join(F.broadcast(at), F.col(hidden.PATH) == F.col("_file_of"), "left").drop("_file_of")
    timed = dataclasses.replace(job, transform=lambda records: _with_times(job, records, at))
    judged = rows.judge_rows(timed, own, batch_id, decision, replaces=True)
    return Statements(
        times=tuple(sorted(times.values())),
        judged=judged,
        rows=None if judged is None else compare.written_rows(judged),
        refused=None
        if judged is None
        else compare.refused_keys(timed, own, judged, batch_id, decision, job.flow.target.keys),
    )


def read_again(job: Job, snapshots: Sequence[Snapshot], batch_id: int = NO_BATCH) -> Statements:
    """What snapshots say that the table has; raises as `read`."""
    return read(job.doing(ReadAgain()), snapshots, batch_id, Decision(quarantined=True, written=False))


def _with_times(job: Job, records: DataFrame, at: DataFrame) -> DataFrame:
    """The output of the flow's transform with ``snapshot_at``."""
    output = records if job.transform is None else job.transform(records)
    if SNAPSHOT_AT in output.columns:
        raise SpecError(
            f"flow {job.flow.name!r} makes the column {SNAPSHOT_AT!r}, which a history of snapshots has of its own",
            Edit("return it under another name", "transform"),
        )
    path = F.col(f"{hidden.ORIGIN}.source.path")
    return output.join(F.broadcast(at), path == F.col("_file_of"), "left").drop("_file_of")


def derive(job: Job, stated: Sequence[Statements], stored: DataFrame | None) -> DataFrame | None:
    """The rows that the table has after what snapshots say; None if there was never a row.

    Args:
        stored: Rows of the table, all of each key, of which those of these snapshots are replaced; None for none.
    """
    read_rows = [each.rows for each in stated if each.rows is not None]
    if not read_rows and stored is None:
        return None
    made = reduce(_union, read_rows) if read_rows else stored.limit(0).drop("valid_from", "valid_to", hidden.CHANGE)  # type: ignore[union-attr]
    refused = [each.refused for each in stated if each.refused is not None]
    times = [time for each in stated for time in each.times]
    what = fold.statements(stored, made, reduce(_union, refused) if refused else None, times, job.flow.target.scope)
    return fold.fold(job, what)


def _union(left: DataFrame, right: DataFrame) -> DataFrame:
    return left.unionByName(right, allowMissingColumns=True)


def snapshots_of(job: Job, numbers: Mapping[str, int]) -> list[Snapshot]:
    """The announcements of these snapshots, in their order."""
    named = (announcements.SNAPSHOTS.read(job.place, numbers[name]) for name in sorted(numbers))
    return [each for each in named if each is not None]


def split_next(job: Job, batch_id: int, decision: Decision) -> Split | None:
    """Steps 1 and 2 of a batch: the next announced snapshot; nothing if all were compared.

    Raises:
        RewriteRefusedError: It ends more versions than the flow's limits allow. The batch waits.
        TidegateError: As `rows.judge_rows`.
    """
    snapshot = _chosen(job, batch_id, decision)
    if snapshot is None:
        return None
    chosen = announcements.compared(job.place)
    earlier = {} if chosen is None else chosen.earlier
    own = read(job, [snapshot], batch_id, decision)
    stored = tables.read(job.spark, job.target) if tables.exists(job.target) else None
    if own.rows is None and stored is None:
        job.run.report.notes.append(f"snapshot {snapshot.name} has no rows, as the table")
        return None
    stated, at, scope = [own], own.times[0], job.flow.target.scope
    is_newest = all(name < snapshot.name for name in earlier)
    present = None
    if stored is not None and is_newest:
        present = stored.where(f"valid_to IS NULL AND NOT {hidden.DELETED}")
        # Versions that are over do not tell which keys the newest snapshot changes.
        changed = derive(job, stated, present)
        assert changed is not None
        touched = changed.where(F.col(SNAPSHOT_AT) == fold.instant(at)).select(*scope).distinct().persist()
        job.persisted.append(touched)
        stored = groups.join_on_keys(stored, touched, scope, "left_semi")
        stated = [_of_keys(own, touched, scope)]
    elif stored is not None:
        present = fold.present_at(stored, at, scope)
        # What the following snapshot says may differ from this one. If it says nothing of some keys, the next one may.
        for following in snapshots_of(job, {name: number for name, number in earlier.items() if name > snapshot.name}):
            stated.append(read_again(job, [following], batch_id))
            if stated[-1].refused is None:
                break
    made = derive(job, stated, stored)
    assert made is not None
    made = with_batch(job, made, batch_id).persist()
    job.persisted.append(made)
    keys = job.flow.target.keys
    changes = scopes.merge_source(job, made, made.limit(0).select(*keys) if stored is None else stored.select(*keys))
    line = _line(job, own, changes, batch_id)
    compare.note_repeated(job, snapshot, line)
    _note_refused(job, snapshot, own)
    if present is not None and job.target == job.live:
        of_snapshot = made.where(F.col(SNAPSHOT_AT) == fold.instant(at))
        compare.judge(
            job,
            snapshot,
            present=present,
            changed=of_snapshot.select(*scope),
            written=of_snapshot,
            deleted=of_snapshot.where(hidden.DELETED).count(),
            read=line.read,
        )
    return Split(
        prepared=line,
        refused=own.judged.refused if own.judged is not None and line.quarantined else None,
        changes=changes,
        write=lambda txn: writes.replace_groups(changes, job.target, keys, txn, ignored=rows.BOOKKEEPING),
        expected_rows=line.groups if tables.exists(job.target) else line.upserted,
        settled="groups",
    )


def _of_keys(stated: Statements, keys: DataFrame, scope: tuple[str, ...]) -> Statements:
    """What they say of some keys."""
    own = None if stated.rows is None else groups.join_on_keys(stated.rows, keys, scope, "left_semi")
    return dataclasses.replace(stated, rows=own)


def with_batch(job: Job, made: DataFrame, batch_id: int) -> DataFrame:
    """The rows, of which those without a record have the number of the batch, and when it was planned."""
    planned = F.timestamp_millis(F.lit(job.work.planned_ms(job, batch_id)))
    values = {hidden.BATCH_ID: F.lit(batch_id).cast("bigint"), hidden.INGESTED_AT: planned}
    return made.withColumns({name: F.coalesce(name, value) for name, value in values.items()})


def _line(job: Job, own: Statements, changes: DataFrame, batch_id: int) -> LedgerLine:
    """The prepared ledger line: the records of the snapshot, and the rows that the table has of the keys that it changes."""
    counts = {row[hidden.OP]: row["count"] for row in changes.groupBy(hidden.OP).count().collect()}
    upserted, deleted = counts.get("upsert", 0), counts.get("delete", 0)
    line = LedgerLine(flow=job.flow.name, batch_id=batch_id, app_id=job.app_id, kind="snapshot")
    return dataclasses.replace(
        line if own.judged is None else own.judged.prepared,
        kind="snapshot",
        groups=upserted + deleted,
        upserted=upserted,
        deleted=deleted,
        source_versions={job.flow.source_tables[0]: compare.version(job)},
    )


def _note_refused(job: Job, snapshot: Snapshot, own: Statements) -> None:
    """Report that records in quarantine leave their keys as they were."""
    if own.refused is None:
        return
    is_unknown = F.expr(" OR ".join(f"`{key}` IS NULL" for key in job.flow.target.scope))
    unknown = own.refused.where(is_unknown).count()
    stated = "says nothing of the keys of its records in quarantine"
    if unknown:
        stated = f"ends no version, because {count(unknown, 'record')} without a readable key may be of any"
    job.run.report.notes.append(f"snapshot {snapshot.name} {stated}")


def _chosen(job: Job, batch_id: int, decision: Decision) -> Snapshot | None:
    """The snapshot of a batch: the next one in the order of announcements, or None if all were compared.

    A batch keeps its snapshot, unless that was refused, nobody accepts it and another one was announced.
    """
    place = job.place
    before = announcements.compared(place)
    last = -1 if before is None else before.snapshot.number
    passed = announcements.passed_over(place)
    following = [number for number in announcements.SNAPSHOTS.numbers(place) if number > last and number not in passed]
    if before is not None and before.batch_id == batch_id:
        accepts = any(each.startswith(f"{job.flow.name}:") for each in job.run.request.accept)
        is_bound = decision.quarantined or job.work.decision(job, batch_id) is not None or accepts
        if is_bound or not following or not _is_refused(job, batch_id):
            return before.snapshot
        announcements.pass_over(place, last)
        job.run.report.notes.append(
            f"snapshot {before.snapshot.name} was refused and is no part of the history: land it again, with files of other names, to "
            "insert it"
        )
    for number in following:
        snapshot = announcements.SNAPSHOTS.read(place, number)
        if snapshot is not None:
            announcements.choose(place, batch_id, snapshot, keeps=True)
            return snapshot
    return None


def _is_refused(job: Job, batch_id: int) -> bool:
    """Whether the gate, a statistic, the contract, the transform or the limits refused the batch last."""
    judged, refused = rewrite.recorded(job.place), refusal.REFUSAL.read(job.place)
    of_limits = judged is not None and judged.app_id == job.place.app_id and bool(judged.reasons)
    return of_limits or (refused is not None and refused.batch_id == batch_id)
