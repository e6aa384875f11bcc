"""Whether a heartbeat of a flow is due: nothing came for so long that the clock moves its watermark. Starts no JVM."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegate import hidden
from tidegate.checkpoints import checkpoint, progress
from tidegate.ops import heartbeats
from tidegate.ops.heartbeats import Heartbeat
from tidegate.probes import delta
from tidegate.sources.tables import measure as tables
from tidegate.status import freshness
from tidegate.times import dates, lateness

if TYPE_CHECKING:
    from datetime import datetime

    from tidegate.lake.place import Place
    from tidegate.project.resolution import ResolvedFlow


def heartbeat_due(resolved: ResolvedFlow, place: Place, now: datetime) -> Heartbeat | None:
    """The heartbeat that is due; None for a flow without ``idle``, and while there are rows that it has not read.

    A heartbeat comes after the commits of bronze that there are, and before all later ones. A batch of bronze that is planned must be
    written and read first: its rows came before the heartbeat, and would be late by it. One that is planned after the call has begun
    comes after the heartbeat, whatever the clock of its machine says.

    Args:
        now: The present time, taken before the call: the only thing that a clock decides here is that nothing came for so long.
    """
    flow, writer = resolved.flow, resolved.writer
    if flow.watermark is None or flow.watermark.idle_seconds is None or writer is None:
        return None
    above = checkpoint.current(resolved.above(place.layout), writer.checkpoint_version)
    if progress.read(above.checkpoint).pending_batch is not None:
        return None
    state, bronze = progress.read(place.checkpoint), place.layout.read_table(writer.target.name)
    if state.last_committed is None or state.pending_batch is not None:
        return None
    # Before it is known that all of it was read: what is committed later comes after the heartbeat.
    version = delta.current_version(bronze)
    committed = progress.planned_batch(place.checkpoint, state.last_committed)
    if tables.of_table(bronze, flow.feeds[0], committed).has_data:
        return None
    newest, lines = freshness.newest(bronze, hidden.INGESTED_AT, now), heartbeats.read(place)
    if newest is None:
        return None
    delay = flow.watermark.delay_seconds
    event_time = lateness.due_heartbeat(
        dates.micros(now),
        last_arrival=max([dates.micros(newest), *(each.at for each in lines)]),
        watermark=heartbeats.watermark(place, lines, delay),
        delay_seconds=delay,
        idle_seconds=flow.watermark.idle_seconds,
    )
    if event_time is None:
        return None
    return Heartbeat(
        event_time=event_time,
        at=dates.micros(now),
        app_id=place.app_id,
        version=version,
        watermark=lateness.after(event_time, delay),
    )
