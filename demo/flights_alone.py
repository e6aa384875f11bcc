"""The demo of one pipeline, for a test that has little time."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass

from demo import checks, flights_feed, output, recompute
from demo.checks import Check
from demo.scenario import FIRST_DAY, LAST_DAY, Scenario
from tidegate.spec import Pipeline


@dataclass
class FlightsAlone(Scenario):
    """The demo of the flights pipeline alone, which has most of the input, for a test of little time."""

    @property
    def pipelines(self) -> tuple[Pipeline, ...]:
        """Flights."""
        return (self.flights,)

    @property
    def waves(self) -> tuple[Callable[[], None], ...]:
        """Those with flights, and one without input."""
        return self.first_wave, self.second_wave, self.fourth_wave

    def first_wave(self) -> None:
        """Weeks of flights."""
        output.heading(self.console, "Wave 1: two months of flights, a file a day")
        files = flights_feed.wave_one(self.services.environment.landing, FIRST_DAY, LAST_DAY)
        self._run_flights(files, "the day of the snowstorm, as first published")

    def second_wave(self) -> None:
        """The next days, a correction, a late file, and broken files."""
        output.heading(self.console, "Wave 2: the next days, a correction, a late file, and broken ones")
        files = flights_feed.wave_two(self.services.environment.landing)
        self._run_flights(files, "the same day after the correction")

    def fourth_wave(self) -> None:
        """No input; the run starts no JVM."""
        output.heading(self.console, "Wave 3: nothing lands")
        (watched,) = self._run({self.flights: 0})
        self._print(watched)
        self.passed &= watched.report is None

    def _run_flights(self, files: list[flights_feed.Landed], title: str) -> None:
        output.landed_files(self.console, files)
        (watched,) = self._run({self.flights: sum(file.rows for file in files)})
        self._print(watched)
        self._storm(title)

    def _compare(self) -> list[Check]:
        with contextlib.closing(recompute.flights(self.services.environment.landing)) as answer:
            return checks.exactly_once(self.services.layout, self.flights, answer)
