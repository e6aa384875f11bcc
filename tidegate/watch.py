"""Where all flows stand, for a process that is asked again and again: the last reading at once, a fresh one on its way.

Reading the standing of fifty flows takes longer than a page should. So a page gets the last reading, with its age, and
a reading that is too old is renewed behind its back. Only the first one is waited for.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tidegate import journal, registry, standing
from tidegate.layout import Layout

if TYPE_CHECKING:
    from tidegate.environment import Environment
    from tidegate.errors import TidegateError
    from tidegate.spec import Pipeline
    from tidegate.standing import Standing

FRESH = 10.0
"""Seconds that a reading is shown before the next look renews it."""


@dataclass(frozen=True)
class Seen:
    """One flow as it was when somebody looked."""

    standing: Standing
    quarantined: int | None
    """Entries of its quarantine that are open; None where that could not be read."""


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
        self._renewing = threading.Lock()

    def reading(self) -> Reading:
        """The last reading; the first call makes it, and one that finds it too old starts the next."""
        with self._lock:
            found = self._reading
            if found is None:
                found = self._reading = self._read()
                return found
        if self._clock() - found.at > FRESH and self._renewing.acquire(blocking=False):
            threading.Thread(target=self._renew, name="tidegate-watch", daemon=True).start()
        return found

    def _renew(self) -> None:
        try:
            self._reading = self._read()
        finally:
            self._renewing.release()

    def _read(self) -> Reading:
        declared = declarations()
        layout = Layout.of(self._environment)
        flows = []
        for told in standing.gather(self._environment, list(declared.items()), standing.PATIENCE):
            flows.append(Seen(told, _open(layout, told)))
        return Reading(self._clock(), declared, tuple(flows))


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
