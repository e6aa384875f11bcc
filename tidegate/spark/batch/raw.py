"""Landing flows of files: append raw records and their coordinates to bronze, except files that were read before."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidegate import hidden
from tidegate.advice import OutsideAct
from tidegate.checkpoints import landing_folder, overrides
from tidegate.errors import CheckpointCorruptError
from tidegate.formats.reader import CheckedFile
from tidegate.lake import file_id
from tidegate.lake.file_id import FileId
from tidegate.reports.ledger_line import LedgerLine
from tidegate.spark.batch import landed_files, quarantine
from tidegate.spark.batch.split import Decision, Split
from tidegate.spark.intake import landing
from tidegate.spark.lake import local, tables, writes
from tidegate.spec import FileSource
from tidegate.times import dates

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tidegate.checkpoints.landing_folder import LandingFolder
    from tidegate.spark.job import Job
    from tidegate.status.file_contents import FileContents


def split_files(job: Job, batch: DataFrame, batch_id: int, decision: Decision) -> Split | None:
    """Read the files that the work lists for this batch; None when it lists none.

    Args:
        batch: Only its session is used: see `tidegate.spark.intake.landing`.
        decision: What an earlier attempt wrote: files that it quarantined are not judged again.
    """
    source = job.flow.source
    assert isinstance(source, FileSource)
    spark, listed = batch.sparkSession, job.work.listed_files(job, batch_id)
    if not listed:
        return None
    unread = _unread_files(job, spark, listed, batch_id)
    skipped = _skipped_files(job, unread) | _failed_files(job, spark, batch_id, unread, decision)
    opened = sorted(file for file in file_id.of_paths(unread) if file.path not in skipped)
    stamp = landing.BatchValues(batch_id, job.work.planned_ms(job, batch_id))
    landed = landed_files.read(job, spark, opened, source, stamp)
    checked = [*landed.files, *skipped.values()]
    good = [file for file in checked if file.problem is None]
    failed = [file for file in checked if file.problem is not None]
    if decision.quarantined:
        good, failed = _apply_earlier_split(job, spark, batch_id, checked)
    rows = landed.rows(spark, good)
    count = sum(file.records for file in good)
    rules: dict[str, int] = {}
    for file in failed:
        rules[str(file.problem)] = rules.get(str(file.problem), 0) + 1
    record = record_of(
        job,
        batch_id,
        read=count,
        written=count,
        files_listed=len(listed),
        files_opened=len(good),
        files_quarantined=len(failed),
        files_already_read=len(listed) - len(unread),
        rules=rules,
    )
    refused = quarantine.from_files(spark, landing.quarantine_rows(failed)) if failed else None
    return Split(
        prepared=record,
        refused=refused,
        write=lambda txn: writes.append(rows, job.target, txn),
        expected_rows=count,
    )


def record_of(job: Job, batch_id: int, **counts: Any) -> LedgerLine:
    """The ledger line of a batch."""
    return LedgerLine(
        flow=job.flow.name,
        batch_id=batch_id,
        app_id=job.app_id,
        kind="append",
        planned_at=dates.moment(job.work.planned_ms(job, batch_id)),
        **counts,
    )


def _skipped_files(job: Job, unread: dict[str, int]) -> dict[str, CheckedFile]:
    """By path, the files that a person marked to be quarantined without being read; a replay of such an entry reads the file."""
    assert isinstance(job.flow.source, FileSource)
    if job.work.of_entries:
        return {}
    folder = job.place.layout.landing(job.flow.source.path)
    marked = overrides.skipped_files(job.place)
    paths = {(folder / file).uri for file in marked} & unread.keys()
    return {
        path: landing.unread_file(job.place.layout.landing_root, FileId(path, unread[path]), overrides.RULE)
        for path in paths
    }


def _failed_files(
    job: Job, spark: SparkSession, batch_id: int, unread: dict[str, int], decision: Decision
) -> dict[str, CheckedFile]:
    """By path, the files on which an earlier attempt at the batch failed: the split is final, and they would fail again."""
    if not decision.quarantined:
        return {}
    refused = job.work.refused_ids(job, spark, batch_id).where(F.array_contains("rules", landed_files.RULE))
    paths = {FileId.parse(row[hidden.ROW_ID]).path for row in refused.collect()} & unread.keys()
    return {
        path: landing.unread_file(job.place.layout.landing_root, FileId(path, unread[path]), landed_files.RULE)
        for path in paths
    }


def _unread_files(job: Job, spark: SparkSession, listed: dict[str, int], batch_id: int) -> dict[str, int]:
    """Without the files that bronze or quarantine have from an earlier checkpoint version or refresh, whatever their times are now.

    Entries that are replayed are only searched in bronze, because they are in quarantine.
    """
    if job.work.is_first_read(job):
        return listed
    # The first batches of most checkpoints are the first reading of their files.
    from tidegate.spark.batch import compared_files

    assert isinstance(job.flow.source, FileSource)
    source_folder = landing_folder.of(job.place, job.flow.source)
    contents = _read_contents(job, spark, source_folder, listed, batch_id)
    unread = [file for file in file_id.of_paths(listed) if not contents.named(file)]
    same = compared_files.same_files(job, unread, contents)
    return dict(file for file in unread if file not in same)


def _read_contents(
    job: Job, spark: SparkSession, source_folder: LandingFolder, listed: Iterable[str], batch_id: int
) -> FileContents:
    """What bronze and quarantine have of files with these paths, whatever their times."""
    from tidegate.status.file_contents import FileContent, FileContents

    keys = {source_folder.key(path) for path in listed}
    paths = [(f"{folder}/{key}",) for key in keys for folder in (source_folder.path, *source_folder.earlier)]
    candidates = F.broadcast(local.from_rows(spark, paths, "_of_path string"))
    stored: list[FileContent] = []
    entries: list[FileContent] = []
    if tables.exists(job.target):
        rows = tables.read(spark, job.target)
        checksum = F.col(hidden.CHECKSUM) if hidden.CHECKSUM in rows.columns else F.lit(None).cast("string")
        by_file = rows.select(
            F.expr(file_id.path_sql(hidden.PATH)).alias("_of_path"),
            F.unix_millis(hidden.MODIFIED_AT).alias("_of_ms"),
            hidden.SIZE,
            checksum.alias(hidden.CHECKSUM),
            F.unix_micros(hidden.INGESTED_AT).alias("_read_at"),
        )
        own = by_file.join(candidates, "_of_path", "left_semi").distinct().collect()
        stored = [FileContent(FileId(*row[:2]), *row[2:4]) for row in sorted(own, key=lambda row: row["_read_at"])]
    if not job.work.of_entries and tables.exists(job.place.quarantine):
        refused = tables.read(spark, job.place.quarantine).where(
            (F.col("level") == "file")
            # Except entries that an earlier attempt at this batch wrote.
            & ~quarantine.is_of_batch(job, batch_id)
        )
        own = (
            refused.withColumn("_of_path", F.get_json_object("source", "$.path"))
            .join(candidates, "_of_path", "left_semi")
            .orderBy("quarantined_at")
            .select(hidden.ROW_ID, "source")
            .collect()
        )
        entries = [FileContent.of_entry(row.asDict()) for row in own]
    return FileContents.of(source_folder, stored, entries)


def _apply_earlier_split(
    job: Job, spark: SparkSession, batch_id: int, checked: list[CheckedFile]
) -> tuple[list[CheckedFile], list[CheckedFile]]:
    # By path: a replayed file may have another modification time than its entry.
    refused = {
        FileId.parse(row[hidden.ROW_ID]).path: row["rules"][0]
        for row in job.work.refused_ids(job, spark, batch_id).collect()
    }
    good = [file for file in checked if file.path not in refused]
    changed = [file.path for file in good if file.problem is not None]
    if changed:
        raise CheckpointCorruptError(
            f"flow {job.flow.name!r}: {', '.join(changed)} was readable when batch {batch_id} was split, "
            "and is not now.",
            OutsideAct("restore the file (or undo the override that skips it) and run again"),
            path=str(job.place.checkpoint),
        )
    return good, [landing.with_problem(file, refused[file.path]) for file in checked if file.path in refused]
