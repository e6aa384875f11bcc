"""Replay: quarantined entries go through the flow's present transform and suite again, exactly once.

A replay claims open entries in bounded numbers. Each claim has a number, used in place of a batch id, under a transaction
id that all replays of a flow share. The commits of a claim:

a. claim: the entries are locked for this replay;
b. steps 0 to 5 of `tidegate.spark.batch.micro_batch`; step 3 marks the entries that break a rule again;
c. settle: these are open again, the others become ``replayed``.

After a crash the claim is unfinished. The flow's next replay finishes it before it claims more. The flow's next run
finishes it if late table or target contain its transaction, and otherwise releases its entries. A replay that fails with a
permanent error releases them, too. A retry of the same request continues where the previous attempt stopped. Rows enter
through the silver flow that refused them: its sequence columns decide, so that an old row never replaces a newer one. A
file is read into bronze again, with its present content.

Longer than 300 lines: its commits and what settles them after a crash are one protocol.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import pendulum
import pyarrow

from tidegate import hidden, json_codec
from tidegate.advice import Command, OutsideAct, Then
from tidegate.checkpoints import checkpoint, history, landing_folder, progress
from tidegate.checkpoints.pending_jobs import CLAIM, PendingReplay
from tidegate.errors import RequestError
from tidegate.formatting import count
from tidegate.lake.place import RunPlace
from tidegate.ops.ledger import LEDGER
from tidegate.quarantine import claims, decision, lifecycle
from tidegate.spark.batch import micro_batch, quarantine
from tidegate.spark.batch.checks import check_balance, decide, last_batches
from tidegate.spark.batch.split import Decision, Split
from tidegate.spark.driver.failures import translate
from tidegate.spark.driver.lease import leased_flow
from tidegate.spark.lake import tables
from tidegate.spark.reprocessing import pending_work, undo
from tidegate.spark.reprocessing.pending_work import NotedWork
from tidegate.spec import FileSource
from tidegate.store import Address

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tidegate.quarantine.selection import Selection
    from tidegate.spark.job import Job
    from tidegate.spark.lake.writes import Transaction


@dataclass(frozen=True, kw_only=True)
class Replay(PendingReplay, NotedWork):
    """The claim of quarantined entries; its number is used in place of the batch id."""

    line_kind = "replay"
    of_entries = True
    compares = "before"
    may_be_dropped_after: ClassVar[tuple[str, ...]] = ("quarantine",)

    started_ms: int
    """When the replay began, in milliseconds since 1970."""
    entries: tuple[Mapping[str, str], ...]
    """``_row_id`` and ``source`` of the claimed entries."""

    @classmethod
    def pending(cls, job: Job) -> Self | None:
        """The interrupted one; later, while a run writes to staging."""
        note = CLAIM.read(job.place)
        if note is None or job.target != job.live:
            return None
        claimed = claims.unfinished_claim(job.place.quarantine)
        number = _NO_CLAIM if claimed is None else claimed.number
        entries = () if claimed is None else tuple(claims.entries_of(job.place.quarantine, number))
        return cls(by=note.by, number=number, started_ms=_now_ms(), entries=entries)

    def has_begun(self, job: Job) -> bool:
        """Whether late table or target have rows of the claim."""
        return self.number != _NO_CLAIM and super().has_begun(job)

    def finish(self, job: Job) -> None:
        """Steps b and c, for the request of the replay: the ledger line names it, also when a later run writes it."""
        request = dataclasses.replace(job.run.request, mode="replay", requested_by=self.by)
        process_claim(dataclasses.replace(job, run=dataclasses.replace(job.run, request=request)), self.number)
        job.run.report.notes.append(f"finished the interrupted replay {self.number}")

    def drop(self, job: Job) -> None:
        """Release its entries: a run does not replay entries without a request."""
        if self.number != _NO_CLAIM:
            claims.release(job.place.quarantine, self.number)
            released = count(len(self.entries), "entry", "entries")
            job.run.report.notes.append(
                f"released the entries of the interrupted replay {self.number}: {released} open again"
            )
        CLAIM.clear(job.place)

    def planned_ms(self, job: Job, batch_id: int) -> int:
        """When the replay began."""
        return self.started_ms

    def listed_files(self, job: Job, batch_id: int) -> dict[str, int]:
        """The claimed files with their current modification time: they may have been corrected in place."""
        modified: dict[str, int] = {}
        assert isinstance(job.flow.source, FileSource)
        source_folder = landing_folder.of(job.place, job.flow.source)
        for entry in self.entries:
            source = json.loads(entry["source"])
            path = source_folder.present_path(source["path"])
            try:
                modified_ms = job.place.layout.landing_root.of_uri(path).stat().modified_ns // 1_000_000
            except (OSError, ValueError):
                modified_ms = int(source["modified_ms"])
            modified[path] = modified_ms
        return modified

    def write_refused(self, job: Job, split: Split, batch_id: int, txn: Transaction) -> None:
        """They are entries already."""
        assert split.refused is not None
        return_entries(job, split.refused, self.entries, txn)

    def refused_ids(self, job: Job, spark: SparkSession, batch_id: int) -> DataFrame:
        """The returned entries."""
        return quarantine.refused_in_replay(job, spark, batch_id)


ENTRIES_AT_ONCE = 10_000
"""The maximum of one claim, so that memory does not grow with the quarantine."""
_REPAIR = OutsideAct("restore it from a backup")
_NO_CLAIM = -1
"""The number of a replay that was interrupted before it claimed entries."""


def return_entries(job: Job, refused: DataFrame, entries: Sequence[Mapping[str, str]], txn: Transaction) -> None:
    """Mark the claimed entries that were refused again; they keep their ids and stay open.

    Args:
        refused: `tidegate.spark.batch.quarantine.REFUSED` rows.
        entries: The claimed entries.
    """
    refused_rules = {row[hidden.ROW_ID]: row["rules"] for row in refused.select(hidden.ROW_ID, "rules").collect()}
    rules_by_id = job.kind.returned(job, refused_rules, entries)
    string = pyarrow.string()
    rows = {
        hidden.ROW_ID: pyarrow.array(list(rules_by_id), string),
        "rules": pyarrow.array(list(rules_by_id.values()), pyarrow.list_(string)),
    }
    claims.mark_returned(
        job.place.quarantine,
        txn.batch_id,
        pyarrow.table(rows),
        suite_fingerprint=job.gate.suite.fingerprint if job.gate is not None else None,
        app_id=txn.app_id,
        user_metadata=txn.metadata(),
    )


def replay_entries(job: Job, selection: Selection, *, limit: int | None = None, dry_run: bool = False) -> None:
    """Replay open quarantine entries of a flow. Its report gets a batch of kind ``replay`` for each claim.

    Args:
        selection: Which open entries.
        limit: The maximum number of entries; None means no limit.
        dry_run: Judge the first `ENTRIES_AT_ONCE` entries at most, report the result and write nothing.

    Raises:
        RequestError: The live table does not belong to the flow's checkpoint, because a full refresh is unfinished; or a
            batch of a flow with a watermark is half-written.
        TidegateError: As for a run. The next replay finishes the claim.
    """
    flow = job.flow.name
    with leased_flow(job.spark, job.resolved, job.run, work=f"replay of flow {flow!r}", role="replay"):
        _check_ready(job, dry_run=dry_run)
        if not dry_run:
            pending_work.settle(job, undo.Undo)
        if dry_run:
            _dry_run(job, selection, min(limit or ENTRIES_AT_ONCE, ENTRIES_AT_ONCE))
        else:
            _replay(job, selection, limit)


def _check_ready(job: Job, *, dry_run: bool) -> None:
    checkpoint.check_compatible(job.place.layout, job.resolved)
    if job.source_table is None or not tables.exists(job.place.quarantine):
        return
    if job.app_id not in tables.transactions(job.spark, job.live):
        raise RequestError(
            f"flow {job.flow.name!r}: table {job.flow.target.name!r} does not contain data of "
            f"checkpoint v{job.place.version} yet, so replayed rows would be lost.",
            Then(
                Command.tidegate("run", job.place.pipeline, "--flow", job.flow.name, says="run the flow first: {}"),
                Command.tidegate("quarantine", "replay", job.place.pipeline, job.flow.name),
            ),
        )
    if not dry_run:
        _check_watermark(job)
        decision.retire(job.place)


def _check_watermark(job: Job) -> None:
    """Entries enter after all rows of the table, so the watermark of each batch that is in it must be recorded."""
    pending = None if job.flow.watermark is None else progress.read(job.place.checkpoint).pending_batch
    if pending is not None and pending in last_batches(job).values():
        raise RequestError(
            f"flow {job.flow.name!r}: batch {pending} is half-written, and by its rows replayed ones may be late.",
            Then(
                Command.tidegate("run", job.place.pipeline, "--flow", job.flow.name, says="run the flow first: {}"),
                Command.tidegate("quarantine", "replay", job.place.pipeline, job.flow.name),
            ),
        )


def _replay(job: Job, selection: Selection, limit: int | None) -> None:
    unfinished = claims.unfinished_claim(job.place.quarantine)
    if unfinished is not None:
        process_claim(job, unfinished.number)
    earlier = _claim_numbers(job)
    _report_earlier(job, earlier)
    number = _highest_number(job) + 1
    first = min(earlier, default=number)
    remaining = None if limit is None else limit - claims.count_entries(job.place.quarantine, earlier)
    while remaining is None or remaining > 0:
        claim_limit = ENTRIES_AT_ONCE if remaining is None else min(remaining, ENTRIES_AT_ONCE)
        claimed = claim(job, selection, number=number, first=first, limit=claim_limit)
        if claimed is None:
            break
        process_claim(job, number)
        number += 1
        remaining = None if remaining is None else remaining - claimed.entries


def claim(job: Job, selection: Selection, *, number: int, first: int, limit: int) -> claims.Claim | None:
    """Step a: claim entries; None if none match. The claim is noted in files first, so that a later run finds it."""
    by = job.run.request.requested_by or "tidegate"
    _note_claim(_claims_file(job), number)
    CLAIM.write(job.place, PendingReplay(by=by))
    created = claims.create(job.place.quarantine, selection, number=number, first=first, limit=limit, by=by)
    if created is None:
        CLAIM.clear(job.place)
    return created


def _claims_file(job: Job) -> Address:
    return RunPlace(job.place.layout, job.place.pipeline, job.run.request.run_key).claims(job.run.request.request_id)


def _claim_numbers(job: Job) -> list[int]:
    """The claims of earlier attempts at the same request, ascending; may include released ones."""
    return sorted(set(json_codec.read(_claims_file(job), list[int], _REPAIR) or ()))


def _note_claim(file: Address, number: int) -> None:
    """Add a number to those of a request, of which two attempts may be at work for a moment."""

    def added(data: bytes | None) -> bytes:
        known = None if data is None else json_codec.value_of(file, data, list[int], _REPAIR)
        return json_codec.to_bytes([*(known or ()), number])

    file.update(added)


def _report_earlier(job: Job, numbers: Sequence[int]) -> None:
    """Add the ledger lines of earlier attempts to this report, which covers the whole request."""
    reported = {record.batch_id for record in job.run.report.batches}
    missing = ", ".join(str(number) for number in numbers if number not in reported)
    if not missing:
        return
    where = f"app_id = '{job.place.replays_app_id}' AND batch_id IN ({missing})"
    earlier = sorted(LEDGER.read(job.place.of_pipeline, where), key=lambda line: line.batch_id)
    job.run.report.batches[:0] = [line.prepared() for line in earlier]


def process_claim(job: Job, number: int) -> None:
    """Steps b and c of one claim; steps that an earlier attempt has done are skipped.

    Raises:
        TidegateError: As for a run. After a permanent error, the claim is released unless late table or target contain it.
    """
    entries = claims.entries_of(job.place.quarantine, number)
    replay, session = _claimed(job, number, entries), job.spark.newSession()
    claim_job = job.doing(replay)
    try:
        if decide(claim_job, number).written:
            batch = session.range(0).toDF(hidden.ROW_ID)
        else:
            batch = job.kind.read_entries(claim_job, session, entries)
            _reopen_missing(claim_job, batch, number, entries)
        micro_batch.process(claim_job, batch, number)
    except Exception as error:
        failure = translate(error, what="a replay", checkpoint=str(job.place.checkpoint))
        if not failure.transient and not replay.has_begun(job):
            claims.release(job.place.quarantine, number)
            CLAIM.clear(job.place)
        raise
    claims.settle(job.place.quarantine, number)
    CLAIM.clear(job.place)


def _highest_number(job: Job) -> int:
    """The highest claim number in the quarantine's rows, in the transactions of the tables that a replay writes, and in its recorded split.

    The split of a claim that was released must not be that of another one.
    """
    recorded = history.recorded_split(job.place, job.place.replays_app_id)
    paths = (job.place.quarantine, job.place.late, job.live)
    written = [tables.transactions(job.spark, path).get(job.place.replays_app_id, -1) for path in paths]
    last = -1 if recorded is None else recorded.batch_id
    return max(*written, last, claims.highest_number(job.place.quarantine))


def _dry_run(job: Job, selection: Selection, limit: int) -> None:
    entries = lifecycle.unclaimed_entries(job.place.quarantine, selection, limit)
    job.run.report.dry_run = True
    if not entries:
        return
    number = _highest_number(job) + 1
    claim_job = job.doing(_claimed(job, number, entries))
    try:
        batch = job.kind.read_entries(claim_job, job.spark.newSession(), entries)
        split = micro_batch.split_batch(claim_job, batch, number, Decision(quarantined=False, written=False))
        if split is not None:
            check_balance(claim_job, split.prepared)
            claim_job.run.record_batch(split.prepared)
    finally:
        claim_job.release()


def _claimed(job: Job, number: int, entries: list[dict[str, Any]]) -> Replay:
    by = job.run.request.requested_by or "tidegate"
    return Replay(by=by, number=number, started_ms=_now_ms(), entries=tuple(entries))


def _now_ms() -> int:
    return int(pendulum.now("UTC").timestamp() * 1000)


def _reopen_missing(job: Job, batch: DataFrame, number: int, entries: list[dict[str, Any]]) -> None:
    """Reopen entries whose record is no longer in bronze. For a missing file, step 2 returns an entry ``vanished``."""
    if job.source_table is None:
        return

    present = {row[hidden.ROW_ID] for row in batch.select(hidden.ROW_ID).collect()}
    missing = [entry[hidden.ROW_ID] for entry in entries if entry[hidden.ROW_ID] not in present]
    if missing:
        ids = pyarrow.table({hidden.ROW_ID: pyarrow.array(missing, pyarrow.string())})
        claims.reopen_missing(job.place.quarantine, number, ids)
