"""Tables as Airflow's Assets, and what Airflow was last told of them.

An event carries the Delta version that it speaks of. A flow's task sends one when the table is past the version in
the last event, so an event that a crash swallowed is sent by the next run.
"""

from __future__ import annotations

from dataclasses import dataclass

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


@dataclass(frozen=True)
class News:
    """What a table holds that Airflow has not been told of."""

    rows: int
    """Source rows for an append or an upsert, groups for a flow that recomputes."""
    version: int
    """The Delta version of the last batch that wrote them."""


def news_since(layout: Layout, pipeline: Pipeline, flow: Flow, version: int | None) -> News | None:
    """What the flow wrote after a version of its target, by the ledger: whichever run or attempt wrote it.

    The ledger and not the table's own version, because upkeep makes new versions that hold nothing new.

    Args:
        layout: The paths of the lake.
        pipeline: The pipeline of the flow.
        flow: The flow that writes the table.
        version: A Delta version of the target; None counts from the beginning.

    Returns:
        None when not a row was written since then.
    """
    # Imported here, in the process of the task: its threads do not survive a fork of whoever imports it earlier.
    from deltalake import DeltaTable, QueryBuilder

    path = str(layout.ops(pipeline.name, "ledger"))
    if not DeltaTable.is_deltatable(path):
        return None
    # `flow` is a checked name and `version` a number, so neither can end the literal that it stands in.
    written = (
        QueryBuilder()
        .register("ledger", DeltaTable(path))
        .execute(
            "SELECT sum(CASE WHEN kind IN ('recompute', 'swap') THEN upserted + deleted ELSE written END) AS rows,"
            " max(target_version) AS version"
            f" FROM ledger WHERE flow = '{flow.name}' AND target_version > {-1 if version is None else int(version)}"
        )
        .read_all()
    )
    rows = written.column("rows")[0].as_py()
    return News(int(rows), int(written.column("version")[0].as_py())) if rows else None
