"""What earlier runs of a flow left unfinished; its next run finishes it first. Starts no JVM."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidegate.checkpoints import lease, pending_jobs, refusal, rewrite
from tidegate.checkpoints.pending_jobs import PendingJob, PendingWindow
from tidegate.probes import delta
from tidegate.status.backlog import BacklogReading
from tidegate.status.checkpoint_reading import measured

if TYPE_CHECKING:
    from tidegate.checkpoints.rewrite import JudgedRewrite
    from tidegate.lake.place import Place
    from tidegate.spec import Flow


@dataclass(frozen=True, kw_only=True, eq=False)
class UnfinishedReading(BacklogReading):
    """A reading with what earlier runs of the flow left unfinished."""

    @measured
    def refused_rewrite(self) -> JudgedRewrite | None:
        """A backfill or a swap whose numbers exceed the limits, and are not accepted."""
        return rewrite.refused(self.place)

    @measured
    def quarantined_whole(self) -> bool:
        """Whether a person decided that all of the pending batch goes to quarantine."""
        batch = self.progress.pending_batch
        decision = None if batch is None else refusal.decision(self.place, batch)
        return decision is not None and decision.action == "take"

    @measured
    def written(self) -> bool:
        """Whether the table has the pending batch; its ledger line or its end in the checkpoint is missing."""
        batch = self.progress.pending_batch
        return batch is not None and not self.quarantined_whole and is_written(self.place, self.resolved.flow, batch)

    @measured
    def refresh_pending(self) -> bool:
        """Whether a full refresh is staged and not swapped in."""
        return is_staged(self.place, self.resolved.flow)

    @measured
    def unfinished(self) -> str:
        """What earlier runs left unfinished, which comes first: sentences, separated by semicolons."""
        return summary(
            self.progress.pending_batch,
            quarantined_whole=self.quarantined_whole,
            written=self.written,
            staged=self.refresh_pending,
            jobs=interrupted(self.place, self.resolved.flow),
        )


def summary(
    batch: int | None, *, quarantined_whole: bool, written: bool, staged: bool, jobs: Iterable[PendingJob]
) -> str:
    """Sentences without full stops, separated by semicolons; empty for nothing.

    Args:
        batch: The batch that was planned and not committed, or None.
        quarantined_whole: A person decided that all of it goes to quarantine.
        written: The table has it; its ledger line or its end in the checkpoint is missing.
        staged: A full refresh is staged and not swapped in.
        jobs: Interrupted backfills, reingests, replays and undos.
    """
    parts = []
    if quarantined_whole:
        parts.append(f"batch {batch} was refused and goes to quarantine whole")
    elif written:
        parts.append(f"batch {batch} is written and not recorded yet; its next run records it")
    elif batch is not None:
        parts.append(f"batch {batch} was planned and not committed")
    if staged:
        parts.append("a full refresh waits to be swapped in")
    return "; ".join([*parts, *(job.waits for job in jobs)])


def jobs(place: Place, flow: Flow) -> tuple[PendingJob, ...]:
    """The jobs that a run has to settle, also one that is in progress; a backfill or a reingest only if it has written something.

    Raises:
        DamagedFileError: The note of one is damaged.
    """
    return tuple(
        job for job in pending_jobs.read(place) if not isinstance(job, PendingWindow) or _has_begun(place, flow, job)
    )


def is_written(place: Place, flow: Flow, batch_id: int) -> bool:
    """Whether the table, or the staging table of a refresh, has a batch."""
    versions = (
        delta.transaction_version(path, place.app_id) for path in (place.staging, place.layout.table(flow.target.name))
    )
    return any(version is not None and version >= batch_id for version in versions)


def is_staged(place: Place, flow: Flow) -> bool:
    """Whether a full refresh is staged and not swapped into the live table yet."""
    return (
        place.staging.exists() and delta.transaction_version(place.layout.table(flow.target.name), place.app_id) is None
    )


def _has_begun(place: Place, flow: Flow, job: PendingWindow) -> bool:
    tables = (place.layout.table(flow.target.name), place.quarantine)
    return any(delta.transaction_version(path, job.app_id(place)) == job.number for path in tables)


def interrupted(place: Place, flow: Flow) -> tuple[PendingJob, ...]:
    """The jobs of which none is in progress: a job that is running holds the lease."""
    left = jobs(place, flow)
    running = left and lease.holder(place.layout, lease.checkpoint_resource(place.pipeline, place.flow)) is not None
    return () if running else left
