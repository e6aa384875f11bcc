"""The plot: three waves land, the real DAGs move them, and an independent engine says whether all is there, once."""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path

from rich.console import Console

from demo import checks, clicks_feed, flights_feed, recompute, scenes
from demo.runs import RunCrashedError
from demo.stage import Stage, check_set_up, set_up
from demo.watch import reports_there, watch
from tidegate import registry
from tidegate.report import RunReport
from tidegate.spec import Pipeline
from tidegate.status import lag

STORM = (
    f"SELECT * REPLACE (round(mean_delay, 1) AS mean_delay) FROM gold WHERE day = '{flights_feed.STORM_DAY}'"
    " ORDER BY flights DESC, carrier LIMIT 4"
)
BUSIEST = (
    "SELECT page, strftime(hour, '%Y-%m-%d %H:00') AS hour, views, users, longest_stay FROM gold"
    " ORDER BY views DESC, page, gold.hour LIMIT 4"
)


@dataclass(frozen=True)
class Length:
    """How much lands."""

    flights: str
    """What wave 1 lands of them, in words."""
    first_day: date
    """The first file of wave 1. The storm and the late day lie between it and the last."""
    last_day: date
    clicks: int
    """Views in wave 1."""
    later_clicks: int
    """Views in wave 2."""
    at_once: bool = False
    """One run of each pipeline takes waves 1 and 2."""


WHOLE = Length("two months", date(2013, 1, 1), date(2013, 2, 28), clicks=18_000, later_clicks=4_000)
SHORT = Length("three days", date(2013, 2, 8), date(2013, 2, 10), clicks=2_000, later_clicks=500, at_once=True)
"""The same files and messages, of fewer days, in one increment in place of two."""


@dataclass
class Story:
    """One telling of the demo."""

    console: Console
    stage: Stage
    length: Length = WHOLE
    flights: Pipeline = field(default_factory=lambda: registry.load("flights"))
    clickstream: Pipeline = field(default_factory=lambda: registry.load("clickstream"))
    all_well: bool = True
    flights_waiting: int = 0
    """Records that landed before the wave in hand and were not read yet."""
    clicks_waiting: int = 0

    def first_wave(self) -> None:
        """Weeks of flights and half a day of clicks."""
        length = self.length
        scenes.heading(self.console, f"Wave 1: {length.flights} of flights, a file a day, and half a day of clicks")
        files = flights_feed.wave_one(self.stage.environment.landing, length.first_day, length.last_day)
        messages = clicks_feed.wave_one(length.clicks)
        clicks_feed.produce(self.stage.environment.kafka, messages)
        scenes.landed_files(self.console, files)
        scenes.landed_messages(self.console, clicks_feed.counts(messages))
        if length.at_once:
            self.flights_waiting, self.clicks_waiting = sum(file.rows for file in files), len(messages)
            return
        self._run(self.flights, sum(file.rows for file in files))
        self._storm("the day of the snowstorm, as first published")
        self._run(self.clickstream, len(messages))
        self._busiest("the busiest pages and hours")

    def second_wave(self) -> None:
        """The next days, a correction, a late file, and everything that goes wrong with files and messages."""
        scenes.heading(self.console, "Wave 2: the next days, a correction, a late file, and broken ones")
        files = flights_feed.wave_two(self.stage.environment.landing)
        messages = clicks_feed.wave_two(self.length.later_clicks, already=self.length.clicks)
        clicks_feed.produce(self.stage.environment.kafka, messages)
        scenes.landed_files(self.console, files)
        scenes.landed_messages(self.console, clicks_feed.counts(messages))
        self._run(self.flights, self.flights_waiting + sum(file.rows for file in files))
        self._storm("the same day after the correction: every delay is seven minutes longer")
        self._run(self.clickstream, self.clicks_waiting + len(messages))
        self._busiest("as corrections and deletions left them")

    def third_wave(self) -> None:
        """Nothing lands, and it costs almost nothing."""
        scenes.heading(self.console, "Wave 3: nothing lands")
        for pipeline in (self.flights, self.clickstream):
            report = self._run(pipeline, 0)
            self.all_well &= report is None

    def verdict(self) -> None:
        """Does the ledger balance, and does an independent engine find the same?"""
        scenes.heading(self.console, "Is everything there, once? DuckDB works it out anew from the files and the topic")
        layout = self.stage.layout
        answers = (
            (self.flights, recompute.flights(self.stage.environment.landing)),
            (self.clickstream, recompute.clickstream(recompute.read_topic(self.stage.environment.kafka))),
        )
        found = [check(layout, pipeline) for pipeline, _ in answers for check in (checks.balance, checks.set_aside)]
        for pipeline, answer in answers:
            found += checks.exactly_once(layout, pipeline, answer)
            answer.close()
        scenes.checked(self.console, found)
        self.all_well &= all(check.fine for check in found)

    def what_next(self, seconds: float) -> None:
        """Where to look, and what to do."""
        scenes.heading(self.console, f"Done in {seconds:.0f} seconds" if self.all_well else "Something is wrong")
        told, layout = self.stage.told, self.stage.layout
        lake = told(layout.lake)
        reports = [
            page for p in (self.flights, self.clickstream) if (page := layout.docs(p.name) / "index.html").exists()
        ]
        places = (*(("Data quality report", page) for page in reports), ("Tables", layout.lake / "tables"))
        for what, path in (*places, ("Airflow's and Spark's log", self.stage.log)):
            self.console.print(f"{what:<26} {told(path)}", highlight=False, soft_wrap=True)
        self.console.print("\n[bold]Next[/]")
        landing = told(self.stage.environment.landing)
        for command, why in (
            (
                f"TIDEGATE_LAKE={lake} TIDEGATE_LANDING={landing} .venv/bin/tidegate status flights",
                "how far each flow got",
            ),
            (".venv/bin/tidegate new NAME", "a pipeline of your own, that runs at once"),
            ("make test", "everything that is promised here, tested"),
        ):
            self.console.print(f"  {command}", style="cyan", highlight=False, soft_wrap=True, markup=False)
            self.console.print(f"      [dim]{why}[/]")

    def _run(self, pipeline: Pipeline, expected: int) -> RunReport | None:
        environment = self.stage.environment
        before = [lag.measure(environment, pipeline, flow) for flow in pipeline.flows]
        layout = self.stage.layout
        known = reports_there(layout, pipeline.name)
        ended, report = watch(self.console, layout, self.stage.runs.start(pipeline.name), expected, known)
        after = [lag.measure(environment, pipeline, flow) for flow in pipeline.flows]
        scenes.run_told(self.console, ended, report, before, after)
        if report is not None:
            scenes.quarantined(self.console, self.stage.layout, pipeline, report)
        if not ended.succeeded:
            log = self.stage.told(self.stage.log)
            raise RunCrashedError(f"The run of {pipeline.name!r} failed, and the demo ends here; its log is {log}.")
        return report

    def _storm(self, title: str) -> None:
        scenes.gold(self.console, self.stage.layout, "gold.daily_delay", STORM, title)

    def _busiest(self, title: str) -> None:
        scenes.gold(self.console, self.stage.layout, "gold.page_views", BUSIEST, title)


def tell(project: Path, folder: Path, console: Console, length: Length = WHOLE) -> bool:
    """Set up, tell the story, take down.

    Args:
        project: The project's folder.
        folder: Where the demo keeps everything.
        console: Where to tell it.
        length: How much lands.

    Returns:
        Whether everything was as it must be.

    Raises:
        TidegateError: A part is missing or did not come up; its message is for the reader.
    """
    check_set_up(project)
    started = time.monotonic()
    console.print("[bold]Tidegate[/]: files and Kafka topics into Delta tables, one bounded increment at a time.")
    console.print("[dim]A local Spark, a real Kafka broker, the real DAGs of dags/. All of it lies in one folder.[/]")
    with contextlib.ExitStack() as parts:
        with console.status("starting the broker and Airflow"):
            stage = parts.enter_context(set_up(project, folder))
        story = Story(console, stage, length)
        for part in (story.first_wave, story.second_wave, story.third_wave, story.verdict):
            part()
        story.what_next(time.monotonic() - started)
        return story.all_well
