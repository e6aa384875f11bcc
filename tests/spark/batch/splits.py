"""What the tests of row flows share: a batch of orders, what it is decided to be, and what became of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tests.spark.flow_context import changes, table, transaction
from tidegate.report import BatchRecord
from tidegate.spark.batch.rows import split_rows
from tidegate.spark.batch.split import Decision, Split, check_arrived, settle

if TYPE_CHECKING:
    from tidegate.spark.context import FlowContext

ORDERS = "id int, at int, amount int"
NEW = Decision(quarantined=False, written=False)
Open = Callable[..., "FlowContext"]
"""Makes the context of the flow `latest` with a transform of the test's."""


def split(context: FlowContext, *rows: tuple[Any, ...], batch_id: int = 0) -> Split:
    """What the batch is decided to be. A row is ``id, at, amount`` and, if it matters, its change type and version."""
    result = split_rows(context, changes(context.spark, ORDERS, *rows), batch_id, NEW)
    assert result is not None
    assert result.planned.imbalance() == 0
    return result


def write(context: FlowContext, result: Split) -> BatchRecord:
    """Write the target as the micro-batch does; the ledger's line."""
    commit = result.write(transaction(context, result.planned.batch_id, result.planned))
    check_arrived(context, result, commit)
    record = settle(result.planned, commit, result.settled)
    assert record.imbalance() == 0
    return record


def counts(record: BatchRecord) -> dict[str, int]:
    """All counts of rows that are not 0."""
    names = ("read", "written", "quarantined", "deduplicated", "superseded", "already_read")
    numbers = {name: getattr(record, name) for name in names} | {"filtered": sum(record.filtered.values())}
    return {name: number for name, number in numbers.items() if number}


def stored(context: FlowContext, *columns: str) -> list[tuple[Any, ...]]:
    return [tuple(row[name] for name in columns or ("id", "at", "amount")) for row in table(context.target)]


def refused(result: Split) -> dict[str, list[str]]:
    """Rules of each refused source row, by its id."""
    return {} if result.refused is None else {row["_row_id"]: row["rules"] for row in result.refused.collect()}
