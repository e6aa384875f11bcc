"""A new checkpoint version derives a table again while readers see the old one, and bronze gets no duplicates.

These tests run whole pipelines. Checks before the run: `test_flow.py`; cases of a swap: `reprocessing/test_swap.py`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from demo import flights_feed, recompute
from tests.deployment import Deployment
from tests.resolved import resolved
from tests.with_fields import with_fields
from tidegate.lake.place import Place
from tidegate.project import registry
from tidegate.reports.impact import acceptance
from tidegate.spec import Flow, Pipeline, RewriteLimits

pytestmark = pytest.mark.jvm

UNLIMITED = {"rewrite_limits": RewriteLimits(deleted_share=1, quarantined_share=1)}
GOLD = ["day", "carrier", "flights", "cancelled", "late", "max_delay"]


def land_some_of(deployment: Deployment, day: date) -> None:
    deployment.land(flights_feed.name_of(day), flights_feed.as_csv(flights_feed.days()[day][:80]))


def two_days_in_all_tables(deployment: Deployment) -> None:
    for day in (date(2013, 1, 1), date(2013, 1, 2)):
        land_some_of(deployment, day)
    assert [flow.state for flow in deployment.run().flows] == ["done", "done", "done"]


@pytest.fixture
def flights(start_state: Callable[[Callable[[Deployment], None]], Deployment]) -> Deployment:
    return start_state(two_days_in_all_tables)


def declare(monkeypatch: pytest.MonkeyPatch, more: dict[str, Any] | None = None, **changes: dict[str, Any]) -> Pipeline:
    """Replace the declaration by one with changed fields of some flows, and ``more`` of its own."""
    import pipelines.flights

    declared = pipelines.flights.pipeline
    flows = tuple(edit(flow, changes.get(flow.name, {})) for flow in declared.flows)
    pipeline = dataclasses.replace(declared, flows=flows, **(more or {}))
    monkeypatch.setattr(pipelines.flights, "pipeline", pipeline)
    assert registry.load("flights") is pipeline
    return pipeline


def edit(flow: Flow, changes: dict[str, Any]) -> Flow:
    return dataclasses.replace(flow, **changes)


def without_united(monkeypatch: pytest.MonkeyPatch) -> None:
    """Change the transform: filter one carrier and set the delay of another to 1 minute."""
    from pyspark.sql import functions as F

    import spark_jobs.flights

    clean = spark_jobs.flights.clean

    def changed(rows: Any) -> Any:
        output = clean(rows)
        late = F.when(F.col("carrier") == "AA", F.lit(1)).otherwise(F.col("dep_delay"))
        filtered = F.when(F.col("carrier") == "UA", F.lit("no_united")).otherwise(F.col("_filtered"))
        return output.withColumns({"dep_delay": late, "_filtered": filtered})

    monkeypatch.setattr(spark_jobs.flights, "clean", changed)


@pytest.mark.nightly
def test_with_a_new_version_silver_and_gold_are_derived_by_the_new_code(
    flights: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    from deltalake import DeltaTable

    before = flights.table("silver.flights").num_rows
    without_united(monkeypatch)
    declare(monkeypatch, silver={"checkpoint_version": 2})

    refused = flights.run()
    assert [flow.state for flow in refused.flows] == ["idle", "refused", "skipped"]
    impact = refused.flow("silver").impact
    assert impact is not None and impact.before == before
    assert flights.table("silver.flights").num_rows == before

    report = flights.run(accept=[acceptance("silver", "deleted", impact.deleted)])

    assert [(flow.flow, flow.state, flow.error) for flow in report.flows] == [
        ("bronze", "idle", None),
        ("silver", "done", None),
        ("gold", "done", None),
    ]
    swap = report.flow("silver").batches[-1]
    silver = flights.table("silver.flights")
    assert (swap.kind, swap.deleted) == ("swap", impact.deleted)
    assert swap.deleted == before - silver.num_rows > 0
    assert swap.imbalance() == 0
    assert "UA" not in silver["carrier"].to_pylist()
    gold = {(row["day"], row["carrier"]): row for row in flights.table("gold.daily_delay").to_pylist()}
    assert not [carrier for _, carrier in gold if carrier == "UA"]
    assert {row["max_delay"] for (_, carrier), row in gold.items() if carrier == "AA"} == {1}
    history = DeltaTable(str(flights.layout.table("silver.flights"))).history()
    assert [commit["operation"] for commit in history] == ["MERGE", "WRITE"], (
        "readers never saw an empty table: the swap is one MERGE"
    )
    changed = swap.upserted + swap.deleted
    feed = flights.rows_of_feed("silver.flights", since=1)
    assert len({row["flight_id"] for row in feed}) == changed, "the change feed has only real changes"
    assert not Place(flights.layout, "flights", "silver", 2, 0).staging.exists()


@pytest.mark.nightly
def test_without_a_new_version_a_changed_declaration_is_refused_and_the_error_names_the_fields(
    flights: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tidegate.checkpoints.checkpoint import check_compatible
    from tidegate.errors import CheckpointIncompatibleError

    pipeline = declare(monkeypatch, silver={"transform": "flights:clean_again"})

    with pytest.raises(
        CheckpointIncompatibleError, match="transform: 'flights:clean' -> 'flights:clean_again'"
    ) as caught:
        check_compatible(flights.layout, resolved(pipeline).flow("silver"))

    assert caught.value.changed == {"transform": ("flights:clean", "flights:clean_again")}
    assert "checkpoint_version=2" in caught.value.message


@pytest.mark.nightly
def test_a_new_version_of_bronze_reads_only_new_files(flights: Deployment, monkeypatch: pytest.MonkeyPatch) -> None:
    flights.land("empty.csv", "")
    flights.run()
    declare(monkeypatch, bronze={"checkpoint_version": 2})
    land_some_of(flights, date(2013, 1, 3))

    report = flights.run()

    (batch,) = report.flow("bronze").batches
    assert (batch.files_listed, batch.files_opened, batch.files_already_read) == (4, 1, 3)
    ids = flights.table("bronze.flights")["_row_id"].to_pylist()
    assert len(ids) == len(set(ids))
    expected = recompute.flights(flights.environment.landing)
    assert recompute.differences(expected, "ids", ["_row_id"], flights.table("bronze.flights")) == 0
    assert recompute.differences(expected, "gold", GOLD, flights.table("gold.daily_delay")) == 0
    assert flights.quarantined("bronze").num_rows == 1


@pytest.mark.nightly
def test_a_new_version_of_gold_deletes_groups_that_the_new_code_does_not_return(
    flights: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    import spark_jobs.flights

    daily_delay = spark_jobs.flights.daily_delay
    monkeypatch.setattr(spark_jobs.flights, "daily_delay", lambda rows: daily_delay(rows.where("carrier != 'DL'")))
    declare(monkeypatch, UNLIMITED, gold={"checkpoint_version": 2})

    report = flights.run(flows=["gold"])

    assert report.flow("gold").error is None
    assert "DL" not in flights.table("gold.daily_delay")["carrier"].to_pylist()
    assert report.flow("gold").batches[-1].kind == "swap"
    assert report.flow("gold").batches[-1].upserted == 0


@pytest.mark.nightly
@pytest.mark.parametrize("step", ["swap_in", "finish"], ids=["before its commit", "after its commit"])
def test_an_interrupted_swap_is_completed_by_the_next_run(
    flights: Deployment, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    from tidegate.spark.reprocessing import swap

    without_united(monkeypatch)
    declare(monkeypatch, UNLIMITED, silver={"checkpoint_version": 2})
    original = getattr(swap, step)

    def fail(*_: Any, **__: Any) -> None:
        raise ConnectionError("the process was killed here")

    monkeypatch.setattr(swap, step, fail)
    assert flights.run(flows=["silver"]).flow("silver").state == "failed"
    committed = "UA" not in flights.table("silver.flights")["carrier"].to_pylist()
    assert committed == (step == "finish"), "the live table is the old or the new one"
    monkeypatch.setattr(swap, step, original)

    report = flights.run(flows=["silver"])

    assert report.flow("silver").state == "done"
    assert "UA" not in flights.table("silver.flights")["carrier"].to_pylist()
    assert [line["kind"] for line in flights.ledger() if line["flow"] == "silver"] == ["upsert", "upsert", "swap"]
    assert not Place(flights.layout, "flights", "silver", 2, 0).staging.exists()


@pytest.mark.nightly
def test_a_checkpoint_older_than_its_table_is_refused(flights: Deployment) -> None:
    checkpoint = Place(flights.layout, "flights", "bronze", 1, 0).checkpoint
    land_some_of(flights, date(2013, 1, 3))
    flights.run(flows=["bronze"])
    for log in ("offsets/1", "commits/1", "sources/0/1"):
        Path(checkpoint / log).unlink()
        Path(checkpoint / log).with_name(f".{log.rpartition('/')[2]}.crc").unlink(missing_ok=True)
    before = flights.table("bronze.flights").num_rows

    report = flights.run(flows=["bronze"])

    error = report.flow("bronze").error
    assert error is not None
    assert error.kind == "CheckpointCorruptError"
    assert "restored from an older copy" in error.message
    assert flights.table("bronze.flights").num_rows == before


def retyped_delays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Change the transform: the delay becomes a decimal number, and one column is dropped."""
    from pyspark.sql import functions as F

    import spark_jobs.flights

    clean = spark_jobs.flights.clean

    def changed(rows: Any) -> Any:
        return clean(rows).withColumns({"dep_delay": F.col("dep_delay").cast("decimal(10,1)")}).drop("dest")

    monkeypatch.setattr(spark_jobs.flights, "clean", changed)


@pytest.mark.nightly
def test_a_new_version_can_change_keys_sequence_and_types(flights: Deployment, monkeypatch: pytest.MonkeyPatch) -> None:
    """Several live rows have the same new key; a MERGE on it would keep all of them as duplicates."""
    retyped_delays(monkeypatch)
    target = with_fields(
        registry.load("flights").flow("silver").target,
        keys=("day", "carrier"),
        sequence_by=("dep_delay", "flight_id"),
        text_order={"flight_id": "text"},
    )
    declare(monkeypatch, UNLIMITED, silver={"checkpoint_version": 2, "target": target})

    report = flights.run()

    assert [(flow.flow, flow.state, flow.error) for flow in report.flows] == [
        ("bronze", "idle", None),
        ("silver", "done", None),
        ("gold", "done", None),
    ]
    silver = flights.table("silver.flights")
    keys = list(zip(silver["day"].to_pylist(), silver["carrier"].to_pylist(), strict=True))
    assert len(keys) == len(set(keys)) > 10, "one row per new key"
    assert str(silver.schema.field("dep_delay").type) == "decimal128(10, 1)"
    assert "dest" not in silver.column_names
    swap = report.flow("silver").batches[-1]
    assert (swap.kind, swap.upserted, swap.unchanged, swap.imbalance()) == ("swap", len(keys), 0, 0)
    gold = flights.table("gold.daily_delay").to_pylist()
    assert {(row["day"], row["carrier"]) for row in gold} == set(keys), (
        "the downstream flow continued without a new version"
    )
    assert {row["flights"] for row in gold} == {1}
    assert report.flow("gold").refresh == 1
    assert report.flow("gold").batches[-1].kind == "swap"
    land_some_of(flights, date(2013, 1, 3))
    assert [flow.state for flow in flights.run().flows] == ["done", "done", "done"]
    assert {row["day"] for row in flights.table("gold.daily_delay").to_pylist()} == {
        date(2013, 1, 1),
        date(2013, 1, 2),
        date(2013, 1, 3),
    }
