"""A pipeline that waits for whole days, with a live scheduler and real Spark.

Per merge, tests/airflow covers which events are sent (test_tasks, test_whole_runs) and what the schedule consists of (test_dag).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.live.project import declare_readings
from tests.live.tables import rows
from tests.waiting import wait_until

if TYPE_CHECKING:
    from tests.live_airflow import Live

pytestmark = [
    pytest.mark.live,
    pytest.mark.jvm,
    pytest.mark.kafka,
    pytest.mark.airflow,
    pytest.mark.nightly,
    pytest.mark.timeout(2400),
]

EVENTS = "bronze.readings/intervals"


def test_the_event_of_a_complete_day_starts_the_pipeline_that_waits_for_it_once(live: Live) -> None:
    day = declare_readings(live.project)
    wait_until(lambda: {"readings", "daily"} <= live.dags().keys(), "Airflow has read the new files")

    def run_readings() -> dict[str, str | None]:
        return live.end(live.trigger("readings"), "readings")

    assert run_readings() == dict.fromkeys(("plan", "run", "bronze"), "success")
    assert (live.events(EVENTS), live.runs("daily")) == ([], {}), "rows arrived, and the day is not complete"

    (day / "_SUCCESS").touch()
    assert run_readings() == {"plan": "success", "run": "skipped", "bronze": "skipped"}
    assert [event["interval"] for event in live.events(EVENTS)] == ["2026-01-05"]
    wait_until(lambda: bool(live.runs("daily")), "the event starts a run")
    (run,) = live.runs("daily")
    assert live.end(run, "daily") == dict.fromkeys(("plan", "run", "silver"), "success")
    assert run.startswith("asset_triggered__")
    assert rows(live.layout, "silver.readings", "id", "value") == [{"id": "a", "value": 1}]

    (day / "part-2.json").write_text('{"id": "b", "value": 2, "at": "2026-01-05"}\n')
    assert run_readings() == dict.fromkeys(("plan", "run", "bronze"), "success")
    assert len(live.events(EVENTS)) == 1, "a late file sends no second event"
    assert list(live.runs("daily")) == [run]
