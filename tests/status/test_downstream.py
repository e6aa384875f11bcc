"""What is downstream of a table, in all declarations that load."""

from __future__ import annotations

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
    assert downstream.starts == ("mail",), "it reads no change feed, but Airflow runs it"
    assert downstream_of("gold.report", declared).lines() == []
