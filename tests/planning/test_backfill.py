"""The printed commands. tests/airflow/test_intervals.py compares the printed instants with those of Airflow."""

from __future__ import annotations

import dataclasses

import pytest

from tidegate.planning.backfill import commands
from tidegate.project import registry
from tidegate.requests.request import RunRequest
from tidegate.spec import AfterTables, Pipeline

FLIGHTS = registry.load("flights")


def request_of(pipeline: Pipeline, first: str, last: str, **more: object) -> RunRequest:
    return RunRequest.check(pipeline, "r", {"mode": "backfill", "from_date": first, "to_date": last, **more})


@pytest.mark.parametrize("schedule", [None, AfterTables("silver.clicks")])
def test_without_a_cron_schedule_there_is_no_command_by_interval(
    schedule: AfterTables | None,
) -> None:
    pipeline = dataclasses.replace(FLIGHTS, schedule=schedule)
    printed = commands(pipeline, request_of(pipeline, "2026-03-03", "2026-03-05"))
    assert printed.by_interval is None
    assert len(printed.single) == 2


def test_the_commands_contain_only_the_parameters_of_the_request() -> None:
    assert commands(FLIGHTS, RunRequest.check(FLIGHTS, "r", {})).single == (
        "airflow dags trigger flights",
        "tidegate run flights",
    )
    printed = commands(FLIGHTS, request_of(FLIGHTS, "2013-01-01", "2013-01-02", flows=["gold"]))
    assert '"flows": ["gold"]' in printed.single[0]
    assert "--flow gold" in printed.single[1]
    assert printed.by_interval is None
