"""The heartbeats of a flow: times by which the clock moved its watermark. Written with delta-rs, starts no JVM.

Stateful flows read them as a stream beside the rows of the flow, so the table exists from the flow's first run on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidegate import hidden
from tidegate.ops import arrow, ledger, store
from tidegate.probes import delta_table
from tidegate.times import dates, lateness

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tidegate.lake.place import Place


COLUMNS = {
    **dict.fromkeys(("event_time", "at"), "TIMESTAMPTZ"),
    hidden.APP_ID: "VARCHAR",
    "watermark": "TIMESTAMPTZ",
    "version": "BIGINT",
}
"""The columns of the table, with their types in SQL."""
_KEPT_DAYS = 30
"""The retention of the tables that Spark writes (`tidegate.spark.driver.session`)."""


@dataclass(frozen=True, kw_only=True)
class Heartbeat:
    """One line of the table, in microseconds since 1970."""

    event_time: int
    at: int
    """When it was written."""
    app_id: str
    """The checkpoint that had read everything by then."""
    version: int | None = None
    """The newest version of bronze when it was written, all of which was read: it came after that. None in lines of earlier releases."""
    watermark: int | None = None
    """The watermark that it made with the delay declared then: stateful flows have read it, so a longer delay does not move it back."""


def create(place: Place) -> None:
    """Create the table, without lines, unless it exists."""
    from deltalake import DeltaTable

    address = place.heartbeats
    if delta_table.find(address) is None:
        address.parent.make_folder()
        DeltaTable.create(
            address.written_uri, schema=arrow.table(COLUMNS, ()).schema, storage_options=dict(address.options)
        )


def append(place: Place, heartbeat: Heartbeat) -> None:
    """Append a line."""
    line = {
        "event_time": dates.from_micros(heartbeat.event_time),
        "at": dates.from_micros(heartbeat.at),
        hidden.APP_ID: heartbeat.app_id,
        "version": heartbeat.version,
        "watermark": None if heartbeat.watermark is None else dates.from_micros(heartbeat.watermark),
    }
    # A stateful flow that waits for a person reads its files later: as long as those of any table.
    store.append(place.heartbeats, COLUMNS, [line], keep_days=_KEPT_DAYS)


def read(place: Place) -> list[Heartbeat]:
    """All lines; none without a table."""
    return [
        Heartbeat(
            event_time=dates.micros(line["event_time"]),
            at=dates.micros(line["at"]),
            app_id=line.get(hidden.APP_ID) or "",
            version=line.get("version"),
            watermark=None if line.get("watermark") is None else dates.micros(line["watermark"]),
        )
        for line in store.select(place.heartbeats, "SELECT * FROM delta_table")
    ]


def watermark(place: Place, lines: Iterable[Heartbeat], delay_seconds: int, before: int | None = None) -> int | None:
    """The watermark of a checkpoint, in microseconds since 1970; None without one.

    It is that of its batches and of its heartbeats. Those of earlier checkpoints count as batches of bronze: all of them now, but not
    before a batch, which a refresh may read again from before they were written.

    Args:
        lines: All heartbeats of the flow.
        before: That before the batch with this number; the present one by default.
    """
    recorded = ledger.watermark(place, before)
    counted = [each for each in lines if before is None or each.app_id == place.app_id]
    arrivals = [lateness.Arrival(version=None, newest=each.event_time) for each in counted]
    by_clock = lateness.watermarks(arrivals, delay_seconds).after
    made = [each.watermark for each in counted if each.app_id == place.app_id]
    return lateness.highest(None if recorded is None else dates.micros(recorded), by_clock, *made)
