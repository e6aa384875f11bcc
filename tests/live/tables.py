"""Compares the tables of a live Airflow's lake with results that DuckDB computes from the input."""

from __future__ import annotations

import contextlib
import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any

from demo import checks, recompute
from pipelines.clickstream import pipeline as clickstream
from pipelines.flights import pipeline as flights
from tidegate.environment.clusters import Cluster
from tidegate.lake.layout import Layout, run_key
from tidegate.lake.place import PipelinePlace

if TYPE_CHECKING:
    from collections.abc import Iterable


def wrong_flights(layout: Layout) -> list[str]:
    """Differences between the landing zone and the ledger and tables of flights; empty when there are none.

    Days that the edited transform wrote are expected with `dest` in lower case.
    """
    with contextlib.closing(recompute.flights(Path(layout.landing_root))) as answer:
        for day in days_in_lower_case(layout):
            answer.execute("UPDATE silver SET dest = lower(dest) WHERE day(day) = ?", [day])
        return _wrong([checks.balance(layout, flights), *checks.exactly_once(layout, flights, answer)])


def wrong_clicks(layout: Layout, bootstrap: str) -> list[str]:
    """Differences between the topic, as far as it was read, and bronze and silver of clickstream; also gaps in the offsets."""
    pipeline = dataclasses.replace(clickstream, flows=clickstream.flows[:2])
    offsets: dict[int, set[int]] = {}
    for row in rows(layout, "bronze.clicks", "_partition", "_offset"):
        offsets.setdefault(row["_partition"], set()).add(row["_offset"])
    assert offsets
    gaps = [number for number, numbers in offsets.items() if numbers != set(range(len(numbers)))]
    messages = recompute.read_topic(Cluster(servers=bootstrap))
    read = [message for message in messages if message.offset in offsets.get(message.partition, ())]
    with contextlib.closing(recompute.clickstream(read)) as answer:
        compared = [checks.balance(layout, pipeline), *checks.exactly_once(layout, pipeline, answer)]
    return [f"partition {number} has a gap" for number in gaps] + _wrong(compared)


def days_in_lower_case(layout: Layout) -> set[int]:
    """Days of January for which silver has rows of the edited transform."""
    return {row["day"].day for row in rows(layout, "silver.flights", "day", "dest") if row["dest"].islower()}


def flight_ids(layout: Layout) -> list[str]:
    """The keys of all rows in silver."""
    return sorted(row["flight_id"] for row in rows(layout, "silver.flights", "flight_id"))


def requested_by(layout: Layout, run: str) -> set[str | None]:
    """The requesters in the ledger lines of a run's backfill."""
    from deltalake import DeltaTable

    lines = DeltaTable(str(PipelinePlace(layout, "flights").ops("ledger"))).to_pyarrow_table().to_pylist()
    return {line["requested_by"] for line in lines if line["run_key"] == run_key(run) and line["mode"] == "backfill"}


def rows(layout: Layout, table: str, *columns: str) -> list[dict[str, Any]]:
    """All rows of a table, with some of its columns."""
    from deltalake import DeltaTable

    table_rows: list[dict[str, Any]] = (
        DeltaTable(str(layout.table(table))).to_pyarrow_table(columns=list(columns)).to_pylist()
    )
    return table_rows


def _wrong(compared: Iterable[checks.Check]) -> list[str]:
    return [str(check) for check in compared if not check.passed]
