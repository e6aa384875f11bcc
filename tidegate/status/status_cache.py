"""A cache of all flow statuses for a long-lived process: returns the last reading and refreshes it in the background.

Reading the statuses of fifty flows takes longer than a page may take. So a page gets the last reading, with its age, and a
reading that is too old is refreshed in the background. A caller waits for the first reading, and briefly for a refresh if
the reading is very old: the first page of the morning should not show last evening.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from itertools import groupby
from typing import TYPE_CHECKING, TypeVar, cast

from tidegate import states
from tidegate.errors import TidegateError
from tidegate.lake import read_once
from tidegate.project import registry, resolution
from tidegate.status import evaluation, flow_status

if TYPE_CHECKING:
    from tidegate.environment import Environment
    from tidegate.project.resolution import ResolvedPipeline
    from tidegate.status.reading import Reading
    from tidegate.store import Address

T = TypeVar("T")
FRESH = 10.0
"""Age in seconds from which on the next request refreshes the reading."""
STALE = states.STALE.total_seconds()
"""Age in seconds from which on a request waits for the refresh, and shows a reading with a warning."""
WAIT = 0.4
"""Seconds that it waits; a refresh that takes longer is shown by the next request."""
PATIENCE = 10.0
"""Seconds that a refresh waits for the next source: nobody waits for it, so a slow machine need not make sources unreachable."""


@dataclass(frozen=True)
class Statuses:
    """Readings of all flows at one time."""

    at: float
    """When it began, in seconds since 1970."""
    declared: Mapping[str, ResolvedPipeline | TidegateError] = field(default_factory=dict)
    """Each pipeline by name, or the error of its declaration."""
    readings: tuple[Reading, ...] = ()
    """Ordered by pipeline, then in graph order."""
    surroundings: tuple[str, ...] = ()
    """Sentences about what runs the flows, if it does not."""

    def of(self, pipeline: str) -> tuple[Reading, ...]:
        """The flows of one pipeline."""
        return self._by_pipeline.get(pipeline, ())

    @cached_property
    def _by_pipeline(self) -> dict[str, tuple[Reading, ...]]:
        return {name: tuple(own) for name, own in groupby(self.readings, key=lambda reading: reading.pipeline)}


class StatusCache:
    """Keeps the last reading. Thread-safe; must be created in the process that uses it, after any fork."""

    def __init__(
        self,
        environment: Environment,
        clock: Callable[[], float] = time.time,
        surroundings: Callable[[], tuple[str, ...]] = tuple,
    ) -> None:
        """Starts empty.

        Args:
            surroundings: Says what is wrong with the scheduler of the flows; it is asked with each reading.
        """
        self._environment = environment
        self._clock = clock
        self._surroundings = surroundings
        self._statuses: Statuses | None = None
        self._lock = threading.Lock()
        self._refresh_thread: threading.Thread | None = None
        self._waited_until = 0.0
        self._values: dict[tuple[str, str], tuple[Hashable, object]] = {}

    def statuses(self) -> Statuses:
        """The last reading. The first call measures it; a call that finds it too old starts a refresh."""
        with self._lock:
            statuses = self._statuses
            if statuses is None:
                statuses = self._statuses = self._read(flow_status.PATIENCE)
                return statuses
            age = self._clock() - statuses.at
            if age > FRESH and (self._refresh_thread is None or not self._refresh_thread.is_alive()):
                self._refresh_thread = threading.Thread(target=self._refresh, name="tidegate-status-cache", daemon=True)
                self._waited_until = time.monotonic() + WAIT
                self._refresh_thread.start()
            refresh, until = self._refresh_thread, self._waited_until
        if age > STALE and refresh is not None:
            # A page with several calls waits only once.
            refresh.join(max(until - time.monotonic(), 0))
            return self._statuses or statuses
        return statuses

    def _refresh(self) -> None:
        self._statuses = self._read(max(PATIENCE, flow_status.PATIENCE))

    def _read(self, patience: float) -> Statuses:
        at = self._clock()
        declared, environment = declarations(self._environment), read_once.once(self._environment)

        began = datetime.fromtimestamp(at, UTC)
        pipelines = list(declared.items())
        gathered = flow_status.gather(environment, pipelines, patience, began)
        readings = evaluation.with_alerts(environment, pipelines, gathered)
        with ThreadPoolExecutor(2) as threads:
            statuses = Statuses(at, declared, tuple(threads.map(self._with_newest, readings)), self._surroundings())
        read_once.forget(environment)
        return statuses

    def _with_newest(self, reading: Reading) -> Reading:
        """A reading that knows the newest time in its table."""
        if isinstance(reading.declared, str):
            return reading
        table = reading.layout.table(reading.target)
        column = reading.declared.flow.target.event_time or ""
        return reading.given(newest=self._unless_unchanged(table, column, lambda: reading.newest))

    def _unless_unchanged(self, table: Address, what: str, read: Callable[[], T]) -> T | None:
        """What ``read`` returns about a table, from the last reading if the table has not changed; None if it fails."""
        try:
            # Only a commit changes the value, and every commit adds a file to this folder.
            changed = (table / "_delta_log").stat().revision
            cached = self._values.get((table.uri, what))
            if cached is None or cached[0] != changed:
                cached = self._values[table.uri, what] = (changed, read())
        except Exception:
            # There is no table yet, or it cannot be read; it must not hide the status of the flows, which shows the error.
            return None
        return cast("T", cached[1])


def declarations(environment: Environment) -> dict[str, ResolvedPipeline | TidegateError]:
    """Every declared pipeline, reloaded if its file changed, or the error of its declaration."""
    return resolution.load_all(environment.project, registry.reload)
