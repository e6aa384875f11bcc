"""The steps of the demo: four waves land, the real DAGs process them, and independent engines verify the tables."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path

from rich.console import Console

from demo import checks, clicks_feed, flights_feed, output, payments_feed, recompute, weather_feed
from demo.acts import Person
from demo.checks import Check
from demo.progress import WatchedRun, existing_reports, show_progress
from demo.runs import RunCrashedError
from demo.services import IN_FOLDER, OWN, DemoServices, check_set_up, set_up
from tidegate.lake.place import PipelinePlace
from tidegate.pages import site
from tidegate.project import registry, resolution
from tidegate.spec import Pipeline
from tidegate.status import lag
from tidegate.status.reading import Reading

STORM = (
    f"SELECT * REPLACE (round(mean_delay, 1) AS mean_delay) FROM gold WHERE day = '{flights_feed.STORM_DAY}'"
    " ORDER BY flights DESC, carrier LIMIT 4"
)
BUSIEST = (
    "SELECT page, strftime(window_start, '%Y-%m-%d %H:00') AS hour, views, users, longest_stay FROM gold"
    " ORDER BY views DESC, page, window_start LIMIT 4"
)
SESSIONS = (
    "SELECT strftime(started_at, '%Y-%m-%d %H:00') AS hour, count(*) AS sessions, round(avg(pages), 1) AS mean_pages,"
    " round(avg(seconds) / 60, 1) AS mean_minutes, count_if(bounce) AS bounces FROM gold GROUP BY 1 ORDER BY 1 LIMIT 4"
)
JOINED = (
    "SELECT carrier, airline, flights, round(mean_delay, 1) AS mean_delay, round(wind, 1) AS strongest_wind"
    f" FROM gold WHERE day = '{weather_feed.WRONG_DAY}' ORDER BY flights DESC, carrier LIMIT 4"
)

ALERTS = (
    "SELECT rule, count(*) AS alerts, count(DISTINCT card_id) AS cards, round(avg(amount_cents) / 100, 2) AS mean_amount FROM"
    " (SELECT unnest(rules) AS rule, * FROM gold WHERE NOT _deleted) GROUP BY 1 ORDER BY 2 DESC, 1"
)


FIRST_DAY, LAST_DAY = date(2013, 1, 1), date(2013, 2, 28)
"""The flights of wave 1."""
CLICKS, LATER_CLICKS = 18_000, 4_000
"""Views in waves 1 and 2."""
PAYMENTS, LATER_PAYMENTS = 3_000, 1_000
"""Payments in waves 1 and 3."""


@dataclass
class StartedRun(WatchedRun):
    """A run of a pipeline, with the lag of its flows before it."""

    pipeline: Pipeline
    before: list[Reading]


@dataclass
class Scenario:
    """One execution of the demo."""

    console: Console
    services: DemoServices
    flights: Pipeline = field(default_factory=lambda: registry.load("flights"))
    clickstream: Pipeline = field(default_factory=lambda: registry.load("clickstream"))
    delays: Pipeline = field(default_factory=lambda: registry.load("delays"))
    payments: Pipeline = field(default_factory=lambda: registry.load("payments"))
    passed: bool = True
    """Whether all checks so far have passed."""

    @property
    def pipelines(self) -> tuple[Pipeline, ...]:
        """All examples."""
        return self.flights, self.clickstream, self.delays, self.payments

    def first_wave(self) -> None:
        """Weeks of flights, their weather, half a day of clicks, and three hours of payments."""
        output.heading(self.console, "Wave 1: two months of flights, a file a day, half a day of clicks, and payments")
        files = flights_feed.wave_one(self.services.landing, FIRST_DAY, LAST_DAY)
        messages = clicks_feed.wave_one(CLICKS)
        clicks_feed.produce(self.services.cluster, messages)
        weather, airlines = weather_feed.land_first(self.services.landing, FIRST_DAY)
        output.landed_files(self.console, files)
        output.landed_files(self.console, [weather], weather_feed.WEATHER)
        output.landed_files(self.console, [airlines], weather_feed.AIRLINES)
        output.landed_messages(self.console, clicks_feed.counts(messages))
        payments = self._send_payments(payments_feed.wave_one(PAYMENTS))
        flights, clickstream = self._run(
            {self.flights: sum(file.rows for file in files), self.clickstream: len(messages)}
        )
        self._print(flights)
        self._storm("the day of the snowstorm, as first published")
        self._print(clickstream)
        self._busiest("the busiest pages and hours")
        self._sessions("by the hour in which they began")
        self._run_second(weather.rows, "the weather of this day as first published", payments, "alerts by rule")

    def second_wave(self) -> None:
        """The next days, a correction, a late file, and broken files and messages."""
        output.heading(self.console, "Wave 2: the next days, a correction, a late file, and broken ones")
        files = flights_feed.wave_two(self.services.landing)
        messages = clicks_feed.wave_two(LATER_CLICKS, already=CLICKS)
        clicks_feed.produce(self.services.cluster, messages)
        output.landed_files(self.console, files)
        output.landed_messages(self.console, clicks_feed.counts(messages))
        flights, clickstream = self._run(
            {self.flights: sum(file.rows for file in files), self.clickstream: len(messages)}
        )
        self._print(flights)
        self._storm("the same day after the correction: every delay is seven minutes longer")
        self._print(clickstream)
        self._busiest("the same after corrections and deletions")
        self._sessions("the same: late views join sessions, deletions take them apart")

    def third_wave(self) -> None:
        """A correction of one hour of the weather, which reaches the table that joins it with the flights; late payments."""
        output.heading(
            self.console, "Wave 3: one hour of the weather is corrected, and payments arrive, some of them late"
        )
        correction = weather_feed.land_correction(self.services.landing)
        output.landed_files(self.console, [correction], weather_feed.WEATHER)
        payments = self._send_payments(payments_feed.wave_two(LATER_PAYMENTS, already=PAYMENTS))
        self._run_second(
            correction.rows,
            "the same day after the correction of the weather",
            payments,
            "alerts by rule, without the late and the reversed payments",
        )

    def fourth_wave(self) -> None:
        """No input; the runs start no JVM."""
        output.heading(self.console, "Wave 4: nothing lands")
        for watched in (
            *self._run({self.flights: 0, self.clickstream: 0}),
            *self._run({self.delays: 0, self.payments: 0}),
        ):
            self._print(watched)
            self.passed &= watched.report is None

    def people_act(self) -> None:
        """What people do to the tables of flights, after which they are again as the input says."""
        output.heading(self.console, "People act: a backfill is refused, accepted and undone, a file is corrected")
        self._print_checks(Person.make(self.services).act())

    def verify(self) -> None:
        """Check the ledger, and compare the tables with an independent recomputation."""
        output.heading(self.console, "Verification: DuckDB and plain Python compute all tables from the input alone")
        in_ledger = (checks.balance, checks.quarantine_states)
        layout, landing = self.services.layout, self.services.landing
        results = [check(layout, pipeline) for pipeline in self.pipelines for check in in_ledger]
        flights = recompute.flights(landing)
        recompute.add_delays(flights, landing)
        clicks = recompute.clickstream(recompute.read_topic(self.services.cluster))
        results += checks.exactly_once(layout, self.flights, flights)
        results += checks.exactly_once(layout, self.clickstream, clicks)
        results += checks.recomputed(layout, self.delays, flights, ("weather", "airlines", "delays"))
        topics = (payments_feed.TOPIC, payments_feed.ALERTS)
        payments, alerts = (recompute.read_topic(self.services.cluster, topic) for topic in topics)
        results += checks.payments(layout, self.payments, payments, alerts)
        for answer in (flights, clicks):
            answer.close()
        self._print_checks(results)

    def _print_checks(self, results: list[Check]) -> None:
        output.checked(self.console, results)
        self.passed &= all(check.passed for check in results)

    def print_next_steps(self, seconds: float) -> None:
        """Print the paths of the results and the next commands."""
        output.heading(self.console, f"Done in {seconds:.0f} seconds" if self.passed else "A check failed")
        short_path, layout = self.services.short_path, self.services.layout
        reports = [site.export(layout, each, PipelinePlace(layout, each.name).docs) for each in self.pipelines]
        paths = (*(("Data quality report", page) for page in reports), ("Tables", layout.root / "tables"))
        for what, address in paths:
            self.console.print(f"{what:<26} {self.services.short_address(address)}", highlight=False, soft_wrap=True)
        self.console.print(
            f"{'Log of Airflow and Spark':<26} {short_path(self.services.log)}", highlight=False, soft_wrap=True
        )
        self.console.print("\n[bold]Next[/]")
        landing = self.services.short_address(layout.landing_root)
        lake = self.services.short_address(layout.root)
        status = (
            f"TIDEGATE_LAKE={lake} TIDEGATE_LANDING={landing} .venv/bin/tidegate status flights",
            "shows the status of each flow",
        )
        for command, why in (
            # The demo's S3 server ends with it.
            *([status] if layout.root.store.is_local else []),
            (".venv/bin/tidegate new NAME", "creates a pipeline that runs without changes"),
            ("make test", "runs all tests"),
        ):
            self.console.print(f"  {command}", style="cyan", highlight=False, soft_wrap=True, markup=False)
            self.console.print(f"      [dim]{why}[/]")

    def _run(self, landed: Mapping[Pipeline, int]) -> list[StartedRun]:
        """Run the DAGs of pipelines at the same time, with the number of records that landed for each."""
        started = [self._start(pipeline, expected) for pipeline, expected in landed.items()]
        show_progress(self.console, started)
        return started

    def _start(self, pipeline: Pipeline, expected: int) -> StartedRun:
        earlier = existing_reports(self.services.layout, pipeline.name)
        before = self._lag(pipeline)
        run = self.services.runs[pipeline.name].start(pipeline.name)
        return StartedRun(run, self.services.layout, expected, earlier, pipeline, before)

    def _lag(self, pipeline: Pipeline) -> list[Reading]:
        environment = self.services.environment
        flows = resolution.resolve(pipeline, environment.project).flows
        return [lag.measure(environment, flow) for flow in flows]

    def _print(self, started: StartedRun) -> None:
        """Print the result of a run.

        Raises:
            RunCrashedError: It failed.
        """
        result, report = started.run.result(), started.report
        output.run_result(self.console, result, report, started.before, self._lag(started.pipeline))
        if report is not None:
            output.quarantined(self.console, self.services.layout, started.pipeline, report)
        if not result.succeeded:
            log = self.services.short_path(self.services.log)
            raise RunCrashedError(f"The run of {started.pipeline.name!r} failed, and the demo ends; its log is {log}.")

    def _send_payments(self, messages: list[clicks_feed.Message]) -> int:
        clicks_feed.produce(self.services.cluster, messages, payments_feed.TOPIC)
        output.landed_messages(self.console, clicks_feed.counts(messages), payments_feed.TOPIC)
        return len(messages)

    def _run_second(self, weather: int, delays_title: str, sent: int, alerts_title: str) -> None:
        """Run delays, which reads a table of flights, and payments."""
        layout = self.services.layout
        delays, payments = self._run({self.delays: weather, self.payments: sent})
        self._print(delays)
        output.gold(self.console, layout, "gold.delays", JOINED, f"{weather_feed.WRONG_DAY}: {delays_title}")
        self._print(payments)
        output.gold(self.console, layout, "gold.fraud_alerts", ALERTS, alerts_title)

    def _storm(self, title: str) -> None:
        output.gold(self.console, self.services.layout, "gold.daily_delay", STORM, title)

    def _busiest(self, title: str) -> None:
        output.gold(self.console, self.services.layout, "gold.page_views", BUSIEST, title)

    def _sessions(self, title: str) -> None:
        output.gold(self.console, self.services.layout, "gold.sessions", SESSIONS, title)


def run_demo(
    project: Path,
    folder: Path,
    console: Console,
    *,
    lake: str = IN_FOLDER,
    services: str = OWN,
    people_act: bool = False,
) -> bool:
    """Start the services, run the demo, and stop the services.

    Args:
        folder: The folder for all files of the demo.
        lake: Where it is, as `set_up` takes it.
        services: Whose they are, likewise.
        people_act: Whether people act on the tables of flights after the waves.

    Returns:
        Whether all checks passed.

    Raises:
        TidegateError: A prerequisite is missing, a service did not start, or a run failed.
    """
    check_set_up(project)
    started = time.monotonic()
    console.print("[bold]Tidegate[/]: files and Kafka topics into Delta tables, one bounded increment at a time.")
    own = "A local Spark, a real Kafka broker, the real DAGs of dags/. All files are in one folder."
    other = "The real DAGs of dags/, with the Spark, the brokers and the landing zone that the environment names."
    console.print(f"[dim]{own if services == OWN else other}[/]")
    with contextlib.ExitStack() as exit_stack:
        with console.status("starting the broker and Airflow"):
            started_services = exit_stack.enter_context(set_up(project, folder, lake=lake, services=services))
        scenario = Scenario(console, started_services)
        waves = (scenario.first_wave, scenario.second_wave, scenario.third_wave, scenario.fourth_wave)
        for step in (*waves, *([scenario.people_act] if people_act else []), scenario.verify):
            step()
        scenario.print_next_steps(time.monotonic() - started)
        return scenario.passed
