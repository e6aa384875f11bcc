"""The transforms of the delays pipeline on a few rows."""

from datetime import date

import pytest

from tidegate.testing import judge_rows, transform_rows

pytestmark = [pytest.mark.jvm, pytest.mark.usefixtures("spark")]

DAY = date(2013, 2, 12)
HOUR = {
    "origin": "EWR",
    "time_hour": "2013-02-12T04:00:00Z",
    "wind_speed": "10.5",
    "published_on": "2013-02-13T11:00:00Z",
}


def test_the_weather_of_the_night_belongs_to_new_yorks_day() -> None:
    late, early = transform_rows("delays", "weather", HOUR, {**HOUR, "time_hour": "2013-02-12T05:00:00Z"})
    assert (late["day"], early["day"]) == (date(2013, 2, 11), DAY)


def test_a_correction_replaces_an_hour_and_a_value_that_is_no_number_is_quarantined() -> None:
    judged = judge_rows(
        "delays",
        "weather",
        HOUR,
        {**HOUR, "wind_speed": "9.5", "published_on": "2013-02-16T11:00:00Z"},
        {**HOUR, "wind_speed": "calm", "origin": "JFK"},
    )
    assert [(each.disposition, each.rules) for each in judged] == [
        ("deduplicated", ()),
        ("written", ()),
        ("quarantined", ("wrong_type(wind_speed)",)),
    ]


def test_flights_have_the_worst_weather_of_the_day_where_they_departed() -> None:
    flights = [
        {"day": DAY, "carrier": carrier, "origin": origin, "dep_delay": delay}
        for carrier, origin, delay in (("UA", "EWR", 4), ("UA", "JFK", None), ("XX", "LGA", 1))
    ]
    weather = [
        {"origin": origin, "day": DAY, "wind": wind, "visibility": miles}
        for origin, wind, miles in (("EWR", 12.0, 10.0), ("EWR", 23.0, 8.0), ("JFK", 20.0, 0.5))
    ]
    airlines = [{"carrier": "UA", "name": "United Air Lines Inc."}]
    rows = transform_rows("delays", "delays", *flights, weather=weather, airlines=airlines)
    by_carrier = {row["carrier"]: row for row in rows}
    united = {"airline": "United Air Lines Inc.", "flights": 2, "mean_delay": 4.0, "wind": 23.0, "visibility": 0.5}
    assert by_carrier["UA"] == {"day": DAY, "carrier": "UA", **united}
    assert (by_carrier["XX"]["wind"], by_carrier["XX"]["airline"]) == (None, None)
