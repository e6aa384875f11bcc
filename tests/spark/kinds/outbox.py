"""A table that is changed commit by commit, and a flow that sends it to a sink."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.fault_points import aborted
from tests.resolved import resolved_flow
from tests.spark import job as orders
from tidegate.spark import runs
from tidegate.spec import ChangeFeed, Flow, Pipeline, Target
from tidegate.status import lag
from tidegate.status.reading import Reading

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidegate.spark.job import Job

Rows = dict[int, dict[str, Any]]
"""The rows of the table by key."""


class Outbox:
    """The table silver.orders, changed commit by commit with delta-rs, and a flow that sends it."""

    def __init__(self, spark: SparkSession, folder: Path, sink: Target, kafka: str = "") -> None:
        self.spark, self.folder, self.kafka = spark, folder, kafka
        self.flow = Flow(name="latest", source=ChangeFeed("silver.orders"), target=sink)
        self.rows: Rows = {}
        self.path = self.job().place.layout.table("silver.orders")

    def change(self, *rows: dict[str, Any], removed: tuple[int, ...] = ()) -> None:
        """One commit that sets rows by key, and removes some. A row with ``_deleted`` is a tombstone."""
        import pyarrow as pa
        from deltalake import DeltaTable

        schema = pa.schema(
            [
                ("id", pa.int32()),
                ("at", pa.timestamp("us", tz="UTC")),
                ("amount", pa.int32()),
                ("_deleted", pa.bool_()),
                ("_batch_id", pa.int64()),
            ]
        )
        if not self.path.exists():
            DeltaTable.create(str(self.path), schema, configuration={"delta.enableChangeDataFeed": "true"})
        values = [{"at": None, "amount": None, "_deleted": False, "_batch_id": 7, **row} for row in rows]
        gone = [{"id": each} for each in removed]
        self.rows = {key: row for key, row in self.rows.items() if key not in removed} | {
            row["id"]: row for row in values
        }
        merge = DeltaTable(str(self.path)).merge(
            pa.Table.from_pylist([*values, *gone], schema=schema),
            "t.id = s.id",
            source_alias="s",
            target_alias="t",
        )
        merge.when_matched_delete("s._batch_id IS NULL").when_matched_update_all().when_not_matched_insert_all(
            "s._batch_id IS NOT NULL"
        ).execute()

    def job(self, kafka: str | None = None, **more: Any) -> Job:
        kafka = self.kafka if kafka is None else kafka
        version = self.flow.checkpoint_version
        job = orders.job_of(self.spark, self.folder, self.flow, kafka=kafka, version=version, **more)
        flows = (orders.BRONZE, orders.SILVER, self.flow)
        return dataclasses.replace(job, resolved=resolved_flow(self.flow, Pipeline(name="orders", flows=flows)))

    def run(self, **more: Any) -> Job:
        """One run of the flow."""
        job = self.job(**more)
        runs.load(job.run.request, self.flow)(job)
        return job

    def run_and_crash(self, at: str, batch: int = 0) -> None:
        with aborted(f"{at}:latest", self.folder / "lake", self.spark, batch=batch):
            self.run()

    def plan(self) -> Reading:
        return lag.measure(orders.environment(self.folder), self.job().resolved)

    def present(self) -> list[dict[str, Any]]:
        """The rows that readers of the table see."""
        return [
            {name: row[name] for name in ("id", "at", "amount")}
            for _, row in sorted(self.rows.items())
            if not row["_deleted"]
        ]

    def ledger(self) -> list[tuple[str, int, int, int, int]]:
        lines = orders.table(self.job().place.of_pipeline.ops("ledger"))
        names = ("kind", "batch_id", "read", "written", "target_version")
        return sorted(tuple(line[name] for name in names) for line in lines)
