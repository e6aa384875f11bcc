"""The independent recomputation, on small cases."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from duckdb import DuckDBPyConnection

from demo import flights_feed, recompute, weather_feed
from demo.recompute import Message
from tests.store.buckets import new_store
from tidegate.store import Address

if TYPE_CHECKING:
    from tests.s3_server import S3Process

pytestmark = pytest.mark.slow

HEADER = ",".join(flights_feed.FIELDS)
ROW = "2013,1,1,517,515,2,830,819,11,UA,1545,N14228,EWR,IAH,227,1400,5,15,2013-01-01T10:00:00Z,2013-01-02T11:00:00Z"


def land(landing: Path, name: str, *rows: str) -> None:
    (landing / "flights").mkdir(exist_ok=True)
    (landing / "flights" / name).write_text("\n".join([HEADER, *rows]) + "\n")


def count(answer: DuckDBPyConnection, table: str) -> int:
    ((number,),) = answer.execute(f"SELECT count(*) FROM {table}").fetchall()
    return int(number)


def test_a_flight_has_a_key_a_day_and_times_in_utc(tmp_path: Path) -> None:
    land(tmp_path, "a.csv", ROW)
    answer = recompute.flights(tmp_path)
    result = answer.execute("SELECT flight_id, day::VARCHAR, scheduled_at::VARCHAR, departed_at::VARCHAR FROM silver")
    assert result.fetchall() == [
        ("20130101T10Z-UA-1545", "2013-01-01", "2013-01-01 10:15:00+00", "2013-01-01 10:17:00+00")
    ]


def test_local_times_have_the_summer_time_of_new_york(tmp_path: Path) -> None:
    land(tmp_path, "a.csv", ROW.replace("2013,1,1,", "2013,7,1,", 1))
    rows = recompute.flights(tmp_path).execute("SELECT scheduled_at::VARCHAR FROM silver").fetchall()
    assert rows == [("2013-07-01 09:15:00+00",)]


def test_the_last_published_record_of_a_flight_is_in_silver(tmp_path: Path) -> None:
    later = ROW.replace(",517,515,2,", ",527,515,12,").replace("2013-01-02T11", "2013-01-05T11")
    land(tmp_path, "b.csv", later)
    land(tmp_path, "c.csv", ROW)
    answer = recompute.flights(tmp_path)
    assert count(answer, "ids") == 2
    assert answer.execute("SELECT flights, mean_delay, max_delay FROM gold").fetchall() == [(1, 12.0, 12)]


@pytest.mark.parametrize(
    "row",
    [
        ROW.replace(",515,2,", ",515,late,"),
        ROW.replace(",EWR,", ",,"),
        ROW.replace(",EWR,", ",ZRH,"),
        ROW.replace("2013,1,1,", "2013,13,1,", 1),
        ROW.rpartition(",")[0],
        ROW + ",more",
    ],
)
def test_a_record_that_breaks_a_rule_is_quarantined_and_in_no_table(tmp_path: Path, row: str) -> None:
    land(tmp_path, "a.csv", row)
    answer = recompute.flights(tmp_path)
    assert (count(answer, "ids"), count(answer, "quarantined"), count(answer, "silver")) == (1, 1, 0)


def test_files_with_temporary_names_are_ignored(tmp_path: Path) -> None:
    for name in ("a.csv.tmp", "_a.csv", ".a.csv", "notes.txt"):
        land(tmp_path, name, ROW)
    assert count(recompute.flights(tmp_path), "ids") == 0


def test_the_numbers_of_records_agree_with_the_landed_files(tmp_path: Path) -> None:
    landed = flights_feed.wave_two(tmp_path)
    answer = recompute.flights(tmp_path)
    readable = sum(file.rows for file in landed if not file.name.endswith(".gz"))
    assert count(answer, "bad_files") == 1
    assert count(answer, "ids") == readable
    assert count(answer, "quarantined") == 12 + 40 + 1


def test_flights_have_the_worst_weather_of_the_day_at_their_airport_and_the_name_of_their_airline(
    tmp_path: Path,
) -> None:
    other_airport = ROW.replace(",UA,1545,", ",AA,7,").replace(",EWR,", ",JFK,")
    land(tmp_path, "a.csv", ROW, other_airport)
    first, _ = weather_feed.land_first(tmp_path, date(2013, 1, 1), date(2013, 1, 2))
    answer = recompute.flights(tmp_path)
    recompute.add_delays(answer, tmp_path)
    assert count(answer, "weather") == first.rows
    delays = answer.execute("SELECT carrier, airline, flights, round(wind, 1), visibility FROM delays ORDER BY ALL")
    assert delays.fetchall() == [
        ("AA", "American Airlines Inc.", 1, 21.9, 10.0),
        ("UA", "United Air Lines Inc.", 1, 18.4, 10.0),
    ]


def test_a_landing_zone_in_a_bucket_is_read_as_a_folder(s3_server: S3Process, tmp_path: Path) -> None:
    bucket = Address(new_store(s3_server), "landing")
    answers = []
    for landing in (tmp_path, bucket):
        flights_feed.wave_two(landing)
        weather_feed.land_first(landing, weather_feed.WRONG_DAY)
        answer = recompute.flights(landing)
        recompute.add_delays(answer, landing)
        answers.append(answer)
    folder, other = answers
    for table in ("gold", "delays"):
        rows = other.sql(f"FROM {table}").to_arrow_table()
        assert recompute.differences(folder, table, rows.column_names, rows) == 0
        assert rows.num_rows == count(folder, table) > 0
    ((path,),) = other.execute("SELECT min(path) FROM bad_files").fetchall()
    assert path.startswith(f"{bucket}/flights/") and count(other, "bad_files") == count(folder, "bad_files")


def test_the_correction_of_the_weather_replaces_the_wrong_hour(tmp_path: Path) -> None:
    day = weather_feed.WRONG_DAY
    land(tmp_path, "a.csv", ROW.replace("2013,1,1,", f"2013,{day.month},{day.day},", 1))
    weather_feed.land_first(tmp_path, day, day)
    winds = []
    for step in (lambda: None, lambda: weather_feed.land_correction(tmp_path)):
        step()
        answer = recompute.flights(tmp_path)
        recompute.add_delays(answer, tmp_path)
        winds += answer.execute("SELECT round(wind, 1) FROM delays").fetchall()
    assert winds == [(1048.4,), (21.9,)]


def click(number: int, sequence: int, kind: str = "view", **fields: object) -> Message:
    view = {"occurred_at": "2026-03-02T08:10:00Z", "user_id": "u1", "page": "/Boats?x=1", "duration_ms": 1500}
    event = {**(view if kind == "view" else {}), "event_id": f"e{number}", "sequence": sequence, "kind": kind, **fields}
    return Message(0, number * 100 + sequence, 0, b"k", json.dumps(event).encode())


def test_views_are_counted_per_page_and_hour() -> None:
    answer = recompute.clickstream([click(1, 1), click(2, 1), click(3, 1, user_id="u2", agent="uptime-probe")])
    assert answer.execute("SELECT page, window_start::VARCHAR, views, users, longest_stay FROM gold").fetchall() == [
        ("/boats", "2026-03-02 08:00:00+00", 2, 1, 1.5)
    ]
    assert count(answer, "filtered") == 1


def test_views_of_a_user_with_at_most_half_an_hour_between_them_are_a_session() -> None:
    times = ("08:00:00", "08:30:00", "09:00:01", "09:05:00")
    events = [click(number, 1, occurred_at=f"2026-03-02T{time}Z") for number, time in enumerate(times)]
    answer = recompute.clickstream([*events, click(9, 1, user_id="u2")])
    sessions = answer.execute(
        "SELECT user_id, strftime(started_at, '%H:%M'), pages, seconds, bounce FROM sessions ORDER BY ALL"
    ).fetchall()
    assert sessions == [
        ("u1", "08:00", 2, 1800.0, False),
        ("u1", "09:00", 2, 299.0, False),
        ("u2", "08:10", 1, 0.0, True),
    ]


def test_an_older_version_after_a_deletion_has_no_effect() -> None:
    answer = recompute.clickstream([click(1, 3, "delete"), click(1, 1), click(1, 2)])
    assert answer.execute("SELECT event_id, sequence, _deleted FROM silver").fetchall() == [("e1", 3, True)]
    assert count(answer, "gold") == 0


def test_values_that_are_not_events_are_quarantined() -> None:
    odd = [
        Message(0, n, 0, b"k", value)
        for n, value in enumerate((b"no", b"[1]", b'{"sequence": 1, "kind": "view"}', None))
    ]
    answer = recompute.clickstream(odd)
    assert count(answer, "ids") == count(answer, "quarantined") == 4


def test_differences_count_rows_of_both_tables_with_repetitions() -> None:
    answer = recompute.clickstream([click(1, 1), click(2, 1)])
    same = pa.table({"page": ["/boats"], "views": [2]})
    other = pa.table({"page": ["/boats", "/boats"], "views": [2, 3]})
    assert recompute.differences(answer, "gold", ("page", "views"), same) == 0
    assert recompute.differences(answer, "gold", ("page", "views"), other) == 1
