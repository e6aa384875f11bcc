"""In which commit of its table each batch of a landing flow came, from the ledger. No clock orders batches: commits do."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from tidegate.lake.place import FlowPlace
from tidegate.ops import store
from tidegate.probes import delta_table
from tidegate.times import dates

_PLANNING = 600
"""Seconds that may pass between the plan of a batch and its begin, and between its end and its line."""


@dataclass(frozen=True, order=True)
class BatchInTable:
    """A batch, as the rows of its table name it."""

    planned: int
    """``_ingested_at``, in microseconds since 1970."""
    number: int
    """``_batch_id``: unique within a checkpoint only."""


@dataclass(frozen=True, kw_only=True)
class LedgerCommit:
    """A line of the ledger."""

    version: int
    number: int
    recorded: int
    """When the line was recorded, in microseconds since 1970."""
    seconds: float
    """How long the batch took."""
    planned: int | None
    """None in lines of earlier releases."""


def read(place: FlowPlace, writers: Collection[str]) -> list[LedgerCommit]:
    """The commits of a landing flow's batches and reingests, in order.

    Args:
        flow: A validated name.
        writers: The transaction ids in the table: a table that was deleted and derived again has no other commits.
    """
    path = place.of_pipeline.ops("ledger")
    table = delta_table.find(path)
    if table is None:
        return []
    has_times = "planned_at" in (column.name for column in table.schema().fields)
    planned = "planned_at" if has_times else "NULL AS planned_at"
    lines = store.select(
        path,
        f"SELECT app_id, batch_id, target_version, recorded_at, seconds, {planned} FROM delta_table "
        f"WHERE flow = '{place.flow}' AND kind = 'append' AND target_version IS NOT NULL AND written > 0",
    )
    commits = [
        LedgerCommit(
            version=line["target_version"],
            number=line["batch_id"],
            recorded=dates.micros(line["recorded_at"]),
            seconds=line["seconds"] or 0.0,
            planned=None if line["planned_at"] is None else dates.micros(line["planned_at"]),
        )
        for line in lines
        if line["app_id"] in writers
    ]
    return sorted(commits, key=lambda commit: commit.version)


def versions(batches: Iterable[BatchInTable], commits: Iterable[LedgerCommit]) -> dict[BatchInTable, int]:
    """The version that each batch committed; a batch is missing if the ledger does not tell it.

    Where several checkpoints have used a number, a line of an earlier release is that of the batch that was planned just before it was
    recorded. So times tell only which line is of which batch, never an order.
    """
    by_time: dict[BatchInTable, int] = {}
    others: dict[int, list[LedgerCommit]] = defaultdict(list)
    for commit in commits:
        if commit.planned is None:
            others[commit.number].append(commit)
        else:
            by_time[BatchInTable(commit.planned, commit.number)] = commit.version
    known: dict[BatchInTable, int] = {}
    rest: dict[int, list[BatchInTable]] = defaultdict(list)
    for batch in sorted(set(batches)):
        if batch in by_time:
            known[batch] = by_time[batch]
        else:
            rest[batch.number].append(batch)
    for number, own in rest.items():
        lines = others[number]
        if len(own) != len(lines):
            continue
        if len(own) == 1:
            known[own[0]] = lines[0].version
            continue
        pairs = [(batch, line.version) for batch in own for line in lines if _fits(batch, line)]
        for batch, version in pairs:
            if sum(batch == each or version == other for each, other in pairs) == 1:
                known[batch] = version
    return known


def _fits(batch: BatchInTable, line: LedgerCommit) -> bool:
    """Whether the line was recorded soon after the batch was planned."""
    return 0 <= line.recorded - batch.planned <= (line.seconds + _PLANNING) * 1_000_000
