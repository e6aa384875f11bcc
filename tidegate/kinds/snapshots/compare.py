"""Snapshot flows: the rows of a complete snapshot are compared with the table, whose other rows are deleted."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidegate import hidden
from tidegate.advice import OutsideAct
from tidegate.checkpoints import landing_folder
from tidegate.formatting import count
from tidegate.lake import file_id
from tidegate.reports.impact import Impact
from tidegate.reports.ledger_line import LedgerLine
from tidegate.sources.snapshots import announcements
from tidegate.spark.batch import groups, rewrite, rows, transform_errors, transform_output
from tidegate.spark.batch.dispositions import QUARANTINED
from tidegate.spark.batch.split import Decision, Split
from tidegate.spark.lake import local, tables, writes
from tidegate.spec import FileSource

if TYPE_CHECKING:
    from tidegate.lake.file_id import FileId
    from tidegate.sources.snapshots.announcements import Snapshot
    from tidegate.spark.job import Job

_NOT_OF_RECORDS = (hidden.ORDER, hidden.DELETED)
"""Columns that order the records of a key: a table that follows snapshots has one row per key, and no tombstones."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Changes:
    """What a snapshot does to the table."""

    merged: DataFrame
    """The source of the MERGE: the rows of the snapshot, and the keys that it does not have, with ``_op``."""
    prepared: LedgerLine
    refused: DataFrame | None
    kept: DataFrame | None
    """The keys of the rows that the snapshot lacks and that stay; None for a table that does not exist yet."""
    unknown: int
    """Quarantined records without a readable key: any missing row may be one of them, so that none is deleted."""


def split_newest(job: Job, batch_id: int, decision: Decision) -> Split | None:
    """Steps 1 and 2 of a batch: compare the newest announced snapshot; nothing if an earlier batch has compared it.

    Raises:
        RewriteRefusedError: It deletes more rows than the flow's limits allow. The batch waits.
        TidegateError: As `rows.judge_rows`.
    """
    snapshot = _chosen(job, batch_id, decision)
    if snapshot is None:
        return None
    changes = compare(job, snapshot, batch_id, decision)
    if changes is None:
        job.run.report.notes.append(f"snapshot {snapshot.name} has no rows, as the table")
        return None
    note_repeated(job, snapshot, changes.prepared)
    if changes.kept is not None:
        _judge(job, snapshot, changes, changes.kept)
    return split_of(job, changes)


def note_repeated(job: Job, snapshot: Snapshot, line: LedgerLine) -> None:
    """Report keys that a snapshot has more than once, as two exports of one interval have."""
    if line.deduplicated:
        job.run.report.notes.append(
            f"snapshot {snapshot.name} has {count(line.deduplicated, 'row')} whose key a later row of it has, which counts: list the files "
            "of one export only in a manifest, or declare keys that are unique"
        )


def compare(job: Job, snapshot: Snapshot, batch_id: int, decision: Decision) -> Changes | None:
    """The rows of a snapshot, judged and compared with the target; None if both are empty.

    The row of a quarantined record stays as it is. If the key of one is unknown, all rows stay that the snapshot lacks.
    """
    own = records(job, snapshot, batch_id)
    judged = rows.judge_rows(job, own, batch_id, decision, replaces=True)
    keys, stored = job.flow.target.keys, None
    if tables.exists(job.target):
        stored = tables.read(job.spark, job.target)
    if judged is not None:
        prepared = dataclasses.replace(judged.prepared, kind="snapshot")
        written = written_rows(judged)
    elif stored is not None and not stored.isEmpty():
        prepared = LedgerLine(flow=job.flow.name, batch_id=batch_id, app_id=job.app_id, kind="snapshot")
        written = stored.limit(0)
    else:
        return None
    affected, kept, unknown = written.select(*keys), None, 0
    if stored is not None:
        missing = groups.join_on_keys(stored.select(*keys), written, keys, "left_anti")
        refused = None if judged is None else refused_keys(job, own, judged, batch_id, decision, keys)
        kept, unknown = kept_rows(job, missing, refused)
        affected = affected.unionByName(groups.join_on_keys(missing, kept, keys, "left_anti"))
    merged = groups.merge_source(job, written, affected)
    counts = {row[hidden.OP]: row["count"] for row in merged.groupBy(hidden.OP).count().collect()}
    upserted, deleted = counts.get("upsert", 0), counts.get("delete", 0)
    return Changes(
        merged=merged,
        prepared=dataclasses.replace(
            prepared,
            groups=upserted + deleted,
            upserted=upserted,
            deleted=deleted,
            source_versions={job.flow.source_tables[0]: version(job)},
        ),
        refused=judged.refused if judged is not None and prepared.quarantined else None,
        kept=kept,
        unknown=unknown,
    )


def written_rows(judged: rows.JudgedRows) -> DataFrame:
    """The rows that the table has after a snapshot, besides those that are kept."""
    return judged.written.where(f"NOT {hidden.DELETED}").drop(*_NOT_OF_RECORDS)


def refused_keys(
    job: Job, own: DataFrame, judged: rows.JudgedRows, batch_id: int, decision: Decision, keys: Sequence[str]
) -> DataFrame | None:
    """The keys of the quarantined records of a snapshot, NULL for one that cannot be read; None if no record is quarantined.

    Args:
        own: Its raw records, which may have some of the keys.
        judged: The same, judged.
    """
    quarantined = judged.assigned.where(f"{hidden.DISPOSITION} = {QUARANTINED}")
    if not judged.prepared.quarantined:
        return None
    if not decision.quarantined:
        return quarantined.select(*keys)
    # What an earlier attempt refused has bypassed the transform, so that `judged` has no key of it.
    entries = F.broadcast(job.work.refused_ids(job, own.sparkSession, batch_id))
    raising = F.exists("rules", lambda rule: rule.startswith(f"{transform_errors.RULE}("))
    refused = own.join(entries, hidden.ROW_ID)
    readable = (
        transform_output.transform_records(job, refused.where(~raising).select(*own.columns)).select(*keys).persist()
    )
    job.persisted.append(readable)
    no_keys = [
        F.col(key) if key in own.columns else F.lit(None).cast(readable.schema[key].dataType).alias(key) for key in keys
    ]
    if transform_errors.raised_by(readable.count) is not None:
        # It was edited since: no key is known, and so no row is deleted.
        return refused.select(*no_keys)
    others = quarantined.join(entries, hidden.ROW_ID, "left_anti").select(*keys)
    return readable.unionByName(refused.where(raising).select(*no_keys)).unionByName(others)


def kept_rows(job: Job, missing: DataFrame, refused: DataFrame | None) -> tuple[DataFrame, int]:
    """Of the rows that a snapshot lacks, those that stay, and the number of records without a readable key.

    Args:
        missing: These rows, with the keys.
        refused: What `refused_keys` returns.
    """
    keys = job.flow.target.keys
    if refused is None:
        return missing.limit(0), 0
    unknown = refused.where(F.expr(" OR ".join(f"`{key}` IS NULL" for key in keys))).count()
    return missing if unknown else groups.join_on_keys(missing, refused.distinct(), keys, "left_semi"), unknown


def split_of(job: Job, changes: Changes) -> Split:
    """Write only what differs."""
    keys, line = job.flow.target.keys, changes.prepared
    return Split(
        prepared=line,
        refused=changes.refused,
        changes=changes.merged,
        write=lambda txn: writes.replace_groups(changes.merged, job.target, keys, txn, ignored=rows.BOOKKEEPING),
        expected_rows=line.groups if tables.exists(job.target) else line.upserted,
        settled="groups",
    )


def named_files(job: Job, snapshot: Snapshot) -> list[FileId]:
    """The files of a snapshot, as records of any time name them."""
    landing = job.resolved.pipeline.writer_of(job.flow.source_tables[0])
    assert landing is not None and isinstance(landing.source, FileSource)
    source_folder = landing_folder.of(job.resolved.above(job.place.layout), landing.source)
    return [name for file in file_id.of_paths(snapshot.files) for name in source_folder.names(file)]


def records(job: Job, snapshot: Snapshot, batch_id: int) -> DataFrame:
    """The raw records of a snapshot's files, in the form of the change feed of bronze."""
    assert job.source_table is not None
    names = named_files(job, snapshot)
    listed = [(name.url, name.modified_ms) for name in names]
    files = local.from_rows(job.spark, listed, "_of_path string, _of_ms bigint")
    # Of an empty snapshot no row of bronze is read.
    times = sorted(name.modified_ms for name in names) or [0]
    bronze = tables.read(job.spark, job.source_table)
    # By the statistics of this column, Delta reads only files that may have the snapshot.
    own = bronze.where(
        (F.col(hidden.MODIFIED_AT) >= F.timestamp_millis(F.lit(times[0])))
        & (F.col(hidden.MODIFIED_AT) < F.timestamp_millis(F.lit(times[-1] + 1)))
    )
    is_of_file = (F.col(hidden.PATH) == F.col("_of_path")) & (F.unix_millis(hidden.MODIFIED_AT) == F.col("_of_ms"))
    return own.join(F.broadcast(files), is_of_file, "left_semi").withColumns(
        {
            hidden.CHANGE_TYPE: F.lit("insert"),
            hidden.COMMIT_VERSION: F.lit(version(job)).cast("bigint"),
            hidden.COMMIT_TIMESTAMP: F.timestamp_millis(F.lit(job.work.planned_ms(job, batch_id))),
        }
    )


def version(job: Job) -> int:
    """That of bronze."""
    assert job.source_table is not None
    return tables.version(job.spark, job.source_table)


def _chosen(job: Job, batch_id: int, decision: Decision) -> Snapshot | None:
    """The snapshot of a batch: the newest, or None if it was compared before.

    A batch that has written rows of an earlier one, or was held and is accepted by a person, keeps that.
    """
    place = job.place
    before, newest = announcements.compared(place), announcements.announced(place)
    is_bound = decision.quarantined or job.work.decision(job, batch_id) is not None
    if before is not None and before.batch_id == batch_id and is_bound:
        return before.snapshot
    if newest is None or (
        before is not None and before.batch_id < batch_id and before.snapshot.number == newest.number
    ):
        return None
    announcements.choose(place, batch_id, newest)
    return newest


def _judge(job: Job, snapshot: Snapshot, changes: Changes, kept: DataFrame) -> None:
    """Refuse a snapshot that deletes too much; raises `RewriteRefusedError`."""
    number = kept.count() if changes.refused is not None else 0
    if number:
        why = "their records are in quarantine"
        if changes.unknown:
            why = f"{count(changes.unknown, 'record')} without a readable key may be theirs"
        job.run.report.notes.append(f"snapshot {snapshot.name} lacks {count(number, 'row')} that stay, because {why}")
    line = changes.prepared
    judge(
        job,
        snapshot,
        present=tables.read(job.spark, job.target),
        changed=changes.merged,
        written=changes.merged.where(f"{hidden.OP} = 'upsert'"),
        deleted=line.deleted,
        read=line.read,
        stay=number,
    )


def judge(
    job: Job,
    snapshot: Snapshot,
    *,
    present: DataFrame,
    changed: DataFrame,
    written: DataFrame,
    deleted: int,
    read: int,
    stay: int = 0,
) -> None:
    """Refuse a snapshot that deletes too many of the rows that are present before it; raises `RewriteRefusedError`.

    Args:
        changed: The keys that differ.
        written: Their new rows.
        stay: Rows that it lacks and that stay.
    """
    before = present.count() if deleted else 0
    impact = Impact(
        before=before, after=before - deleted, deleted=deleted, changed=0, added=0, read=read, quarantined=0
    )
    if not job.resolved.pipeline.rewrite_limits_of(job.flow).exceeded(impact):
        return
    keys = job.flow.target.scope
    measured = rewrite.measure(
        job, groups.join_on_keys(present, changed, keys, "left_semi"), written, keys=keys, refused=None, read=read
    )
    # Rows that stay count as rows of the table, of which a share is deleted.
    impact = dataclasses.replace(measured.impact, before=before, after=measured.impact.after + stay)
    rewrite.check(
        job,
        dataclasses.replace(measured, impact=impact),
        f"snapshot {snapshot.name} of {job.flow.source_tables[0]}",
        instead=OutsideAct("land it again, or a newer one, which takes its place"),
    )
