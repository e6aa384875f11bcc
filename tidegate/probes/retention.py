"""Until when a topic keeps what is not read, by its settings and a look at its messages."""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from tidegate.errors import SourceError, SourceUnavailableError
from tidegate.probes.kafka import offsets_at, settings_of
from tidegate.probes.samples import consume

if TYPE_CHECKING:
    from tidegate.environment.clusters import Cluster

_LONGEST_RETENTION_MS = 10 * 366 * 86_400_000
"""Ten years. Without a limit, a time that is computed from it may overflow."""


def unread_until(
    cluster: Cluster, topic: str, unread: Mapping[int, int], timeout: float = 5.0, isolation: str = "read_uncommitted"
) -> datetime | None:
    """Up to when the topic's retention certainly keeps all unread messages.

    A broker deletes a segment when its newest message is older than ``retention.ms``, so no message sooner than that.

    Args:
        unread: Partition to the offset that is read next, for partitions with unread messages.

    Returns:
        None if the topic deletes no message for its age, if all unread messages are younger than half of the retention, or if the
        broker does not say.
    """
    try:
        settings = settings_of(cluster, topic, timeout)
        milliseconds = int(settings.get("retention.ms", "-1"))
        if milliseconds < 0 or "delete" not in settings.get("cleanup.policy", ""):
            return None
        retention = timedelta(milliseconds=min(milliseconds, _LONGEST_RETENTION_MS))
        young = offsets_at(cluster, topic, datetime.now(UTC) - retention / 2, timeout, isolation)
    except (SourceError, SourceUnavailableError):
        # Reading a topic does not imply the permission to read its settings.
        return None
    old = {partition: offset for partition, offset in unread.items() if offset < young.get(partition, offset)}
    sent = [message.timestamp()[1] for message in consume(cluster, topic, old, len(old), timeout, isolation)]
    # A message of Kafka before 0.10 has no timestamp. One with a time in the future keeps its segment until that time has come.
    past = [milliseconds for milliseconds in sent if milliseconds <= time.time() * 1000]
    return datetime.fromtimestamp(min(past) / 1000, UTC) + retention if past and min(past) > 0 else None
