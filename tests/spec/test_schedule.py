"""A pipeline runs by the clock, or after others."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.spec.trips import TRIPS
from tidegate.errors import FieldError
from tidegate.fingerprints import fingerprint
from tidegate.spec import AfterTables


def test_a_pipeline_follows_tables_of_others() -> None:
    following = replace(TRIPS, schedule=AfterTables("silver.stations", "bronze.weather"))
    assert following.to_json()["schedule"] == {"tables": ("silver.stations", "bronze.weather")}
    assert fingerprint(following.to_json()) != fingerprint(TRIPS.to_json())


def test_a_pipeline_that_follows_its_own_table_would_start_itself() -> None:
    with pytest.raises(FieldError, match=r"'silver\.trips'.*start itself"):
        replace(TRIPS, schedule=AfterTables("silver.stations", "silver.trips"))


@pytest.mark.parametrize("tables", [(), ("stations",), ("tin.stations",), ("silver.a", "silver.a"), (5,)])
def test_what_is_followed_are_tables_each_once(tables: tuple[Any, ...]) -> None:
    with pytest.raises(FieldError, match="tables"):
        AfterTables(*tables)


@pytest.mark.parametrize("schedule", [None, "@hourly", "@daily", "@weekly", "@monthly", "@yearly", "*/5 * * * 1-5"])
def test_usual_schedules_are_taken(schedule: str | None) -> None:
    assert replace(TRIPS, schedule=schedule).schedule == schedule
