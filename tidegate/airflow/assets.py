"""Tables as Airflow's Assets, and what Airflow was last told of them.

An event carries the Delta version that it speaks of. A flow's task sends one when the table is past the version in
the last event, so an event that a crash swallowed is sent by the next run.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass

from airflow.sdk import Asset, Context

from tidegate.airflow.attempt import attempt_id
from tidegate.layout import Layout
from tidegate.spec import Flow, Pipeline


def table_asset(table: str) -> Asset:
    """The Asset of a table.

    Args:
        table: ``<layer>.<table>``. Its URI names no place, so that a lake can move without becoming another Asset.
    """
    return Asset(name=table, uri=f"x-tidegate://{table.replace('.', '/')}", group="tidegate")


@dataclass(frozen=True)
class News:
    """What a table holds that Airflow has not been told of: the extra of the Asset's next event."""

    rows: int
    """Source rows for an append or an upsert, groups for a flow that recomputes."""
    delta_version: int
    """Of the last batch that wrote them."""
    ledger: str
    """Which ledger counted; a lake that was made anew has another one, and its versions begin at 0 again."""


def tell_news(context: Context, layout: Layout, pipeline: Pipeline, flows: Iterable[Flow]) -> list[Asset]:
    """Put what Airflow has not been told of these flows' tables into the events that the task sends at its end.

    Args:
        context: The task's context; the Assets of the tables are among its inlets and outlets.
        layout: The paths of the lake.
        pipeline: The pipeline of the flows.
        flows: The flows that write the tables.

    Returns:
        The Assets that have news. Airflow sends an event for every outlet, so they are all that the task may keep.
    """
    told = []
    for flow in flows:
        news = untold_news(context, layout, pipeline, flow)
        if news is not None:
            asset = table_asset(flow.target.name)
            context["outlet_events"][asset].extra = {**dataclasses.asdict(news), "attempt": attempt_id(context)}
            told.append(asset)
    return told


def untold_news(context: Context, layout: Layout, pipeline: Pipeline, flow: Flow) -> News | None:
    """What the flow wrote since the last event of its table, by the ledger: whichever run or attempt wrote it.

    The ledger and not the table's own version, because upkeep makes new versions that hold nothing new.

    Args:
        context: The task's context; the Asset of the flow's table is one of its inlets.
        layout: The paths of the lake.
        pipeline: The pipeline of the flow.
        flow: The flow that writes the table.

    Returns:
        None when not a row was written since then.
    """
    # Imported here, in the process of the task: its threads do not survive a fork of whoever imports it earlier.
    from deltalake import DeltaTable, QueryBuilder

    path = str(layout.ops(pipeline.name, "ledger"))
    if not DeltaTable.is_deltatable(path):
        return None
    ledger = DeltaTable(path)
    ledger_id = str(ledger.metadata().id)
    told = _last_told_version(context, table_asset(flow.target.name), ledger_id)
    # `flow` is a checked name and `told` a number, so neither can end the literal that it stands in.
    written = (
        QueryBuilder()
        .register("ledger", ledger)
        .execute(
            "SELECT sum(CASE WHEN kind IN ('recompute', 'rederive', 'swap') THEN upserted + deleted ELSE written END) AS rows,"
            f" max(target_version) AS version FROM ledger WHERE flow = '{flow.name}' AND target_version > {int(told)}"
        )
        .read_all()
    )
    rows = written.column("rows")[0].as_py()
    return News(int(rows), int(written.column("version")[0].as_py()), ledger_id) if rows else None


def _last_told_version(context: Context, asset: Asset, ledger_id: str) -> int:
    """The Delta version in the Asset's last event; -1 when Airflow has heard nothing from this ledger."""
    # More than one, because people make events by hand, and those carry no version.
    for event in context["inlet_events"][asset].ascending(False).limit(20):
        extra = event.extra or {}
        version = extra.get("delta_version")
        if extra.get("ledger") == ledger_id and isinstance(version, int):
            return version
    return -1
