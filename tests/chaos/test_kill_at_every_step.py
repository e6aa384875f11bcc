"""The driver is aborted at each numbered step of a micro-batch; after a rerun every row is in exactly one place.

The abort is an exception that nothing catches; `tests/chaos/test_an_abort_is_a_kill.py` sends real SIGKILLs, at
another of these steps each week.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos.sample import WAITING, StartState, expect_everything_once, in_bronze, landed
from tests.deployment import Deployment
from tidegate.checkpoints.lease import holder
from tidegate.lake.place import Place

pytestmark = [pytest.mark.jvm, pytest.mark.chaos]

STEPS = {
    "bronze": (
        "before:write_quarantine",
        "after:write_quarantine",
        "after:write_target",
        "after:record_batch",
    ),
    "silver": (
        "before:write_quarantine",
        "after:write_quarantine",
        "after:write_target",
        "after:record_batch",
    ),
    "gold": ("after:write_target", "after:record_batch"),
}
"""By flow: the steps at which it is aborted, in the order of a batch."""


@pytest.mark.nightly
@pytest.mark.parametrize("flow", STEPS)
def test_a_run_that_is_aborted_one_step_later_each_time_leaves_every_id_in_exactly_one_place(
    flow: str, start_state: StartState
) -> None:
    deployment = start_state(WAITING[flow])
    for step in STEPS[flow]:
        deployment.run_and_abort(f"{step}:{flow}", flows=[flow])
        assert holder(deployment.layout, f"checkpoint:flights/{flow}") is None, "the lease is free"

    report = deployment.run()

    assert [flow.error for flow in report.flows] == [None, None, None]
    expect_everything_once(deployment)
    deployment.expect_a_balanced_ledger()


def aborted_after_the_split(deployment: Deployment) -> None:
    in_bronze(deployment)
    deployment.run_and_abort("after:write_quarantine:silver", flows=["silver"])


@pytest.mark.nightly
def test_a_lost_entry_of_the_commit_log_is_written_again_and_nothing_else(start_state: StartState) -> None:
    deployment = start_state(landed)
    deployment.run()
    versions = {
        name: len(list(Path(deployment.layout.table(name) / "_delta_log").glob("*.json")))
        for name in ("bronze.flights", "silver.flights")
    }
    for flow in ("bronze", "silver", "gold"):
        for name in ("0", ".0.crc"):
            Path(Place(deployment.layout, "flights", flow, 1, 0).checkpoint / "commits" / name).unlink()

    report = deployment.run()

    assert [(flow.state, flow.error) for flow in report.flows] == [("done", None)] * 3
    expect_everything_once(deployment)
    deployment.expect_a_balanced_ledger()
    for name, before in versions.items():
        assert len(list(Path(deployment.layout.table(name) / "_delta_log").glob("*.json"))) == before


@pytest.mark.nightly
def test_an_edit_of_the_suite_before_the_rerun_moves_no_row(start_state: StartState) -> None:
    deployment = start_state(aborted_after_the_split)
    quarantined_ids = sorted(deployment.quarantined("silver")["_row_id"].to_pylist())
    assert quarantined_ids
    deployment.edit_suite(
        "flights/silver",
        [
            {
                "type": "expect_column_values_to_be_between",
                "kwargs": {"column": "dep_delay", "min_value": -5, "max_value": 5},
                "severity": "warning",
            }
        ],
    )

    report = deployment.run()

    assert [flow.error for flow in report.flows] == [None, None, None]
    assert sorted(deployment.quarantined("silver")["_row_id"].to_pylist()) == quarantined_ids
    expect_everything_once(deployment)
    deployment.expect_a_balanced_ledger()


@pytest.mark.nightly
def test_an_edit_of_the_transform_before_the_rerun_moves_no_row(
    start_state: StartState, monkeypatch: pytest.MonkeyPatch
) -> None:
    deployment = start_state(aborted_after_the_split)
    quarantined_ids = sorted(deployment.quarantined("silver")["_row_id"].to_pylist())
    from pyspark.sql import functions as F

    import spark_jobs.flights

    clean = spark_jobs.flights.clean
    monkeypatch.setattr(
        spark_jobs.flights,
        "clean",
        lambda rows: clean(rows).withColumn("_filtered", F.when(F.col("carrier") == "UA", F.lit("no_united"))),
    )

    report = deployment.run()

    assert [flow.error for flow in report.flows] == [None, None, None]
    assert sorted(deployment.quarantined("silver")["_row_id"].to_pylist()) == quarantined_ids
    line = next(line for line in deployment.ledger() if line["flow"] == "silver")
    ids = set(deployment.table("bronze.flights")["_row_id"].to_pylist())
    assert line["read"] == len(ids)
    assert dict(line["filtered"])["no_united"] > 0
    assert line["quarantined"] == len(quarantined_ids)
    deployment.expect_a_balanced_ledger()
