"""Days as text: the range in which no conversion overflows, and instants in SQL."""

from __future__ import annotations

import datetime

import pendulum
import pyarrow
import pytest
from deltalake import write_deltalake

from tidegate.errors import RequestError
from tidegate.ops import store
from tidegate.quarantine.selection import Selection
from tidegate.store import Address
from tidegate.times import dates
from tidegate.times.window import Window

BEYOND = ["0001-01-01", "0001-12-31", "9999-01-01", "9999-12-31"]
ENDS = [str(dates.FIRST), str(dates.LAST)]
ZONES = ["UTC", "Pacific/Kiritimati", "Pacific/Pago_Pago", "Asia/Kolkata", "America/New_York"]


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("day", ENDS)
def test_windows_at_the_ends_of_the_range_can_be_converted_to_every_zone(day: str, zone: str) -> None:
    window = Window.of_dates(day, day, zone)
    assert [str(each) for each in window.dates] == [day, day]
    assert window.summary() == day
    for other in ZONES:
        for moment in (window.since, window.until):
            assert moment.in_timezone(other) == moment
    assert Window.of_interval(window.since, window.until, zone) == window


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("day", BEYOND)
def test_days_beyond_the_range_are_refused_with_the_range(day: str, zone: str) -> None:
    for first, last in ((day, "2026-03-01"), ("2026-03-01", day), (day, day)):
        with pytest.raises(RequestError, match=f"'{day}' is out of range; write a date from 0002-01-01 to 9998-12-31"):
            Window.of_dates(first, last, zone)


@pytest.mark.parametrize(
    ("start", "end"),
    [
        (pendulum.datetime(1, 1, 1), pendulum.datetime(2026, 1, 1)),
        (pendulum.datetime(2026, 1, 1), pendulum.datetime(9999, 12, 31, tz="America/New_York")),
    ],
)
def test_an_interval_beyond_the_range_is_refused(start: pendulum.DateTime, end: pendulum.DateTime) -> None:
    with pytest.raises(RequestError, match="is out of range; choose one within 0002-01-01 to 9998-12-31"):
        Window.of_interval(start, end, "Asia/Tokyo")


@pytest.mark.parametrize(
    "day", ["2026-02-30", "2026-2-3", "20260203", "2026-02-03T00:00", "\uff12026-02-03", "", None, 7]
)
def test_what_is_no_day_is_refused(day: object) -> None:
    with pytest.raises(ValueError, match="is not a date"):
        dates.midnight(day)


@pytest.mark.parametrize("year", [2, 1500, 2026, 2500, 9998])
def test_an_instant_of_any_year_can_be_compared_in_sql(folder: Address, year: int) -> None:
    moment = datetime.datetime(year, 7, 1, 12, tzinfo=datetime.UTC)
    aware = pyarrow.array([moment], pyarrow.timestamp("us", "UTC"))
    naive = pyarrow.array([moment.replace(tzinfo=None)], pyarrow.timestamp("us"))
    write_deltalake(str(folder), pyarrow.table({"aware": aware, "naive": naive}))
    for column, literal in (
        ("aware", dates.literal(moment)),
        ("aware", dates.literal(moment.astimezone(datetime.timezone(datetime.timedelta(hours=-5))))),
        ("naive", dates.literal(moment, zone=False)),
    ):
        assert len(store.select(folder, f"SELECT 1 FROM delta_table WHERE {column} = {literal}")) == 1
        assert store.select(folder, f"SELECT 1 FROM delta_table WHERE {column} < {literal}") == []


@pytest.mark.parametrize("day", ENDS)
def test_entries_can_be_selected_up_to_the_ends_of_the_range(folder: Address, day: str) -> None:
    column = pyarrow.array([datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)], pyarrow.timestamp("us", "UTC"))
    write_deltalake(str(folder), pyarrow.table({"quarantined_at": column}))
    condition = Selection.check(since=day).condition(), Selection.check(until=day).condition()
    numbers = [len(store.select(folder, f"SELECT 1 FROM delta_table WHERE {each}")) for each in condition]
    assert numbers == ([1, 0] if day == str(dates.FIRST) else [0, 1])


def test_instants_are_exact_to_the_microsecond_and_not_before_the_first_year() -> None:
    instant = datetime.datetime(2026, 3, 1, 12, 0, 0, 123457, tzinfo=datetime.UTC)

    assert dates.from_micros(dates.micros(instant)) == instant
    assert dates.from_micros(-(10**18)) == datetime.datetime(1, 1, 1, tzinfo=datetime.UTC)
