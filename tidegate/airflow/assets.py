"""Tables as Airflow's Assets, and what Airflow was last told of them.

An event carries the Delta version that it speaks of. A flow's task sends one when the table is past the version in
the last event, so an event that a crash swallowed is sent by the next run.
"""

from __future__ import annotations

from airflow.sdk import Asset, Context

from tidegate.layout import Layout
from tidegate.spec import Flow, Pipeline


def table_asset(table: str) -> Asset:
    """The Asset of a table.

    Args:
        table: ``<layer>.<table>``. Its URI names no place, so that a lake can move without becoming another Asset.
    """
    return Asset(name=table, uri=f"x-tidegate://{table.replace('.', '/')}", group="tidegate")


def last_told_version(context: Context, asset: Asset) -> int | None:
    """The Delta version in the Asset's last event; None when Airflow has not heard of the table yet.

    Events that people make by hand carry no version and are passed over.
    """
    for event in context["inlet_events"][asset].ascending(False).limit(20):
        version = (event.extra or {}).get("delta_version")
        if isinstance(version, int):
            return version
    return None


def rows_since(layout: Layout, pipeline: Pipeline, flow: Flow, version: int | None) -> int:
    """Rows that the flow wrote after a version of its target, by the ledger: whichever run or attempt wrote them.

    Args:
        layout: The paths of the lake.
        pipeline: The pipeline of the flow.
        flow: The flow that writes the table.
        version: A Delta version of the target; None counts from the beginning.

    Returns:
        Source rows for an append or an upsert, groups for a flow that recomputes.
    """
    # Imported here, in the process of the task: its threads do not survive a fork of whoever imports it earlier.
    from deltalake import DeltaTable, QueryBuilder

    ledger = DeltaTable(str(layout.ops(pipeline.name, "ledger")))
    after = -1 if version is None else version
    # `flow` is a checked name and `after` a number, so neither can end the literal that it stands in.
    counted = (
        QueryBuilder()
        .register("ledger", ledger)
        .execute(
            "SELECT coalesce(sum(CASE WHEN kind IN ('recompute', 'swap') THEN upserted + deleted ELSE written END), 0)"
            f" AS rows FROM ledger WHERE flow = '{flow.name}' AND target_version > {int(after)}"
        )
        .read_all()
    )
    return int(counted.column("rows")[0].as_py())
