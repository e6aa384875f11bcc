"""Whom a table's change reaches is found in all declarations that load."""

from __future__ import annotations

from tests.cli.project import orders
from tidegate.errors import SpecError
from tidegate.planning.downstream import below
from tidegate.spec import AfterTables, ChangeFeed, FileSource, Flow, Pipeline, Table

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


def test_flows_their_tables_and_pipelines_that_only_follow_are_told() -> None:
    declared = {each.name: each for each in (orders(), FOLLOWER, READER)} | {"zz_wip": SpecError("does not load")}
    found = below("bronze.orders", declared)
    assert found.flows == ("orders/silver", "orders/gold", "report/gold")
    assert found.tables == ("silver.orders", "gold.orders", "gold.report")
    assert found.starts == ("mail",), "it reads no change feed, but Airflow runs it"
    assert below("gold.report", declared).lines() == []
