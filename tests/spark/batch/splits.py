"""Helpers for tests of row flows: split a batch of orders, write it, and read counts, rows and refused rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tests.spark.job import changes, table, transaction
from tidegate.reports.ledger_line import LedgerLine
from tidegate.spark.batch.checks import check_commit
from tidegate.spark.batch.rows import split_rows
from tidegate.spark.batch.split import Decision, Split, settle

if TYPE_CHECKING:
    from tidegate.spark.job import Job

ORDERS = "id int, at int, amount int"
NEW = Decision(quarantined=False, written=False)
Open = Callable[..., "Job"]
"""Makes a job of the flow `latest` with a transform of the test."""


def split(job: Job, *rows: tuple[Any, ...], batch_id: int = 0) -> Split:
    """Split a batch. A row is ``id, at, amount`` and, optionally, change type and version."""
    result = split_rows(job, changes(job.spark, ORDERS, *rows), batch_id, NEW)
    assert result is not None
    assert result.prepared.imbalance() == 0
    return result


def write(job: Job, result: Split) -> LedgerLine:
    """Write the target as the micro-batch does, and return the ledger line."""
    commit = result.write(transaction(job, result.prepared.batch_id, result.prepared))
    check_commit(job, result, commit)
    record = settle(result.prepared, commit, result.settled)
    assert record.imbalance() == 0
    return record


def counts(record: LedgerLine) -> dict[str, int]:
    """All counts of rows that are not 0."""
    names = ("read", "written", "quarantined", "late", "deduplicated", "superseded", "already_read")
    numbers = {name: getattr(record, name) for name in names} | {"filtered": sum(record.filtered.values())}
    return {name: number for name, number in numbers.items() if number}


def stored(job: Job, *columns: str) -> list[tuple[Any, ...]]:
    return [tuple(row[name] for name in columns or ("id", "at", "amount")) for row in table(job.target)]


def refused(result: Split) -> dict[str, list[str]]:
    """Rules of each refused source row, by its id."""
    return {} if result.refused is None else {row["_row_id"]: row["rules"] for row in result.refused.collect()}
