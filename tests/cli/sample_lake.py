"""A lake of five flows with new work in each, written without a JVM, and the commands that read it."""

from __future__ import annotations

from dataclasses import replace

from tests.cli.project import Project, append, orders, quarantined
from tests.spark_files import delta_offset
from tests.with_fields import with_fields
from tidegate.lake.place import FlowPlace
from tidegate.reports.ledger_line import LedgerLine
from tidegate.spec import ChangeFeed, Pipeline

BRONZE, SILVER, GOLD = orders().flows
OTHER = replace(
    SILVER, name="other", gate=None, target=with_fields(SILVER.target, name="silver.other"), transform="orders:other"
)
BELOW = replace(
    GOLD, name="below", source=ChangeFeed("silver.other"), target=with_fields(GOLD.target, name="gold.below")
)
ORDERS = Pipeline(name="orders", flows=(BRONZE, SILVER, GOLD, OTHER, BELOW))
READING = {
    "plan": ("plan", "orders"),
    "status": ("status", "orders"),
    "lag": ("lag", "orders"),
    "alerts": ("alerts", "orders"),
    "checkpoint": ("checkpoint", "orders"),
    "ledger": ("ledger", "orders"),
    "docs": ("docs", "orders"),
    "list": ("quarantine", "list", "orders"),
    "query": ("query", "SELECT count(*) FROM {table}"),
    "trace": ("trace", "{table}", "--key", "order_id=A-1"),
    "plan of a refresh": ("plan", "orders", "--mode", "full_refresh"),
}
"""Commands that start no JVM, for one of the tables."""


def fill(project: Project) -> None:
    """Declare `ORDERS` and write its lake: tables of three commits each."""
    project.declare(ORDERS)
    read = project.land("0.csv", "order_id,amount\nA-1,1.0\n")
    project.checkpoint(ORDERS, BRONZE).listed(0, read).plan(0, {"logOffset": 0}).commit(0)
    ids = {}
    for name in (flow.target.name for flow in ORDERS.flows):
        for number in range(3):
            ids[name] = project.table(
                name, [{"_row_id": f"0.csv@1#{number}", "order_id": f"A-{number}", "amount": 1.0}]
            )
    for flow in ORDERS.flows[1:]:
        (source,) = flow.source_tables
        project.checkpoint(ORDERS, flow).plan(0, delta_offset(2, table_id=ids[source])).commit(0)
        line = LedgerLine(
            flow=flow.name, batch_id=0, app_id=f"orders/{flow.name}/v1/0", kind="upsert", read=1, written=1
        )
        project.record(ORDERS, line)
    entry = quarantined("0.csv@1#9", ["between(amount)"], {"path": "file:///landing/orders/0.csv", "line": 9}, "x,-1")
    for number in range(3):
        append(FlowPlace(project.layout, "orders", "silver").quarantine, [{**entry, "_row_id": f"0.csv@1#{number}"}])
    project.land("1.csv", "order_id,amount\nA-2,2.0\n")
