"""Declaration of the state of a stateful flow."""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.errors import FieldError

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
