"""Declarations of the state of a stateful flow, and of the watermark of the rows that it reads."""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.errors import FieldError
from tidegate.spec.checks import check_duration, in_seconds

_MOST = 1024


@dataclass(frozen=True, kw_only=True)
class State:
    """What Spark remembers between the batches of a stateful flow, in RocksDB beside its checkpoint.

    The transform takes the stream of the source table, with its watermark, and returns it with one stateful operator: an
    aggregation of windows or sessions, ``dropDuplicatesWithinWatermark`` or ``transformWithStateInPandas``. A target without
    keys gets each result once: a window when it closes, or what was decided about a row. A target with ``keys`` alone gets
    each result of a key as soon as it changes; it replaces the earlier one.
    """

    partitions: int = 2
    """Into how many parts the state is divided by its keys; tasks treat them in parallel. They are fixed when the checkpoint
    is made: another number needs a new ``checkpoint_version``."""

    def __post_init__(self) -> None:
        if (
            isinstance(self.partitions, bool)
            or not isinstance(self.partitions, int)
            or not 1 <= self.partitions <= _MOST
        ):
            raise FieldError("State", "partitions", self.partitions, f"a whole number from 1 to {_MOST:,}")

    def remembered(self) -> dict[str, int]:
        """What the sidecar of a checkpoint stores."""
        return {"partitions": self.partitions}


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
