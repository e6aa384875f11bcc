"""An append-only table with a watermark, to which commits are added, and stateful flows that read it."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests import places
from tests.fault_points import aborted
from tests.lakes_in_buckets import lake_folder
from tests.resolved import resolved_flow
from tests.spark import job as orders
from tidegate.lake.place import FlowPlace
from tidegate.ops import arrow, heartbeats
from tidegate.spark import runs
from tidegate.spec import ChangeFeed, Flow, Pipeline, State, Table, Watermark
from tidegate.status import lag
from tidegate.status.reading import Reading

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tidegate.spark.job import Job

SILVER = Flow(
    name="silver",
    source=ChangeFeed("bronze.orders"),
    transform="orders:clean",
    target=Table("silver.orders", event_time="at"),
    watermark=Watermark(delay="10 minutes"),
)
FEED = ChangeFeed("silver.orders", max_files_per_trigger=1)
WINDOWS = Flow(
    name="windows", source=FEED, transform="orders:windows", target=Table("gold.windows"), state=State(partitions=2)
)
TOTALS = dataclasses.replace(WINDOWS, name="totals", target=Table("gold.totals", keys=("start", "card")))
FIRSTS = dataclasses.replace(WINDOWS, name="firsts", transform="orders:firsts", target=Table("gold.firsts"))
DECISIONS = dataclasses.replace(WINDOWS, name="decisions", transform="orders:decide", target=Table("gold.decisions"))
Row = tuple[str, str, int, float]
"""Id, card, amount, and minutes after `START`."""
START = datetime(2026, 1, 1, 9, tzinfo=UTC)


def windows(payments: DataFrame) -> DataFrame:
    """The sum of each card in each ten minutes."""
    from pyspark.sql import functions as F

    window = F.window("at", "10 minutes")
    return (
        payments.groupBy(window, "card").agg(F.sum("amount").alias("amount")).select("window.start", "card", "amount")
    )


def firsts(payments: DataFrame) -> DataFrame:
    """The first payment of each card, until it was not used for the delay."""
    return payments.dropDuplicatesWithinWatermark(["card"]).select("_row_id", "card", "amount")


def decide(payments: DataFrame) -> DataFrame:
    """For each payment the number and the sum of payments of its card in the hour up to it."""
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor

    class Processor(StatefulProcessor):
        def init(self, handle: Any) -> None:
            self.handle = handle
            self.recent = handle.getValueState("recent", "at array<double>, amount array<bigint>")

        def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
            import pandas as pd

            recent = list(zip(*self.recent.get(), strict=True)) if self.recent.exists() else []
            made = []
            for row in pd.concat(rows).sort_values(["at", "payment"]).to_dict("records"):
                at = row["at"].timestamp()
                recent = [(then, amount) for then, amount in recent if then > at - 3600] + [(at, row["amount"])]
                made.append((row["payment"], key[0], len(recent), sum(amount for _, amount in recent)))
            self.recent.update(([at for at, _ in recent], [amount for _, amount in recent]))
            self.handle.registerTimer(int(max(at for at, _ in recent) + 3600) * 1000)
            yield pd.DataFrame(made, columns=["_row_id", "card", "payments", "amount"])

        def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Any]:
            times = self.recent.get()[0] if self.recent.exists() else []
            if not times or (max(times) + 3600) * 1000 <= expiredTimerInfo.getExpiryTimeInMs() + 1000:
                self.recent.clear()
            return iter(())

        def close(self) -> None:
            pass

    named = payments.withColumnRenamed("_row_id", "payment")
    return named.groupBy("card").transformWithStateInPandas(
        Processor(), "_row_id string, card string, payments bigint, amount bigint", "Append", "EventTime"
    )


TRANSFORMS: dict[str, Callable[[DataFrame], DataFrame]] = {
    "windows": windows,
    "totals": windows,
    "firsts": firsts,
    "decisions": decide,
}


def sums(rows: list[Row], closed_before: float) -> list[dict[str, Any]]:
    """What `windows` gives of the windows that end until so many minutes after `START`, in plain Python."""
    totals: dict[tuple[int, str], int] = defaultdict(int)
    for _, card, amount, minutes in rows:
        totals[int(minutes // 10) * 10, card] += amount
    return sorted(
        (
            {"start": START + timedelta(minutes=start), "card": card, "amount": amount}
            for (start, card), amount in totals.items()
            if start + 10 <= closed_before
        ),
        key=repr,
    )


class Payments:
    """The table silver.orders, added to commit by commit with delta-rs, and a stateful flow."""

    def __init__(self, spark: SparkSession, folder: Path, flow: Flow = WINDOWS) -> None:
        self.spark, self.folder, self.flow = spark, folder, flow
        self.rows: list[Row] = []
        self.code: Path | None = None
        layout = self.job().place.layout
        self.path, self.beats = layout.table("silver.orders"), FlowPlace(layout, "orders", "silver").heartbeats

    def add(self, *rows: Row) -> None:
        """One commit with a file for each row."""
        import pyarrow as pa
        from deltalake import DeltaTable, write_deltalake

        schema = pa.schema(
            [
                ("card", pa.string()),
                ("amount", pa.int64()),
                ("at", pa.timestamp("us", tz="UTC")),
                ("_row_id", pa.string()),
                ("_ingested_at", pa.timestamp("us", tz="UTC")),
                ("_batch_id", pa.int64()),
            ]
        )
        if not self.path.exists():
            DeltaTable.create(str(self.path), schema, configuration={"delta.enableChangeDataFeed": "true"})
        records = [
            {"card": card, "amount": amount, "at": START + timedelta(minutes=minutes), "_row_id": name, "_batch_id": 7}
            for name, card, amount, minutes in rows
        ]
        write_deltalake(str(self.path), pa.Table.from_pylist(records, schema=schema), mode="append")
        self.rows += rows

    def beat(self, minutes: float) -> None:
        """A heartbeat, so many minutes after `START`."""
        from deltalake import write_deltalake

        at, job = START + timedelta(minutes=minutes), self.job()
        # As the row flow does: a table whose first version has a line would count as read.
        heartbeats.create(places.current(job.place.layout, job.resolved.pipeline, SILVER))
        line = {"event_time": at, "at": at, "_app_id": "orders/silver/v1/0", "watermark": at - timedelta(minutes=10)}
        write_deltalake(str(self.beats), arrow.table(heartbeats.COLUMNS, [{**line, "version": None}]), mode="append")

    def job(self, *, transform: Callable[[DataFrame], DataFrame] | None = None, **more: Any) -> Job:
        transform = TRANSFORMS[self.flow.name] if transform is None else transform
        version = self.flow.checkpoint_version
        job = orders.job_of(self.spark, self.folder, orders.GOLD, transform=transform, version=version, **more)
        flows = (orders.BRONZE, SILVER, self.flow)
        resolved = dataclasses.replace(
            resolved_flow(self.flow, Pipeline(name="orders", flows=flows)), code=getattr(self, "code", None)
        )
        place = dataclasses.replace(job.place, flow=self.flow.name)
        from tidegate.spark.job import load_kind

        report = dataclasses.replace(job.run.report, flow=self.flow.name, target=self.flow.target.name)
        return dataclasses.replace(
            job,
            resolved=resolved,
            place=place,
            kind=load_kind(self.flow),
            run=dataclasses.replace(job.run, report=report),
        )

    def run(self, **more: Any) -> Job:
        """One run of the flow."""
        job = self.job(**more)
        runs.load(job.run.request, self.flow)(job)
        return job

    def run_and_crash(self, at: str, batch: int = 0) -> None:
        with aborted(f"{at}:{self.flow.name}", lake_folder(self.folder), self.spark, batch=batch):
            self.run()

    def plan(self) -> Reading:
        return lag.measure(orders.environment(self.folder), self.job().resolved)

    def table(self) -> list[dict[str, Any]]:
        """The rows of the flow's table without the columns of the platform."""
        rows = orders.table(self.job().live)
        hidden = ("_ingested_at", "_batch_id")
        named = self.flow.name in ("firsts", "decisions")
        return sorted(
            ({name: row[name] for name in row if name not in hidden and (named or name != "_row_id")} for row in rows),
            key=repr,
        )

    def ledger(self) -> list[dict[str, Any]]:
        lines = orders.table(self.job().place.of_pipeline.ops("ledger"))
        return sorted(lines, key=lambda line: (line["app_id"], line["batch_id"]))
