"""Keeps landing data while the console is up: a few clicks every few seconds, the next day of flights every two minutes.

``python -m demo.feeder``. It remembers nothing: which day of flights comes next stands in the landing zone, which
number the next click has in the topic. So it can be killed and started at any time.
"""

from __future__ import annotations

import logging
import signal
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

from demo import clicks_feed, flights_feed
from demo.flights_feed import Landed
from tidegate.ending import leave
from tidegate.environment import Environment
from tidegate.errors import TidegateError
from tidegate.probes import kafka

SECONDS_BETWEEN_CLICKS = 5.0
SECONDS_BETWEEN_FILES = 120.0
FIRST_DAYS = 7
"""So many days of flights land at once in an empty landing zone."""

log = logging.getLogger("feeder")


def land_flights(landing: Path) -> list[Landed]:
    """Land the next day of flights that is not there; in an empty landing zone the first week.

    Returns:
        What landed; nothing once all of 2013 is there.
    """
    folder = landing / flights_feed.FOLDER
    missing = [day for day in flights_feed.days() if not (folder / flights_feed.name_of(day)).exists()]
    wanted = FIRST_DAYS if len(missing) == len(flights_feed.days()) else 1
    return [flights_feed.land_day(landing, day) for day in missing[:wanted]]


def land_clicks(bootstrap: str, now: datetime) -> int:
    """Send the clicks of the last seconds, and return how many messages they are.

    Raises:
        SourceError: There is no topic, or no broker answers.
    """
    # Every event makes at least one message, so the messages so far number the events without a gap in memory.
    already = sum(kafka.end_offsets(bootstrap, clicks_feed.TOPIC).values())
    messages = clicks_feed.live(already, now)
    clicks_feed.produce(bootstrap, messages)
    return len(messages)


def feed(environment: Environment) -> None:
    """Land data until somebody ends the process; a broker that is away is waited for."""
    next_file = time.monotonic()
    while True:
        if time.monotonic() >= next_file:
            next_file += SECONDS_BETWEEN_FILES
            for landed in land_flights(environment.landing):
                log.info("flights: %s, %d records", landed.name, landed.rows)
        try:
            log.info("clicks: %d messages", land_clicks(environment.kafka, datetime.now(UTC)))
        except TidegateError as error:
            log.warning("clicks: %s", error.message)
        time.sleep(SECONDS_BETWEEN_CLICKS)


def main() -> int:
    """Feed the environment that the variables name; ends with Ctrl-C and SIGTERM."""
    logging.basicConfig(format="%(asctime)s %(message)s", level=logging.INFO, stream=sys.stdout)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        feed(Environment.read())
    except KeyboardInterrupt:
        log.info("ends")
    return 0


if __name__ == "__main__":
    leave(main())
