"""The driver dies at each numbered step of a micro-batch; one rerun later everything is there once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from demo import flights_feed, recompute
from tests.deployment import Deployment
from tidegate.checkpoints.lease import holder

pytestmark = [pytest.mark.jvm, pytest.mark.chaos]

STEPS = [
    "before:write_quarantine:bronze",
    "after:write_quarantine:bronze",
    "after:write_target:bronze",
    "after:record_batch:bronze",
    "before:write_quarantine:silver",
    "after:write_quarantine:silver",
    "after:write_target:silver",
    "after:record_batch:silver",
    "after:write_target:gold",
    "after:record_batch:gold",
]
SILVER = ("flight_id", "day", "carrier", "origin", "dest", "cancelled", "dep_delay", "arr_delay", "distance")


@pytest.fixture
def landed(deployment: Deployment) -> Deployment:
    """Two small days, a correction of the first, bad records and a truncated gzip."""
    land_sample(deployment.environment.landing)
    return deployment


def land_sample(landing: Path) -> None:
    from datetime import date

    for day in (date(2013, 1, 1), date(2013, 1, 2)):
        flights_feed.land_day(landing, day)
    records = flights_feed.days()[date(2013, 1, 1)]
    bad = [flights_feed._spoiled(record, number) for number, record in enumerate(flights_feed.days()[date(2013, 1, 3)])]
    flights_feed._land(landing, "broken [1].csv", flights_feed._csv(bad), len(bad))
    later = [flights_feed._delayed(record, minutes=7) for record in records[:200]]
    flights_feed._land(landing, "corrected 50%.csv", flights_feed._csv(later), len(later))
    import gzip

    packed = gzip.compress(flights_feed._csv(records))
    flights_feed._land(landing, "half.csv.gz", packed[: len(packed) // 2], 0)


def expect_everything_once(deployment: Deployment) -> None:
    """Bronze ids are the landed ids, none twice; every id has one place; silver and gold equal DuckDB's own answer."""
    answer = recompute.flights(deployment.environment.landing)
    differences = recompute.differences
    assert differences(answer, "ids", ["_row_id"], deployment.table("bronze.flights")) == 0
    assert differences(answer, "quarantined", ["_row_id"], deployment.quarantined("silver")) == 0
    assert differences(answer, "silver", SILVER, deployment.table("silver.flights"), "NOT _deleted") == 0
    gold = deployment.table("gold.daily_delay")
    assert (
        differences(answer, "gold", ["day", "carrier", "flights", "cancelled", "late", "p90_delay", "max_delay"], gold)
        == 0
    )
    bad_files = deployment.quarantined("bronze").to_pylist()
    assert [Path(json.loads(file["source"])["path"]).name for file in bad_files] == ["half.csv.gz"]


def expect_a_balanced_ledger(deployment: Deployment) -> None:
    from tidegate.report import BatchRecord

    lines = deployment.ledger()
    for line in lines:
        record = BatchRecord.from_json({**line, "filtered": dict(line["filtered"]), "rules": dict(line["rules"])})
        assert record.imbalance() == 0, line
    batches = [(line["app_id"], line["kind"] == "swap", line["batch_id"]) for line in lines]
    assert len(batches) == len(set(batches))


@pytest.mark.parametrize("step", STEPS)
def test_one_rerun_after_a_kill_leaves_every_id_in_exactly_one_place(step: str, landed: Deployment, spark: Any) -> None:
    flow = step.rpartition(":")[2]
    above = {"bronze": [], "silver": ["bronze"], "gold": ["bronze", "silver"]}[flow]
    if above:
        landed.run(flows=above)
    landed.run_and_kill(step, flows=[flow])
    assert holder(landed.layout, f"checkpoint:flights/{flow}") is None, "SIGKILL frees the lease"

    report = landed.run()

    assert [flow.error for flow in report.flows] == [None, None, None]
    expect_everything_once(landed)
    expect_a_balanced_ledger(landed)


def test_a_commit_log_entry_that_was_lost_is_written_again_and_nothing_else(landed: Deployment, spark: Any) -> None:
    landed.run()
    versions = {
        name: len(list((landed.layout.table(name) / "_delta_log").glob("*.json")))
        for name in ("bronze.flights", "silver.flights")
    }
    for flow in ("bronze", "silver", "gold"):
        for name in ("0", ".0.crc"):
            (landed.layout.checkpoint("flights", flow, 1, 0) / "commits" / name).unlink()

    report = landed.run()

    assert [(flow.state, flow.error) for flow in report.flows] == [("done", None)] * 3
    expect_everything_once(landed)
    expect_a_balanced_ledger(landed)
    for name, before in versions.items():
        assert len(list((landed.layout.table(name) / "_delta_log").glob("*.json"))) == before


def test_an_edit_of_the_suite_between_kill_and_rerun_moves_no_row(landed: Deployment, spark: Any) -> None:
    landed.run(flows=["bronze"])
    landed.run_and_kill("after:write_quarantine:silver", flows=["silver"])
    decided = sorted(landed.quarantined("silver")["_row_id"].to_pylist())
    assert decided
    landed.edit_suite(
        "flights/silver",
        [
            {
                "type": "expect_column_values_to_be_between",
                "kwargs": {"column": "dep_delay", "min_value": -5, "max_value": 5},
                "severity": "warning",
            }
        ],
    )

    report = landed.run()

    assert [flow.error for flow in report.flows] == [None, None, None]
    assert sorted(landed.quarantined("silver")["_row_id"].to_pylist()) == decided
    expect_everything_once(landed)
    expect_a_balanced_ledger(landed)


def test_an_edit_of_the_transform_between_kill_and_rerun_moves_no_row(
    landed: Deployment, spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    landed.run(flows=["bronze"])
    landed.run_and_kill("after:write_quarantine:silver", flows=["silver"])
    decided = sorted(landed.quarantined("silver")["_row_id"].to_pylist())
    from pyspark.sql import functions as F

    import spark_jobs.flights

    clean = spark_jobs.flights.clean
    monkeypatch.setattr(
        spark_jobs.flights,
        "clean",
        lambda rows: clean(rows).withColumn("_filtered", F.when(F.col("carrier") == "UA", F.lit("no_united"))),
    )

    report = landed.run()

    assert [flow.error for flow in report.flows] == [None, None, None]
    assert sorted(landed.quarantined("silver")["_row_id"].to_pylist()) == decided
    line = next(line for line in landed.ledger() if line["flow"] == "silver")
    ids = set(landed.table("bronze.flights")["_row_id"].to_pylist())
    assert line["read"] == len(ids)
    assert dict(line["filtered"])["no_united"] > 0
    assert line["quarantined"] == len(decided)
    expect_a_balanced_ledger(landed)
