"""Continuously lands data: clicks and payments every few seconds, every two minutes the next day of flights and the weather before it.

``python -m demo.feeder``. It has no state of its own: the next day of flights or weather follows from the landing zone, the number of
the next click or payment from its topic. So it can be killed and restarted at any time.
"""

from __future__ import annotations

import logging
import signal
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

from demo import clicks_feed, flights_feed, payments_feed, weather_feed
from demo.clicks_feed import Message
from demo.flights_feed import Landed
from tidegate.environment import Environment
from tidegate.environment.clusters import Cluster
from tidegate.errors import TidegateError
from tidegate.probes import kafka
from tidegate.processes import exit_now

SECONDS_BETWEEN_MESSAGES = 5.0
SECONDS_BETWEEN_FILES = 120.0
FIRST_DAYS = 7
"""Number of days of flights that land at once in an empty landing zone."""

CORRECTED_AFTER = timedelta(days=4)
"""How long after the day with the wrong weather its correction lands."""

log = logging.getLogger("feeder")


def land_flights(landing: Path) -> list[Landed]:
    """Land the first missing day of flights; in an empty landing zone the first week.

    Returns:
        The landed files; empty when all of 2013 has landed.
    """
    folder = landing / flights_feed.FOLDER
    missing = [day for day in flights_feed.days() if not (folder / flights_feed.name_of(day)).exists()]
    wanted = FIRST_DAYS if len(missing) == len(flights_feed.days()) else 1
    return [flights_feed.land_day(landing, day) for day in missing[:wanted]]


def land_weather(landing: Path) -> list[Landed]:
    """Land the weather of each day after which flights have landed, the airlines with the first, and later a correction.

    Returns:
        The landed files; empty when nothing is missing.
    """
    days = [day for day in flights_feed.days() if (landing / flights_feed.FOLDER / flights_feed.name_of(day)).exists()]
    if len(days) < 2:
        return []
    folder = landing / weather_feed.WEATHER
    missing = [day for day in days[:-1] if not (folder / weather_feed.name_of(day)).exists()]
    landed = [weather_feed.land_day(landing, day) for day in missing]
    if not (landing / weather_feed.AIRLINES).exists():
        landed.append(weather_feed.land_airlines(landing, days[0]))
    is_due = days[-1] >= weather_feed.WRONG_DAY + CORRECTED_AFTER
    if is_due and not (folder / weather_feed.name_of_correction()).exists():
        landed.append(weather_feed.land_correction(landing))
    return landed


def land_messages(cluster: Cluster, topic: str, make: Callable[[int, datetime], list[Message]], now: datetime) -> int:
    """Send the messages of the last seconds, and return their number.

    Args:
        make: Makes the messages, from the number of the first event and the time of the last.
        now: The time of the last event.

    Raises:
        SourceError: The topic does not exist, or no broker answers.
    """
    # Every event has at least one message, so the number of messages is higher than all event numbers so far.
    already = sum(kafka.end_offsets(cluster, topic).values())
    messages = make(already, now)
    clicks_feed.produce(cluster, messages, topic)
    return len(messages)


def feed(environment: Environment) -> None:
    """Land data until the process is stopped; while the broker does not answer, it is tried again."""
    next_file = time.monotonic()
    while True:
        if time.monotonic() >= next_file:
            next_file += SECONDS_BETWEEN_FILES
            # Before the flights, so that they wait for their weather.
            for landed in (*land_weather(environment.landing), *land_flights(environment.landing)):
                log.info("landed %s, %d records", landed.name, landed.rows)
        for topic, make in ((clicks_feed.TOPIC, clicks_feed.live), (payments_feed.TOPIC, payments_feed.live)):
            try:
                sent = land_messages(environment.cluster("default"), topic, make, datetime.now(UTC))
                log.info("%s: %d messages", topic, sent)
            except TidegateError as error:
                log.warning("%s: %s", topic, error.message)
        time.sleep(SECONDS_BETWEEN_MESSAGES)


def main() -> int:
    """Land data in the environment that the variables name, until Ctrl-C or SIGTERM."""
    logging.basicConfig(format="%(asctime)s %(message)s", level=logging.INFO, stream=sys.stdout)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        feed(Environment.read())
    except KeyboardInterrupt:
        log.info("stopped")
    return 0


if __name__ == "__main__":
    exit_now(main())
