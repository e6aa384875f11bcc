"""Declaration of a watermark: how late the rows of an append-only table may come."""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.spec.durations import check_duration, in_seconds


@dataclass(frozen=True, kw_only=True)
class Watermark:
    """How late rows may come, by the ``event_time`` of the table that the flow appends to.

    The watermark of a row is the highest event time of all earlier batches of bronze, less ``delay``. A row with an older event
    time is late: it goes to the flow's late table, which says how late it is, and not to the target. Stateful flows that
    read the target need it, because it says when a result is final.
    """

    delay: str
    """A duration, as ``"10 minutes"``. What a stateful flow remembers, and how long its windows stay open, grows with it."""
    skew: str = "5 minutes"
    """How far an event time may be after the time at which its row was ingested. A row beyond it is quarantined, so that one
    wrong clock cannot move the watermark."""
    idle: str | None = None
    """After this time without new rows of bronze, the clock moves the watermark, so that the last window of a quiet topic
    closes. None: only rows move it."""

    def __post_init__(self) -> None:
        check_duration("Watermark", "delay", self.delay)
        check_duration("Watermark", "skew", self.skew)
        if self.idle is not None:
            check_duration("Watermark", "idle", self.idle)

    @property
    def delay_seconds(self) -> int:
        """``delay`` in seconds."""
        return in_seconds(self.delay)

    @property
    def skew_seconds(self) -> int:
        """``skew`` in seconds."""
        return in_seconds(self.skew)

    @property
    def idle_seconds(self) -> int | None:
        """``idle`` in seconds; None without."""
        return None if self.idle is None else in_seconds(self.idle)
