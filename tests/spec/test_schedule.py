"""A pipeline runs on a time schedule or after other pipelines."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.spec.trips import TRIPS
from tidegate.errors import FieldError
from tidegate.json_codec import to_plain
from tidegate.project.fingerprints import fingerprint
from tidegate.spec import AfterTables


def test_a_pipeline_can_follow_tables_of_other_pipelines() -> None:
    following = replace(TRIPS, schedule=AfterTables("silver.stations", "bronze.weather"))
    assert to_plain(following)["schedule"] == {"tables": ("silver.stations", "bronze.weather"), "intervals": False}
    assert fingerprint(to_plain(following)) != fingerprint(to_plain(TRIPS))


def test_a_pipeline_cannot_follow_its_own_table() -> None:
    with pytest.raises(FieldError, match=r"'silver\.trips'.*trigger itself"):
        replace(TRIPS, schedule=AfterTables("silver.stations", "silver.trips"))


@pytest.mark.parametrize("tables", [(), ("stations",), ("tin.stations",), ("silver.a", "silver.a"), (5,)])
def test_only_a_list_of_different_tables_can_be_followed(tables: tuple[Any, ...]) -> None:
    with pytest.raises(FieldError, match="tables"):
        AfterTables(*tables)


@pytest.mark.parametrize("schedule", [None, "@hourly", "@daily", "@weekly", "@monthly", "@yearly", "*/5 * * * 1-5"])
def test_presets_and_cron_expressions_are_accepted(schedule: str | None) -> None:
    assert replace(TRIPS, schedule=schedule).schedule == schedule
