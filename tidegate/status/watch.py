"""Where all flows stand, for a process that is asked again and again: the last reading at once, a fresh one on its way.

Reading the standing of fifty flows takes longer than a page should. So a page gets the last reading, with its age, and
a reading that is too old is renewed behind its back. Only the first one is waited for, and a little for the next where
nobody looked for long: this morning's first page is not to show last evening.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from tidegate import registry
from tidegate.errors import TidegateError
from tidegate.layout import Layout
from tidegate.ops import journal
from tidegate.status import freshness, standing

if TYPE_CHECKING:
    from pathlib import Path

    from tidegate.environment import Environment
    from tidegate.spec import Pipeline
    from tidegate.status.standing import Standing

_INGESTED = "_ingested_at"
"""The column of landing tables."""
FRESH = 10.0
"""Seconds that a reading is shown before the next look renews it."""
STALE = 60.0
"""Seconds after which a look waits for the renewal."""
WAIT = 0.4
"""Seconds that it waits; what is not there by then is shown by the next look."""


@dataclass(frozen=True)
class Seen:
    """One flow as it was when somebody looked."""

    standing: Standing
    quarantined: int | None
    """Entries of its quarantine that are open; None where that could not be read."""
    newest: datetime | None = None
    """The newest event time in its target; where none is declared, when its newest row was ingested, if it says so."""
    newest_is_event: bool = False


@dataclass(frozen=True)
class Reading:
    """All flows at one time."""

    at: float
    """Seconds since 1970."""
    declared: Mapping[str, Pipeline | TidegateError] = field(default_factory=dict)
    """Each pipeline, or why its declaration does not load."""
    flows: tuple[Seen, ...] = ()
    """In the order of pipelines, then of their graphs."""

    def of(self, pipeline: str) -> tuple[Seen, ...]:
        """The flows of one pipeline."""
        return tuple(seen for seen in self.flows if seen.standing.pipeline == pipeline)


class Watch:
    """Keeps the last reading. Threads may share it; it must be made in the process that uses it."""

    def __init__(self, environment: Environment, clock: Callable[[], float] = time.time) -> None:
        self._environment = environment
        self._clock = clock
        self._reading: Reading | None = None
        self._lock = threading.Lock()
        self._renewal: threading.Thread | None = None
        self._waited_until = 0.0
        self._newest: dict[tuple[Path, str], tuple[int, datetime | None]] = {}

    def reading(self) -> Reading:
        """The last reading; the first call makes it, and one that finds it too old starts the next."""
        with self._lock:
            found = self._reading
            if found is None:
                found = self._reading = self._read()
                return found
            age = self._clock() - found.at
            if age > FRESH and (self._renewal is None or not self._renewal.is_alive()):
                self._renewal = threading.Thread(target=self._renew, name="tidegate-watch", daemon=True)
                self._waited_until = time.monotonic() + WAIT
                self._renewal.start()
            renewal, until = self._renewal, self._waited_until
        if age > STALE and renewal is not None:
            # A page that asks several times waits once.
            renewal.join(max(until - time.monotonic(), 0))
            return self._reading or found
        return found

    def _renew(self) -> None:
        self._reading = self._read()

    def _read(self) -> Reading:
        declared = declarations()
        layout = Layout.of(self._environment)
        flows = []
        for told in standing.gather(self._environment, list(declared.items()), standing.PATIENCE):
            newest, is_event = self._newest_of(layout, declared[told.pipeline], told.flow)
            flows.append(Seen(told, _open(layout, told), newest, is_event))
        return Reading(self._clock(), declared, tuple(flows))

    def _newest_of(self, layout: Layout, pipeline: Pipeline | TidegateError, flow: str) -> tuple[datetime | None, bool]:
        """How new the data of a flow's table is, and whether that is the time of an event."""
        if isinstance(pipeline, TidegateError):
            return None, False
        target = pipeline.flow(flow).target
        path, column = layout.table(target.name), target.event_time or _INGESTED
        try:
            # Only a commit changes it, and every commit is a new file in this folder.
            changed = (path / "_delta_log").stat().st_mtime_ns
            known = self._newest.get((path, column))
            if known is None or known[0] != changed:
                found = freshness.newest(path, column, datetime.fromtimestamp(self._clock(), UTC))
                known = self._newest[path, column] = (changed, found)
        except Exception:
            # No table yet, or one that cannot be read: the flow's state says so.
            return None, False
        return known[1], target.event_time is not None


def declarations() -> dict[str, Pipeline | TidegateError]:
    """Every declared pipeline as its file is now, or why it does not load."""
    return registry.declarations(registry.reload)


def _open(layout: Layout, told: Standing) -> int | None:
    if not told.flow:
        return None
    try:
        return journal.still_open(layout, told.pipeline, told.flow)
    except Exception:
        # A quarantine table that cannot be read must not hide where the flows stand.
        return None
