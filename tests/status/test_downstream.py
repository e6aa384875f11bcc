"""What is downstream of a table, in all declarations that load."""

from __future__ import annotations

import dataclasses

from tests.cli.project import orders
from tidegate.errors import SpecError
from tidegate.spec import AfterTables, ChangeFeed, FileSource, Flow, Pipeline, Table
from tidegate.status.downstream import downstream_of

FOLLOWER = Pipeline(
    name="mail",
    schedule=AfterTables("gold.orders"),
    flows=(
        Flow(name="bronze", source=FileSource(path="x", format="csv", schema="a INT"), target=Table("bronze.mail")),
    ),
)
READER = Pipeline(
    name="report",
    schedule="@daily",
    flows=(
        Flow(
            name="gold",
            source=ChangeFeed("silver.orders"),
            transform="report:make",
            target=Table("gold.report", keys=("day",)),
        ),
    ),
)


def test_flows_their_tables_and_triggered_pipelines_are_downstream() -> None:
    declared = {each.name: each for each in (orders(), FOLLOWER, READER)} | {"zz_wip": SpecError("does not load")}
    downstream = downstream_of("bronze.orders", declared)
    assert downstream.flows == ("orders/silver", "orders/gold", "report/gold")
    assert downstream.tables == ("silver.orders", "gold.orders", "gold.report")
    assert downstream.starts == {"mail": ("gold.orders",)}, "it reads no change feed, but Airflow runs it"
    assert downstream.lines()[1:] == ["in Airflow new rows in gold.orders start mail, which does not read them"]
    assert downstream_of("silver.orders", {"orders": orders()}).lines() == [
        "its changes are read by orders/gold, which writes gold.orders"
    ]
    assert downstream_of("gold.report", declared).lines() == []


def test_the_tables_that_a_pipeline_follows_are_named_and_those_that_it_does_not_read() -> None:
    follower = dataclasses.replace(READER, schedule=AfterTables("silver.orders", "gold.orders", "gold.other"))
    declared = {each.name: each for each in (orders(), follower)}
    assert downstream_of("bronze.orders", declared).lines()[1:] == [
        "in Airflow new rows in silver.orders start report",
        "in Airflow new rows in gold.orders start report, which does not read them",
    ]
    assert downstream_of("gold.orders", declared).starts == {"report": ("gold.orders",)}
    assert downstream_of("bronze.carriers", declared).lines() == [], "it follows another table"
    waiting = dataclasses.replace(READER, schedule=AfterTables("bronze.orders", intervals=True))
    assert downstream_of("bronze.orders", {"report": waiting}).starts == {}, "new rows do not start it"
