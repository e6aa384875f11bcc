"""Tables as Airflow Assets, and the Asset events for new rows.

The extra of an event holds the Delta version of the table. A flow's task sends an event when the table is past the version
in the last event, so an event that was lost in a crash is sent by the next run.

A bronze table whose source declares intervals has a second Asset: one event for each complete interval, with its name in the extra.
The events that Airflow has say which were sent. They are sent through an alias, because a task sends only one event of an Asset itself.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Iterable
from dataclasses import dataclass

import pendulum
from airflow.sdk import Asset, AssetAlias, Context

from tidegate.airflow import compat
from tidegate.airflow.attempt import attempt_id
from tidegate.environment import Environment
from tidegate.errors import TidegateError
from tidegate.lake.layout import Layout
from tidegate.lake.place import PipelinePlace
from tidegate.spec import Flow, Pipeline
from tidegate.status import source

log = logging.getLogger(__name__)


def table_asset(table: str) -> Asset:
    """The Asset of a table.

    Args:
        table: ``<layer>.<table>``. The URI holds no path, so that the Asset stays the same when the lake moves.
    """
    return Asset(name=table, uri=f"x-tidegate://{table.replace('.', '/')}", group="tidegate")


@dataclass(frozen=True)
class TableUpdate:
    """Rows of a table that no Asset event covers yet: the extra of the next event."""

    rows: int
    """Source rows for an append or an upsert, groups for a recompute."""
    delta_version: int
    """Delta version of the last batch that wrote them."""
    ledger: str
    """Delta table id of the ledger. A recreated lake has another one, and its versions start at 0 again."""


def attach_updates(context: Context, layout: Layout, pipeline: Pipeline, flows: Iterable[Flow]) -> list[Asset]:
    """Attach the pending updates of the flows' tables to the Asset events that Airflow sends when the task succeeds.

    Args:
        context: The task's context; its inlets and outlets must contain the Assets of the tables.

    Returns:
        The Assets with an update. Airflow sends an event for every outlet, so the task must keep only these.
    """
    updated = []
    for flow in flows:
        update = pending_update(context, PipelinePlace(layout, pipeline.name), flow)
        if update is not None:
            asset = table_asset(flow.target.name)
            context["outlet_events"][asset].extra = {**dataclasses.asdict(update), "attempt": attempt_id(context)}
            updated.append(asset)
    return updated


def pending_update(context: Context, place: PipelinePlace, flow: Flow) -> TableUpdate | None:
    """The rows that any run or attempt of the flow wrote since the last event of its table, counted from the ledger.

    The table's own version is not used: maintenance creates new versions without new rows.

    Args:
        context: The task's context; its inlets must contain the Asset of the flow's table.

    Returns:
        None when no row was written since then.
    """
    # Imported in the task's process: the threads of delta-rs do not survive a fork of a process that imported it before.
    from tidegate.probes import delta_table

    ledger = delta_table.find(place.ops("ledger"))
    if ledger is None:
        return None
    ledger_id = str(ledger.metadata().id)
    last_version = _last_published_version(context, table_asset(flow.target.name), ledger_id)
    # `flow.name` is a validated name and `last_version` an int, so neither can break out of its SQL literal.
    totals = (
        delta_table.query_builder()
        .register("ledger", ledger)
        .execute(
            "SELECT sum(CASE WHEN kind IN ('recompute', 'snapshot', 'backfill', 'swap', 'undo') THEN upserted + deleted"
            " ELSE written END) AS rows,"
            f" max(target_version) AS version FROM ledger WHERE flow = '{flow.name}' AND target_version > {int(last_version)}"
        )
        .read_all()
    )
    rows = totals.column("rows")[0].as_py()
    return TableUpdate(int(rows), int(totals.column("version")[0].as_py()), ledger_id) if rows else None


def interval_asset(table: str) -> Asset:
    """The Asset of the complete intervals of a table, ``<layer>.<table>``."""
    return Asset(name=f"{table}/intervals", uri=f"x-tidegate://{table.replace('.', '/')}/intervals", group="tidegate")


def interval_alias(table: str) -> AssetAlias:
    """The alias through which the events of `interval_asset` are sent."""
    return AssetAlias(name=f"{table}/intervals", group="tidegate")


def attach_intervals(context: Context, layout: Layout, pipeline: Pipeline, flows: Iterable[Flow]) -> list[AssetAlias]:
    """Attach an event for each complete interval of the flows' sources for which Airflow has none.

    An interval that gets another file or message later is read, and has no second event.

    Args:
        context: The task's context; its inlets must contain the Assets, and its outlets the aliases.

    Returns:
        The aliases with an event.
    """
    attached, place = [], PipelinePlace(layout, pipeline.name)
    for flow in flows:
        try:
            completeness = source.load(flow).completeness(
                Environment.read().cluster, place.flow(flow.name), flow, pipeline.timezone, pendulum.now("UTC")
            )
        except TidegateError as error:
            # The flow is done, or switched off. The next task that looks sends what is complete.
            log.warning("No events for intervals of %s: %s", flow.target.name, error.message)
            continue
        if completeness is None or not completeness.complete:
            continue
        asset, alias = interval_asset(flow.target.name), interval_alias(flow.target.name)
        sent = {(event.extra or {}).get("interval") for event in context["inlet_events"][asset]}
        unsent = [name for name in completeness.complete if name not in sent]
        for name in unsent:
            context["outlet_events"][alias].add(asset, extra={"interval": name, "attempt": attempt_id(context)})
        if unsent:
            attached.append(alias)
    return attached


def _last_published_version(context: Context, asset: Asset, ledger_id: str) -> int:
    """The Delta version in the Asset's last event of this ledger; -1 when there is none."""
    # The newest events may have been created by hand, without a version.
    for event in compat.newest(context["inlet_events"][asset], 20):
        extra = event.extra or {}
        version = extra.get("delta_version")
        if extra.get("ledger") == ledger_id and isinstance(version, int):
            return version
    return -1
