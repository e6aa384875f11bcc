"""A replay leaves the tables as if the new code had always run; a refresh and a reingest bring nothing twice.

Whole pipelines, judged by DuckDB. Each case, on small frames: `test_replay.py` and `test_reingest.py` beside it.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from typing import Any

import pytest

from demo import flights_feed, recompute
from tests.deployment import Deployment
from tidegate import registry
from tidegate.ops.journal import Journal
from tidegate.pages import rebuild
from tidegate.spark.reprocessing import replay

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
    """Some flights of each day, and a file that cannot be used."""
    for day in (FIRST, SECOND, THIRD):
        deployment.land(flights_feed.name_of(day), flights_feed._csv(flights_feed.days()[day][:80]))
    deployment.land("broken.csv", "year,month,day\n2013,1,x\n")
    assert [flow.state for flow in deployment.run().flows] == ["done", "done", "done"]


@pytest.fixture
def flights(start_state: StartState) -> Deployment:
    return start_state(three_days_in_all_tables)


def new_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """Silver no longer makes one carrier, moves another's flights to Newark, and says that they left a minute late."""
    from pyspark.sql import functions as F

    import spark_jobs.flights

    clean = spark_jobs.flights.clean

    def changed(rows: Any) -> Any:
        ours = F.col("carrier") == "AA"
        filtered = F.when(F.col("carrier") == "UA", F.lit("no_united")).otherwise(F.col("_filtered"))
        return clean(rows).withColumns(
            {
                "origin": F.when(ours, F.lit("EWR")).otherwise(F.col("origin")),
                "dep_delay": F.when(ours, F.lit(1)).otherwise(F.col("dep_delay")),
                "_filtered": filtered,
            }
        )

    monkeypatch.setattr(spark_jobs.flights, "clean", changed)


def answer_of_new_code(flights: Deployment, days: tuple[date, ...]) -> Any:
    """DuckDB's own tables from the landing zone, with the new code's rules on the given days."""
    answer = recompute.flights(flights.environment.landing)
    within = "day IN (" + ", ".join(f"DATE '{day}'" for day in days) + ")"
    answer.execute(f"DELETE FROM silver WHERE carrier = 'UA' AND {within}")
    answer.execute(f"UPDATE silver SET origin = 'EWR', dep_delay = 1 WHERE carrier = 'AA' AND {within}")
    answer.execute(f"CREATE OR REPLACE TABLE gold AS {STATISTICS}")
    return answer


def check(flights: Deployment, answer: Any) -> None:
    assert recompute.differences(answer, "silver", SILVER, flights.table("silver.flights")) == 0
    assert recompute.differences(answer, "gold", GOLD, flights.table("gold.daily_delay")) == 0


@pytest.mark.nightly
def test_a_replayed_window_is_as_if_the_new_code_had_always_run_and_the_rest_is_as_it_was(
    flights: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = flights.quarantined("silver").num_rows
    new_code(monkeypatch)

    report = flights.run(mode="replay", from_date="2013-01-01", to_date="2013-01-02")

    assert [(flow.flow, flow.state, flow.error) for flow in report.flows] == [
        ("bronze", "idle", None),
        ("silver", "done", None),
        ("gold", "done", None),
    ]
    check(flights, answer_of_new_code(flights, (FIRST, SECOND)))
    line = report.flow("silver").batches[-1]
    assert (line.kind, line.imbalance()) == ("rederive", 0)
    assert line.deleted > 0 < line.upserted
    assert line.unchanged > line.upserted, "what the new code makes as before is not written again"
    assert line.filtered["no_united"] == line.deleted
    assert flights.quarantined("silver").num_rows == held, "what is in quarantine is not put there twice"
    told = flights.ledger()[-1]
    assert (told["mode"], told["flow"]) == ("replay", "gold")

    assert [flow.state for flow in flights.run().flows] == ["idle", "idle", "idle"]


def carriers(flights: Deployment, *allowed: str) -> None:
    """Rows of other carriers go to quarantine."""
    kwargs = {"column": "carrier", "value_set": list(allowed), "mostly": 0.01}
    rule = {"type": "expect_column_values_to_be_in_set", "kwargs": kwargs, "severity": "warning"}
    flights.edit_suite("flights/silver", [rule])


@pytest.mark.nightly
def test_a_replay_whose_driver_died_is_finished_once_and_each_row_is_in_one_place(flights: Deployment) -> None:
    """Entries of rows that pass now end, those of rows that fail again stay, and the split that was decided stands."""
    first = {"mode": "replay", "from_date": "2013-01-01", "to_date": "2013-01-01", "flows": ["silver"]}
    carriers(flights, "AA", "DL", "B6")
    flights.run(**first)
    before = flights.quarantined("silver").num_rows
    request = flights.request(**first)
    carriers(flights, "AA", "DL", "UA")

    flights.run_and_abort("after:write_quarantine:silver", request=request)

    carriers(flights, "AA", "WN")
    (line,) = flights.run(flows=["silver"]).flow("silver").batches
    assert (line.kind, line.imbalance()) == ("rederive", 0), "the next run finishes it first, whatever it was asked"
    silver = flights.table("silver.flights").to_pylist()
    assert {row["carrier"] for row in silver if row["day"] == FIRST} == {"AA", "DL", "UA"}
    assert {row["carrier"] for row in silver if row["day"] == SECOND} > {"AA", "DL", "B6", "WN"}
    entries = [row for row in flights.quarantined("silver").to_pylist() if row["level"] == "row"]
    ended = [row for row in entries if row["state"] == "replayed"]
    waiting = [row for row in entries if row["state"] == "open" and row["rules"] == ["in_set(carrier)"]]
    assert {row["_row_id"] for row in ended} <= {row["_row_id"] for row in silver}
    assert {row["_row_id"] for row in waiting} & {row["_row_id"] for row in silver} == set()
    assert len(ended) == sum(row["carrier"] == "UA" and row["day"] == FIRST for row in silver) > 0
    assert line.quarantined == len(waiting) == len({row["_row_id"] for row in waiting})
    assert len(entries) > before, "those that had passed until now are new entries"
    assert {row["attempts"] for row in waiting} == {0, 1}
    again = flights.try_run(request).flow("silver")
    assert (again.batches, again.notes) == ([], [replay.ONCE])


@pytest.mark.nightly
def test_a_replay_that_its_gate_refuses_leaves_the_table_and_the_next_increment_alone(flights: Deployment) -> None:
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

    report = flights.run(mode="replay", from_date="2013-01-01", to_date="2013-01-01", flows=["silver"])

    assert report.flow("silver").state == "refused"
    lines = Journal(flights.layout).lines("flights", flow="silver", limit=2)
    assert [(line.called, line.outcome, line.asked) for line in lines] == [
        ("replay 0", "refused", "replay"),
        ("batch 0", "passed", ""),
    ]
    rebuild(flights.layout, registry.load("flights"))
    page = (flights.layout.docs("flights") / "silver" / "v1-0-batch-0.html").read_text()
    assert "outcome refused" not in page
    assert report.flow("silver").error["message"].startswith("flow 'silver': replay 0 refused by suite")
    assert flights.table("silver.flights").sort_by("flight_id").equals(before.sort_by("flight_id"))
    assert [flow.state for flow in flights.run().flows] == ["idle", "idle", "idle"]


@pytest.mark.nightly
def test_a_full_refresh_makes_whole_tables_anew_once_per_run(
    flights: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    new_code(monkeypatch)
    request = flights.request(mode="full_refresh")

    report = flights.try_run(request)

    assert [(flow.state, flow.error, flow.refresh) for flow in report.flows] == [
        ("idle", None, 0),
        ("done", None, 1),
        ("done", None, 1),
    ]
    check(flights, answer_of_new_code(flights, (FIRST, SECOND, THIRD)))
    assert report.flow("silver").batches[-1].kind == "swap"
    again = flights.try_run(request)
    assert [(flow.state, flow.refresh) for flow in again.flows] == [("idle", 0), ("idle", 1), ("idle", 1)]
    assert again.flow("gold").notes == [replay.ONCE]


@pytest.mark.nightly
def test_a_reingest_brings_back_what_bronze_lacks_and_nothing_twice(flights: Deployment) -> None:
    from deltalake import DeltaTable

    DeltaTable(str(flights.layout.table("bronze.flights"))).delete("_path LIKE '%2013-01-02%'")
    lacking = flights.table("bronze.flights").num_rows

    report = flights.run(mode="reingest")

    bronze = report.flow("bronze").batches[0]
    assert (bronze.files_listed, bronze.files_already_read) == (4, 3)
    ids = flights.table("bronze.flights")["_row_id"].to_pylist()
    assert len(ids) == len(set(ids)) > lacking
    answer = recompute.flights(flights.environment.landing)
    assert recompute.differences(answer, "ids", ["_row_id"], flights.table("bronze.flights")) == 0
    check(flights, answer)
