"""Every source row has exactly one fate, whatever the transform does, and an imbalance writes nothing."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from typing import Any

import pytest

from demo import flights_feed, recompute
from tests.deployment import Deployment

pytestmark = pytest.mark.jvm

Edit = Callable[[Callable[[Any], Any]], None]


@pytest.fixture
def flights(deployment: Deployment, spark: Any) -> Deployment:
    records = flights_feed.days()[date(2013, 1, 1)][:60]
    deployment.land("one.csv", flights_feed._csv(records))
    deployment.run(flows=["bronze"])
    return deployment


@pytest.fixture
def clean(monkeypatch: pytest.MonkeyPatch) -> Edit:
    """Puts something behind the transform, as an edit of its file would."""
    import spark_jobs.flights

    original = spark_jobs.flights.clean

    def edit(then: Callable[[Any], Any]) -> None:
        monkeypatch.setattr(spark_jobs.flights, "clean", lambda rows: then(original(rows)))

    return edit


def expect_nothing_written(flights: Deployment, kind: str, told: str) -> None:
    report = flights.run(flows=["silver", "gold"])
    error = report.flow("silver").error
    assert error is not None
    assert error["kind"] == kind, error
    assert told in error["message"]
    assert not error["transient"]
    assert report.flow("gold").state == "skipped"
    assert not flights.layout.table("silver.flights").exists()
    assert not flights.layout.quarantine("flights", "silver").exists()


def test_a_transform_that_drops_rows_is_an_imbalance_that_names_it(flights: Deployment, clean: Edit) -> None:
    clean(lambda rows: rows.where("carrier != 'UA'"))

    expect_nothing_written(flights, "LedgerImbalanceError", "transform 'flights:clean' lost")


def test_a_transform_that_invents_rows_is_an_imbalance(flights: Deployment, clean: Edit) -> None:
    from pyspark.sql import functions as F

    clean(lambda rows: rows.withColumn("_row_id", F.concat("_row_id", F.lit("x"))))

    expect_nothing_written(flights, "LedgerImbalanceError", "invented 60")


def test_a_transform_that_swaps_one_row_for_another_is_found_too(flights: Deployment, clean: Edit) -> None:
    from pyspark.sql import functions as F

    ids = F.when(F.col("_row_id").endswith("#2"), F.regexp_replace("_row_id", "#2$", "#3")).otherwise(F.col("_row_id"))
    clean(lambda rows: rows.withColumn("_row_id", ids))

    expect_nothing_written(flights, "LedgerImbalanceError", "lost 1 rows")


def test_a_transform_that_does_not_carry_the_origin_is_told_so(flights: Deployment, clean: Edit) -> None:
    clean(lambda rows: rows.drop("_origin"))

    expect_nothing_written(flights, "SpecError", "does not return _origin")


def test_a_transform_without_the_key_is_told_so(flights: Deployment, clean: Edit) -> None:
    clean(lambda rows: rows.drop("flight_id"))

    expect_nothing_written(flights, "SpecError", "does not return flight_id")


def test_one_row_made_into_several_counts_once_and_is_refused_whole(flights: Deployment, clean: Edit) -> None:
    from pyspark.sql import functions as F

    def explode(rows: Any) -> Any:
        doubled = rows.withColumn("leg", F.explode(F.array(F.lit("a"), F.lit("b"))))
        second_of_aa = (F.col("carrier") == "AA") & (F.col("leg") == "b")
        return doubled.withColumns(
            {
                "flight_id": F.concat("flight_id", F.lit("/"), "leg"),
                "distance": F.when(second_of_aa, F.lit(-1)).otherwise(F.col("distance")),
            }
        )

    clean(explode)
    from_aa = [r for r in flights_feed.days()[date(2013, 1, 1)][:60] if r["carrier"] == "AA"]
    flights.edit_suite(
        "flights/silver",
        [
            {
                "type": "expect_column_values_to_be_between",
                "kwargs": {"column": "distance", "min_value": 0},
                "severity": "warning",
            }
        ],
    )

    (batch,) = flights.run(flows=["silver"]).flow("silver").batches

    assert (batch.read, batch.quarantined, batch.written) == (60, len(from_aa), 60 - len(from_aa))
    assert batch.imbalance() == 0
    assert flights.table("silver.flights").num_rows == 2 * batch.written
    assert "AA" not in flights.table("silver.flights")["carrier"].to_pylist()
    assert flights.quarantined("silver").num_rows == len(from_aa)


def test_null_keys_and_null_sequences_are_quarantined_by_name(flights: Deployment, clean: Edit) -> None:
    from pyspark.sql import functions as F

    clean(
        lambda rows: rows.withColumns(
            {
                "flight_id": F.when(F.col("carrier") != "AA", F.col("flight_id")),
                "published_on": F.when(F.col("carrier") != "DL", F.col("published_on")),
            }
        )
    )

    (batch,) = flights.run(flows=["silver"]).flow("silver").batches

    assert set(batch.rules) == {"null_key(flight_id)", "null_sequence(published_on)"}
    assert batch.quarantined == sum(batch.rules.values()) > 0
    assert batch.imbalance() == 0


def test_of_several_versions_of_one_key_the_highest_order_stays_whatever_came_first(flights: Deployment) -> None:
    records = flights_feed.days()[date(2013, 1, 1)][:60]
    newest = [flights_feed._delayed(record, minutes=30) for record in records[:10]]
    older = [{**record, "published_on": "2012-12-01T00:00:00Z"} for record in records[10:20]]
    flights.run(flows=["silver"])
    flights.land("two.csv", flights_feed._csv([*newest, *records[:10], *older]))

    (batch,) = flights.run(flows=["bronze", "silver"]).flow("silver").batches

    assert (batch.read, batch.written, batch.deduplicated, batch.superseded) == (30, 10, 10, 10)
    answer = recompute.flights(flights.environment.landing)
    assert (
        recompute.differences(
            answer, "silver", ["flight_id", "dep_delay", "published_on"], flights.table("silver.flights")
        )
        == 0
    )


def test_a_batch_that_is_filtered_whole_is_recorded_and_writes_no_row(flights: Deployment, clean: Edit) -> None:
    from pyspark.sql import functions as F

    clean(lambda rows: rows.withColumn("_filtered", F.lit("holiday")))

    (batch,) = flights.run(flows=["silver"]).flow("silver").batches

    assert (batch.read, batch.filtered, batch.written) == (60, {"holiday": 60}, 0)
    assert flights.table("silver.flights").num_rows == 0
    assert flights.run(flows=["silver"]).flow("silver").state == "idle"


def test_a_new_column_keeps_the_checkpoint_and_a_removed_one_is_refused(flights: Deployment, clean: Edit) -> None:
    from pyspark.sql import functions as F

    flights.run(flows=["silver", "gold"])
    clean(lambda rows: rows.withColumn("note", F.lit("new")))
    flights.land("two.csv", flights_feed._csv(flights_feed.days()[date(2013, 1, 2)][:20]))

    added = flights.run()

    assert [flow.error for flow in added.flows] == [None, None, None]
    assert sorted({str(note) for note in flights.table("silver.flights")["note"].to_pylist()}) == ["None", "new"]
    clean(lambda rows: rows.drop("rescued"))
    flights.land("three.csv", flights_feed._csv(flights_feed.days()[date(2013, 1, 3)][:20]))
    removed = flights.run()
    error = removed.flow("silver").error
    assert error is not None
    assert error["kind"] == "SpecDriftError"
    assert "no longer makes rescued" in error["message"]


def test_gold_names_a_transform_that_makes_two_rows_of_one_group(
    flights: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    import spark_jobs.flights

    flights.run(flows=["silver"])
    daily_delay = spark_jobs.flights.daily_delay
    monkeypatch.setattr(spark_jobs.flights, "daily_delay", lambda rows: daily_delay(rows).union(daily_delay(rows)))

    report = flights.run(flows=["gold"])

    error = report.flow("gold").error
    assert error is not None
    assert (error["kind"], "one per group is due" in error["message"]) == ("SpecError", True)
    assert not flights.layout.table("gold.daily_delay").exists()


def test_gold_recomputes_only_the_groups_that_the_feed_names(flights: Deployment) -> None:
    flights.run(flows=["silver", "gold"])
    record = flights_feed._delayed(flights_feed.days()[date(2013, 1, 1)][0], minutes=45)
    flights.land("fix.csv", flights_feed._csv([record]))

    (batch,) = flights.run().flow("gold").batches

    assert (batch.read, batch.groups, batch.upserted, batch.unchanged, batch.deleted) == (1, 1, 1, 0, 0)
    answer = recompute.flights(flights.environment.landing)
    assert (
        recompute.differences(
            answer, "gold", ["day", "carrier", "flights", "max_delay"], flights.table("gold.daily_delay")
        )
        == 0
    )
