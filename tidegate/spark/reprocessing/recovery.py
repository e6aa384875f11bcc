"""Recovery of one flow: what is damaged gives way to the next refresh of its checkpoint, which derives everything again.

The order makes each step safe to repeat: what is lost is accepted and recorded; damaged parts of tables are moved aside, after which
the flow is still damaged; then the refresh opens, and from then on the flow is as one whose full refresh or reingest goes on.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import pendulum

from tidegate import json_codec
from tidegate.checkpoints import checkpoint, overrides
from tidegate.checkpoints.overrides import Override
from tidegate.errors import LossNotAcceptedError
from tidegate.lake.place import Place
from tidegate.ops import ledger, store
from tidegate.planning import losses
from tidegate.probes import delta, delta_history
from tidegate.status import damage, evidence

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidegate.spark.job import Job
    from tidegate.status.damage import Damage


def damages_of(job: Job) -> tuple[Damage, ...]:
    """What is damaged of the flow; empty if it is whole, or if only its recovery is to be continued."""
    damages = damage.of_flow(job.place.layout, job.resolved)
    return () if all(each.kind == "unfinished" for each in damages) else damages


def accept_loss(job: Job, damages: Sequence[Damage]) -> int:
    """Record that the request accepts what no source has any more, beside the checkpoint and in the ledger; its number.

    Raises:
        LossNotAcceptedError: The request does not accept it. Nothing was changed.
    """
    layout, pipeline = job.place.layout, job.place.pipeline
    loss = losses.of_flow(layout, job.clusters, job.resolved, tuple(damages))
    if loss is None:
        return 0
    if loss.acceptance not in job.run.request.accept:
        raise LossNotAcceptedError([(pipeline, loss.flow, loss.what, loss.acceptance)])
    decided = [each for each in overrides.history(job.place) if each.act == "loss"]
    if not decided or (decided[-1].lost, decided[-1].what) != (loss.number, loss.what):
        by = job.run.request.requested_by or "unknown"
        reason = f"accepted with the recovery {job.run.request.run_key}"
        overrides.record(job.place, Override(act="loss", by=by, reason=reason, lost=loss.number, what=loss.what))
    ledger.record_gaps(job.place)
    return loss.number


def set_damaged_aside(job: Job) -> None:
    """Move what cannot be read of the flow's tables aside: the end of a log that is cut off, or a folder without a readable version."""
    layout = job.place.layout
    moved = []
    for path in damage.own_paths(job.place, job.flow):
        aside = layout.aside(path, pendulum.now("UTC").format("YYYYMMDDTHHmmss"))
        readable = delta_history.readable_version(path)
        if readable is None:
            if path.list():
                path.move(aside)
                moved.append((path, aside))
        elif unusable := delta_history.unusable_files(path, readable):
            for file in unusable:
                file.move(aside / "_delta_log" / file.name)
            moved.append((path, aside))
    for path, aside in moved:
        job.run.report.notes.append(f"what cannot be read of {path.key} was moved to {aside.key} in the lake")
    if moved:
        # Spark has a snapshot of the log in memory, where it opened the table before.
        job.spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()  # type: ignore[union-attr]


def open_refresh(job: Job, damages: Sequence[Damage], lost: int) -> Job:
    """Open the next refresh, whose swap may delete as many rows as were accepted to be lost.

    Its number is behind those of all transactions, also after a folder of checkpoints was put back or lost.
    """
    paths = evidence.own_tables(job.place, job.flow)
    used = [job.place.refresh]
    for path in paths:
        places = (job.place.of_stream(app_id) for app_id in delta.writers(path, job.app_id))
        used += [place.refresh for place in places if place is not None and place.version == job.place.version]
    sql = (
        f"SELECT coalesce(max(refresh), 0)::BIGINT AS refresh FROM delta_table WHERE flow = '{job.flow.name}' "
        f"AND checkpoint_version = {job.place.version}"
    )
    used += [int(line["refresh"]) for line in store.select(job.place.of_pipeline.ops("ledger"), sql)]
    place: Place = dataclasses.replace(job.place, refresh=max(used) + 1)
    origin = checkpoint.Origin(
        mode="recover",
        run_key=job.run.request.run_key,
        request_id=job.run.request.request_id,
        requested_by=job.run.request.requested_by,
        lost=lost,
        damages=tuple(json_codec.to_plain(each) for each in damages),
    )
    checkpoint.record_refresh_origin(place, origin)
    return job.refreshed(place)


def finish(job: Job) -> None:
    """Note that the recovery of the flow is done, so that it is not continued any more."""
    origin = checkpoint.ORIGIN.read(job.place)
    if origin is not None and origin.recovers:
        checkpoint.ORIGIN.write(job.place, dataclasses.replace(origin, done=True))
