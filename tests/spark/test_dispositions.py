"""Dispositions of rows in whole runs: a batch that does not balance is not written, and a new column is added to the table.

Each disposition and each error of a transform is tested on small frames in `tests/spark/batch`.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from typing import Any

import pytest

from demo import flights_feed
from tests.deployment import Deployment
from tidegate.lake.place import FlowPlace

pytestmark = pytest.mark.jvm

Edit = Callable[[Callable[[Any], Any]], None]
StartState = Callable[[Callable[[Deployment], None]], Deployment]


def records(number: int = 1, up_to: int = 60) -> list[dict[str, Any]]:
    """Flights of one day in January."""
    return [dict(record) for record in flights_feed.days()[date(2013, 1, number)][:up_to]]


def sixty_flights_in_bronze(deployment: Deployment) -> None:
    deployment.land("one.csv", flights_feed.as_csv(records()))
    deployment.run(flows=["bronze"])


def sixty_flights_in_all_tables(deployment: Deployment) -> None:
    deployment.land("one.csv", flights_feed.as_csv(records()))
    assert [flow.state for flow in deployment.run().flows] == ["done", "done", "done"]


@pytest.fixture
def clean(monkeypatch: pytest.MonkeyPatch) -> Edit:
    """A function that applies another function to the output of the transform."""
    import spark_jobs.flights

    original = spark_jobs.flights.clean

    def edit(change: Callable[[Any], Any]) -> None:
        monkeypatch.setattr(spark_jobs.flights, "clean", lambda rows: change(original(rows)))

    return edit


def test_a_transform_that_drops_rows_fails_the_run_and_nothing_is_written(start_state: StartState, clean: Edit) -> None:
    flights = start_state(sixty_flights_in_bronze)
    clean(lambda rows: rows.where("carrier != 'UA'"))

    report = flights.run(flows=["silver", "gold"])

    error = report.flow("silver").error
    assert error is not None
    assert (error.kind, error.transient) == ("LedgerImbalanceError", False)
    assert "transform 'flights:clean' dropped" in error.message
    assert report.flow("gold").state == "skipped"
    assert not flights.layout.table("silver.flights").exists()
    assert not FlowPlace(flights.layout, "flights", "silver").quarantine.exists()


@pytest.mark.nightly
def test_a_new_column_is_added_to_the_table_and_the_downstream_flow_continues(
    start_state: StartState, clean: Edit
) -> None:
    from pyspark.sql import functions as F

    flights = start_state(sixty_flights_in_all_tables)
    clean(lambda rows: rows.withColumn("note", F.lit("new")))
    flights.land("two.csv", flights_feed.as_csv(records(2, up_to=20)))

    added = flights.run()

    assert [flow.error for flow in added.flows] == [None, None, None]
    assert sorted({str(note) for note in flights.table("silver.flights")["note"].to_pylist()}) == ["None", "new"]
