"""The attempts at the runs of a pipeline whose lake or landing zone is in a bucket: what they asked of object stores.

A Delta table per pipeline, ``_ops/<pipeline>/attempts``, written with delta-rs when an attempt ends; lines of the ledger are written
before. Starts no JVM.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from tidegate.ops.table import OwnTable


@dataclass(frozen=True, kw_only=True)
class AttemptLine:
    """One attempt."""

    run_key: str
    attempt: str
    mode: str
    """Mode of the run's request."""
    requests: Mapping[str, int]
    """Requests that were sent, by ``<who> <method> <kind of object>``. Who: ``platform``, the driver itself; ``spark``, its JVM. Kind:
    ``log`` of a table, ``state``, what else is of a ``checkpoint``, ``other``. Not those of delta-rs, of Python workers, which read
    landed files, and of executors on other machines."""
    recorded_at: datetime = dataclasses.field(default_factory=lambda: datetime.now(UTC))


ATTEMPTS = OwnTable("attempts", AttemptLine)
