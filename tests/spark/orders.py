"""A pipeline `orders` whose declaration a test can change; the fixtures are in `conftest.py`."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from tests.deployment import Deployment
from tidegate.lake.place import FlowPlace, PipelinePlace
from tidegate.ops import evolution
from tidegate.project import resolution
from tidegate.status import plan

DECLARATION = """
from tidegate.spec import ChangeFeed, Contract, FileSource, Flow, Pipeline, Table

pipeline = Pipeline(
    name="orders",
    flows=(
        Flow(
            name="bronze",
            source=FileSource(path="orders", format="{format}", schema="{schema}", contract={contract}),
            target=Table("bronze.orders"),
        ),
        Flow(
            name="silver",
            source=ChangeFeed("bronze.orders"),
            transform="orders:clean",
            target=Table("silver.orders", keys=("id",), sequence_by=("at",)),
            checkpoint_version={version},
        ),
        Flow(
            name="gold", source=ChangeFeed("silver.orders"), transform="orders:daily", target=Table("gold.orders", keys=("at",))
        ),
    ),
)
"""
JOB = """
from pyspark.sql import functions as F

def clean(rows):
    return rows.select("_row_id", "_origin", "id", "at", {columns})

def daily(rows):
    return rows.groupBy("at").agg(F.count("*").alias("orders"))
"""
SCHEMA = "id INT NOT NULL, at DATE, amount DOUBLE"
Declare = Callable[..., None]


class Orders:
    """Runs the pipeline `orders` and reads its tables."""

    def __init__(self, deployment: Deployment) -> None:
        self.deployment = deployment
        self.landed = 0

    def land(self, *records: dict[str, Any]) -> None:
        self.landed += 1
        self.deployment.land(f"{self.landed}.json", "".join(f"{json.dumps(r)}\n" for r in records), "orders")

    def run(self, *flows: str) -> Any:
        return self.deployment.run("orders", flows or ("bronze", "silver"))

    def silver(self) -> list[dict[str, Any]]:
        rows = self.deployment.table("silver.orders").to_pylist()
        return sorted(
            (
                {name: value for name, value in row.items() if not name.startswith("_") or name == "_rescued"}
                for row in rows
            ),
            key=lambda row: row["id"],
        )

    def history(self) -> list[evolution.SchemaHistoryLine]:
        return evolution.read(PipelinePlace(self.deployment.layout, "orders"))

    def quarantined(self) -> list[list[str]]:
        path = FlowPlace(self.deployment.layout, "orders", "silver").quarantine
        return [row["rules"] for row in self.deployment.rows(path).to_pylist()] if path.exists() else []

    def plan(self) -> plan.Plan:
        pipeline = resolution.load("orders", self.deployment.environment.project)
        return plan.decide(self.deployment.environment, pipeline, pipeline.pipeline.flows)


def row(number: int, **more: Any) -> dict[str, Any]:
    return {"id": number, "at": "2026-01-01", "amount": 1.5, **more}
