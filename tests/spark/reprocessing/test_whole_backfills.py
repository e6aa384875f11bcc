"""Backfills, full refreshes and reingests of whole pipelines; the results are compared with DuckDB.

Tests of single cases with small frames are in `test_backfill.py` and `test_reingest.py`.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from datetime import date
from typing import Any

import pytest

from demo import flights_feed, recompute
from tests.deployment import Deployment
from tidegate.ops.journal import Journal
from tidegate.pages.content import PageContent
from tidegate.project import registry
from tidegate.spark.reprocessing import backfill
from tidegate.spec import RewriteLimits

pytestmark = pytest.mark.jvm

FIRST, SECOND, THIRD = date(2013, 1, 1), date(2013, 1, 2), date(2013, 1, 3)
SILVER = ["flight_id", "day", "carrier", "origin", "dest", "dep_delay", "arr_delay", "published_on"]
GOLD = ["day", "carrier", "flights", "cancelled", "late", "max_delay"]
STATISTICS = """
    SELECT day, carrier, count(*) AS flights, count(*) FILTER (cancelled) AS cancelled,
           count(*) FILTER (dep_delay >= 15) AS late, max(dep_delay) AS max_delay
    FROM silver GROUP BY day, carrier
"""


StartState = Callable[[Callable[[Deployment], None]], Deployment]


def three_days_in_all_tables(deployment: Deployment) -> None:
    """Some flights of each day, and an unreadable file."""
    for day in (FIRST, SECOND, THIRD):
        deployment.land(flights_feed.name_of(day), flights_feed.as_csv(flights_feed.days()[day][:80]))
    deployment.land("broken.csv", "year,month,day\n2013,1,x\n")
    assert [flow.state for flow in deployment.run().flows] == ["done", "done", "done"]


@pytest.fixture
def flights(start_state: StartState, monkeypatch: pytest.MonkeyPatch) -> Deployment:
    """Limits of backfills and refreshes are another subject: `test_backfill.py`."""
    import pipelines.flights

    unlimited = RewriteLimits(deleted_share=1, quarantined_share=1)
    pipeline = dataclasses.replace(pipelines.flights.pipeline, rewrite_limits=unlimited)
    monkeypatch.setattr(pipelines.flights, "pipeline", pipeline)
    return start_state(three_days_in_all_tables)


def new_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """Silver filters one carrier, moves another's flights to Newark and sets their delay to one minute."""
    from pyspark.sql import functions as F

    import spark_jobs.flights

    clean = spark_jobs.flights.clean

    def changed(rows: Any) -> Any:
        is_american = F.col("carrier") == "AA"
        filtered = F.when(F.col("carrier") == "UA", F.lit("no_united")).otherwise(F.col("_filtered"))
        return clean(rows).withColumns(
            {
                "origin": F.when(is_american, F.lit("EWR")).otherwise(F.col("origin")),
                "dep_delay": F.when(is_american, F.lit(1)).otherwise(F.col("dep_delay")),
                "_filtered": filtered,
            }
        )

    monkeypatch.setattr(spark_jobs.flights, "clean", changed)


def expected_by_new_code(flights: Deployment, days: tuple[date, ...]) -> Any:
    """Tables that DuckDB computes from the landing zone, with the new code's rules on the given days."""
    expected = recompute.flights(flights.environment.landing)
    within = "day IN (" + ", ".join(f"DATE '{day}'" for day in days) + ")"
    expected.execute(f"DELETE FROM silver WHERE carrier = 'UA' AND {within}")
    expected.execute(f"UPDATE silver SET origin = 'EWR', dep_delay = 1 WHERE carrier = 'AA' AND {within}")
    expected.execute(f"CREATE OR REPLACE TABLE gold AS {STATISTICS}")
    return expected


def check(flights: Deployment, expected: Any) -> None:
    assert recompute.differences(expected, "silver", SILVER, flights.table("silver.flights")) == 0
    assert recompute.differences(expected, "gold", GOLD, flights.table("gold.daily_delay")) == 0


@pytest.mark.nightly
def test_a_backfill_applies_the_new_code_to_the_window_and_leaves_other_days_unchanged(
    flights: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    entries = flights.quarantined("silver").num_rows
    new_code(monkeypatch)

    report = flights.run(mode="backfill", from_date="2013-01-01", to_date="2013-01-02")

    assert [(flow.flow, flow.state, flow.error) for flow in report.flows] == [
        ("bronze", "idle", None),
        ("silver", "done", None),
        ("gold", "done", None),
    ]
    check(flights, expected_by_new_code(flights, (FIRST, SECOND)))
    line = report.flow("silver").batches[-1]
    assert (line.kind, line.imbalance()) == ("backfill", 0)
    assert line.deleted > 0 < line.upserted
    assert line.unchanged > line.upserted, "rows without a change are not written again"
    assert line.filtered["no_united"] == line.deleted
    assert flights.quarantined("silver").num_rows == entries, "no second entry of a row"
    ledger_line = flights.ledger()[-1]
    assert (ledger_line["mode"], ledger_line["flow"]) == ("backfill", "gold")

    assert [flow.state for flow in flights.run().flows] == ["idle", "idle", "idle"]


def carriers(flights: Deployment, *allowed: str) -> None:
    """Rows of other carriers are quarantined."""
    kwargs = {"column": "carrier", "value_set": list(allowed), "mostly": 0.01}
    rule = {"type": "expect_column_values_to_be_in_set", "kwargs": kwargs, "severity": "warning"}
    flights.edit_suite("flights/silver", [rule])


@pytest.mark.nightly
def test_an_interrupted_backfill_is_finished_once_and_each_row_is_in_one_place(flights: Deployment) -> None:
    """Entries of rows that pass are closed, those of rows that fail stay open, and the decided split is kept."""
    first: dict[str, Any] = {
        "mode": "backfill",
        "from_date": "2013-01-01",
        "to_date": "2013-01-01",
        "flows": ["silver"],
    }
    carriers(flights, "AA", "DL", "B6")
    flights.run(**first)
    before = flights.quarantined("silver").num_rows
    request = flights.request(**first)
    carriers(flights, "AA", "DL", "UA")

    flights.run_and_abort("after:write_quarantine:silver", request=request)

    carriers(flights, "AA", "WN")
    (line,) = flights.run(flows=["silver"]).flow("silver").batches
    assert (line.kind, line.imbalance()) == ("backfill", 0), "the next run finishes it first, whatever its request"
    silver = flights.table("silver.flights").to_pylist()
    assert {row["carrier"] for row in silver if row["day"] == FIRST} == {"AA", "DL", "UA"}
    assert {row["carrier"] for row in silver if row["day"] == SECOND} > {"AA", "DL", "B6", "WN"}
    entries = [row for row in flights.quarantined("silver").to_pylist() if row["level"] == "row"]
    closed = [row for row in entries if row["state"] == "replayed"]
    waiting = [row for row in entries if row["state"] == "open" and row["rules"] == ["in_set(carrier)"]]
    assert {row["_row_id"] for row in closed} <= {row["_row_id"] for row in silver}
    assert {row["_row_id"] for row in waiting} & {row["_row_id"] for row in silver} == set()
    assert len(closed) == sum(row["carrier"] == "UA" and row["day"] == FIRST for row in silver) > 0
    assert line.quarantined == len(waiting) == len({row["_row_id"] for row in waiting})
    assert len(entries) > before, "rows that passed before have new entries"
    assert {row["attempts"] for row in waiting} == {0, 1}
    again = flights.try_run(request).flow("silver")
    assert (again.batches, again.notes) == ([], [backfill.ALREADY_DONE])


@pytest.mark.nightly
def test_a_refused_backfill_changes_neither_the_table_nor_the_next_increment(flights: Deployment) -> None:
    before = flights.table("silver.flights")
    flights.edit_suite(
        "flights/silver",
        [
            {
                "type": "expect_column_values_to_be_in_set",
                "kwargs": {"column": "carrier", "value_set": ["none"]},
                "severity": "critical",
            }
        ],
    )

    report = flights.run(mode="backfill", from_date="2013-01-01", to_date="2013-01-01", flows=["silver"])

    assert report.flow("silver").state == "refused"
    lines = Journal(flights.layout).lines("flights", flow="silver", limit=2)
    assert [(line.label, line.outcome, line.request_label) for line in lines] == [
        ("backfill 0", "refused", "backfill"),
        ("batch 0", "split", ""),  # values of a wrong type, which no suite judges
    ]
    page = PageContent(flights.layout).batch(registry.load("flights"), "silver", "v1-0-batch-0")
    assert page is not None
    assert [judgement.outcome for judgement in page["judgements"]] == ["passed"]
    error = report.flow("silver").error
    assert error is not None and error.message.startswith("flow 'silver': backfill 0 refused by suite")
    assert flights.table("silver.flights").sort_by("flight_id").equals(before.sort_by("flight_id"))
    assert [flow.state for flow in flights.run().flows] == ["idle", "idle", "idle"]


@pytest.mark.nightly
def test_a_full_refresh_derives_whole_tables_once_per_run(flights: Deployment, monkeypatch: pytest.MonkeyPatch) -> None:
    new_code(monkeypatch)
    request = flights.request(mode="full_refresh")

    report = flights.try_run(request)

    assert [(flow.state, flow.error, flow.refresh) for flow in report.flows] == [
        ("idle", None, 0),
        ("done", None, 1),
        ("done", None, 1),
    ]
    check(flights, expected_by_new_code(flights, (FIRST, SECOND, THIRD)))
    assert report.flow("silver").batches[-1].kind == "swap"
    again = flights.try_run(request)
    assert [(flow.state, flow.refresh) for flow in again.flows] == [("idle", 0), ("idle", 1), ("idle", 1)]
    assert again.flow("gold").notes == [backfill.ALREADY_DONE]


@pytest.mark.nightly
def test_a_reingest_writes_missing_rows_to_bronze_without_duplicates(flights: Deployment) -> None:
    from deltalake import CommitProperties, DeltaTable

    # As if the flow itself had deleted them: the flows below would stop at a commit of someone else.
    writer = {"userMetadata": json.dumps({"app_id": "flights/bronze/v1/0", "batch_id": -1})}
    table = DeltaTable(str(flights.layout.table("bronze.flights")))
    table.delete("_path LIKE '%2013-01-02%'", commit_properties=CommitProperties(custom_metadata=writer))
    remaining = flights.table("bronze.flights").num_rows

    report = flights.run(mode="reingest")

    bronze = report.flow("bronze").batches[0]
    assert (bronze.files_listed, bronze.files_already_read) == (4, 3)
    ids = flights.table("bronze.flights")["_row_id"].to_pylist()
    assert len(ids) == len(set(ids)) > remaining
    expected = recompute.flights(flights.environment.landing)
    assert recompute.differences(expected, "ids", ["_row_id"], flights.table("bronze.flights")) == 0
    check(flights, expected)
