"""Pins the versions that a verification compares, so that commits of other jobs do not change what it reads.

The table's own transactions say which batch of which checkpoint it holds last. Batches that the checkpoint committed after it, up
to that version of the table, changed no row. The offset log of the checkpoint says what the last of them read of the source. So
table and source are pinned together without a lease.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pendulum
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidegate import hidden
from tidegate.advice import Advice, Command, Either, OutsideAct, Then
from tidegate.checkpoints import progress, vector
from tidegate.errors import CheckpointCorruptError, RequestError, SourceError, WriteConflictError
from tidegate.lake import identity
from tidegate.lake.place import Place
from tidegate.probes import delta
from tidegate.spark.batch import late_rows, quarantine
from tidegate.spark.batch.pinned import Pinned
from tidegate.spark.batch.work import BatchWork
from tidegate.spark.intake import parse
from tidegate.spark.lake import local, tables
from tidegate.spark.reprocessing import pending_work
from tidegate.spark.reprocessing.backfill import Backfill
from tidegate.status import unfinished

if TYPE_CHECKING:
    from tidegate.checkpoints.progress import DeltaPosition
    from tidegate.spark.job import Job
    from tidegate.store import Address


@dataclass(frozen=True, kw_only=True)
class Pins(Pinned, BatchWork):
    """The pinned versions, as the work of a flow whose rows are derived again and written nowhere."""

    compares = "never"
    split_is_final = False

    def app_id(self, place: Place) -> str:
        """The checkpoint's, under which nothing is written."""
        return place.app_id

    def planned_ms(self, job: Job, batch_id: int) -> int:
        """When the verification began."""
        return self.planned_at_ms

    def refused_ids(self, job: Job, spark: SparkSession, batch_id: int) -> DataFrame:
        """The rows that entries keep out of the table: open, waived and expired ones of the pinned checkpoint.

        The id of a change ends with the version and the type under which it was read (`parse.change_id`), so entries of a
        flow that reads a keyed table get those of the rows that are derived now.
        """
        if self.entries_version is None:
            return local.from_rows(spark, [], f"{hidden.ROW_ID} string, rules array<string>")
        entries = quarantine.refused_in_backfill(job, spark, self.entries_version)
        if job.resolved.landing is not None:
            return entries
        key, changed = parse.changed_key().alias("_changed_key"), parse.changed_version()
        made = tables.read(spark, job.live, self.version).select(key, changed.alias("_made"))
        newest = entries.groupBy(key).agg(F.first("rules").alias("rules"), F.max(changed).alias("_changed"))
        passed = made.groupBy("_changed_key").agg(F.max("_made").alias("_made"))
        # A later change of the row than the one in quarantine made what the table has.
        refused = newest.join(passed.where("_made IS NOT NULL"), "_changed_key", "left").where(
            "_made IS NULL OR _made < _changed"
        )
        return refused.select(
            F.concat_ws("|", "_changed_key", F.lit(str(self.source_version)), F.lit("insert")).alias(hidden.ROW_ID),
            "rules",
        )

    def late_ids(self, job: Job, spark: SparkSession, batch_id: int) -> DataFrame:
        """The rows in the late table, of all batches of the pinned checkpoint."""
        return late_rows.of_checkpoint(job, spark)


def pin(job: Job) -> Job:
    """The flow with its pinned checkpoint, and `Pins` as its work.

    Raises:
        RequestError: The flow has written nothing yet, or its new version is not swapped in.
        WriteConflictError: A job has written a part of its rows, or the table is ahead of its increments. Transient.
        SourceError: The source table can no longer be read at the version.
    """
    flow, name = job.flow, job.place.pipeline
    if not tables.exists(job.live):
        raise _never_written(job)
    version, entries_version, transactions, batches = _stable_versions(job)
    if not batches:
        raise _never_written(job)
    place = max(batches, key=_age)
    if flow.target.keys and place.version != flow.checkpoint_version:
        raise RequestError(
            f"flow {flow.name!r}: table {flow.target.name!r} was written by v{place.version}, and v{flow.checkpoint_version} "
            "is not swapped in yet.",
            Command.tidegate("run", name, "--flow", flow.name, says="run it first: {}"),
        )
    pinned = dataclasses.replace(job, place=place)
    _check_whole(pinned)
    pins = Pins(
        version=version,
        batches=batches,
        source_versions=_source_versions(pinned, batches[place]),
        entries_version=entries_version,
        planned_at_ms=int(pendulum.now("UTC").timestamp() * 1000),
    )
    _check_not_ahead(pinned, pins, transactions)
    return pinned.doing(pins, job.spark.newSession())


def _stable_versions(job: Job) -> tuple[int, int | None, dict[str, int], dict[Place, int]]:
    """The versions of table and quarantine, the table's transactions and `Pins.batches`, with no commit between the readings."""
    while True:
        before = _versions(job)
        transactions = tables.transactions(job.spark, job.live)
        batches = _batches(job, transactions)
        if _versions(job) == before:
            return *before, transactions, batches


def _batches(job: Job, transactions: Mapping[str, int]) -> dict[Place, int]:
    written = {place: batch for app_id, batch in transactions.items() if (place := job.place.of_stream(app_id))}
    batches = {}
    for place, batch in written.items():
        folder = place.checkpoint
        try:
            last = max(batch, progress.read(folder).last_committed or 0)
            progress.planned_batch(folder, last)
        except CheckpointCorruptError:
            if place == max(written, key=_age):
                raise
            # That of an earlier version or refresh is not needed any more, and may be lost.
            continue
        batches[place] = last
    return batches


def _age(place: Place) -> tuple[int, int]:
    return place.version, place.refresh


def _versions(job: Job) -> tuple[int, int | None]:
    entries = tables.version(job.spark, job.place.quarantine) if tables.exists(job.place.quarantine) else None
    return tables.version(job.spark, job.live), entries


def _source_versions(job: Job, batch_id: int) -> dict[str, int]:
    """The version of each source table with exactly the rows that the flow has read up to this batch."""
    names = job.flow.source_tables
    if not names:
        return {}
    if not job.flow.kind.follows_feed:
        # Bronze keeps the records as they are.
        return {names[0]: tables.version(job.spark, job.place.layout.read_table(names[0]))}
    planned = progress.planned_batch(job.place.checkpoint, batch_id)
    if len(names) == 1:
        return {names[0]: _readable(job, names[0], planned.delta, planned.delta.pin)}
    positions = planned.delta_positions(len(names))
    pinned = vector.of_batch(job.place, batch_id, names)
    # A batch reads a newer version in place of one that VACUUM took, and later batches read none before it.
    read = tables.source_versions(job.spark, job.live, job.place.app_id)
    return {
        name: _readable(job, name, position, max(pinned[name], read.get(name, 0)))
        for name, position in zip(names, positions, strict=True)
    }


def _readable(job: Job, table: str, position: DeltaPosition | None, version: int) -> int:
    """The newest version of a source with the rows of this one, that can be read."""
    path = job.place.layout.read_table(table)
    if position is not None and not _is_complete(path, position):
        raise WriteConflictError(
            f"flow {job.flow.name!r} has read a part of version {position.version} of {table}.", _run_and_verify(job)
        )
    try:
        later = delta.commits_since(path, version + 1)
    except FileNotFoundError:
        later = []
    if not any(commit.files for commit in later):
        # Later commits changed no row, for example OPTIMIZE, after which VACUUM may remove what this version needs.
        version = max([version, *(commit.version for commit in later)])
    if not delta.can_read_version(path, version):
        raise SourceError(
            f"flow {job.flow.name!r}: version {version} of its source table {table!r} can no longer be read, because VACUUM or "
            "a cleanup of the log removed files of it.",
            _run_and_verify(job),
        )
    return version


def _run_and_verify(job: Job) -> Advice:
    names = (job.place.pipeline, job.flow.name)
    return Then(
        Command.tidegate("run", names[0], "--flow", names[1], says="run the flow to the end: {}"),
        Command.tidegate("verify", *names),
    )


def _is_complete(address: Address, position: DeltaPosition) -> bool:
    """Whether a batch ends at the end of a version, and not between two of its files."""
    try:
        if position.of_snapshot:
            return len(delta.snapshot_files(address, position.version)) <= position.index + 1
        if position.index < 0:
            return True
        commit = delta.read_commit(address, position.version)
    except FileNotFoundError:
        # The log was cleaned: `_readable` says what to do.
        return True
    return commit.has_change_files or len(commit.files) <= position.index + 1


def _check_whole(job: Job) -> None:
    """Raise `WriteConflictError` if a backfill, a replay or an undo has written quarantine or table, and not yet the other."""
    names = (job.place.pipeline, job.flow.name)
    started = [each.what for each in unfinished.jobs(job.place, job.flow)]
    if started:
        raise WriteConflictError(
            f"flow {job.flow.name!r}: {' and '.join(started)} may have written a part of its rows.",
            Then(
                Either(
                    OutsideAct("if a job is running, wait until it ends"),
                    Command.tidegate("run", names[0], "--flow", names[1], says="else finish it: {}"),
                ),
                Command.tidegate("verify", *names),
            ),
        )


def _check_not_ahead(job: Job, pins: Pins, transactions: Mapping[str, int]) -> None:
    """Raise `WriteConflictError` if the last backfill read a newer version of the source than the increments."""
    number = transactions.get(job.place.windows_app_id)
    if not pins.source_versions or number is None or number not in pending_work.numbers(job):
        return
    derived = pending_work.read(job, number, Backfill).source_versions(job.flow)
    ahead = [table for table, version in pins.source_versions.items() if derived.get(table, version) > version]
    if ahead:
        raise WriteConflictError(
            f"flow {job.flow.name!r}: {identity.label(job.place.windows_app_id, number)} read a newer version of "
            f"{', '.join(ahead)} than the increments.",
            _run_and_verify(job),
        )


def _never_written(job: Job) -> RequestError:
    name, flow = job.place.pipeline, job.flow
    return RequestError(
        f"flow {flow.name!r} has not written table {flow.target.name!r} yet, so there is nothing to verify.",
        Command.tidegate("run", name, "--flow", flow.name, says="run it first: {}"),
    )
