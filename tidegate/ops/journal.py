"""Reads the history of batches for pages: summaries, lines, trends and counts. Starts no JVM.

The sources are Tidegate's own tables (ledger, verdicts, schema history) and the quarantine tables. Results have names of rules
and counts, never a value of the data.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from tidegate import hidden
from tidegate.lake import identity
from tidegate.lake.place import FlowPlace, PipelinePlace
from tidegate.ops import journal_queries as queries
from tidegate.ops import journal_tables, store
from tidegate.ops.ledger import RunOrigin
from tidegate.ops.table import line_of
from tidegate.ops.table_cache import TableCache
from tidegate.reports.ledger_line import LedgerLine
from tidegate.reports.verdict import STATISTIC
from tidegate.times import dates

if TYPE_CHECKING:
    from tidegate.lake.layout import Layout

_DAY = 24 * 3600 * 1_000_000
"""In microseconds."""
_OPEN = f"""SELECT count(DISTINCT "{hidden.ROW_ID}") AS entries FROM delta_table WHERE state = 'open'"""
_BY_RULE = f"""
SELECT rule, level, state, count(DISTINCT {hidden.ROW_ID}) AS entries
FROM (SELECT level, state, {hidden.ROW_ID}, unnest(rules) AS rule FROM delta_table)
GROUP BY rule, level, state ORDER BY entries DESC, rule, state
"""


@dataclass(frozen=True, kw_only=True)
class Summary:
    """Summary of the batches of a flow's stream. Swaps, backfills, replays and decisions do not count."""

    at: datetime
    """Time at which the last batch was recorded."""
    batch_id: int
    checkpoint_version: int
    refresh: int
    read_today: int
    """Rows of the last 24 hours."""
    quarantined_today: int
    trend: tuple[int, ...]
    """Rows read by each of the newest batches, the oldest first."""
    trend_quarantined: tuple[int, ...]
    """Quarantined rows of the same batches."""

    @property
    def page(self) -> str:
        """The name of the last batch's page, as `Line.page`."""
        return f"v{self.checkpoint_version}-{self.refresh}-batch-{self.batch_id}"


@dataclass(frozen=True, kw_only=True)
class Line(RunOrigin):
    """A batch, swap, backfill, replay or decision: its ledger line, if any, and its last verdict, if any."""

    flow: str
    app_id: str
    """The transaction id that ``batch_id`` belongs to."""
    batch_id: int
    record: LedgerLine | None
    """None if a gate or a contract refused it, or if it is not recorded yet. A refused batch waits; a backfill does not."""
    suite: str | None
    """The suite that judged it last; None without a gate, and if its contract refused it before; empty if its transform raised, or
    only statistics were measured."""
    judged: str | None
    """Outcome of its last verdict."""
    unmet: tuple[str, ...]
    """Rules of the expectations that were not met."""
    schema_change_id: str | None
    """The schema change for which a frozen contract refused it, which a person has to answer."""

    @property
    def key(self) -> tuple[str, int]:
        """Identifies it in ledger, verdicts and schema history; only a swap has the key of the batch before it."""
        return self.app_id, self.batch_id

    @property
    def label(self) -> str:
        """``batch 3``, ``backfill 3``, ``replay 3``, ``swap``, ``waive``."""
        return identity.label(self.app_id, self.batch_id, self.record.kind if self.record else None)

    @property
    def is_batch(self) -> bool:
        """Whether it is a batch of the stream."""
        return self.record.is_batch if self.record else identity.is_stream(self.app_id)

    @property
    def is_swap(self) -> bool:
        """Whether it is the swap of a new version."""
        return self.record is not None and self.record.kind == "swap"

    @property
    def outcome(self) -> str:
        """The outcome of its last verdict, ``pending``, or ``written`` without a verdict; empty for what no gate could judge.

        ``pending``: its gate did not refuse it, and it has no ledger line yet.
        """
        if self.record is None:
            return "pending" if self.judged in ("passed", "split", "dropped") else "refused"
        if self.is_batch and self.judged == "dropped":
            return "dropped"
        if self.is_batch and (self.record.quarantined or self.record.files_quarantined):
            return "split"
        if self.suite is not None and self.judged is not None:
            return self.judged
        return "written" if self.is_batch else ""

    @property
    def missing(self) -> str:
        """Why it has no ledger line, in a sentence; empty if it has one."""
        if self.record is not None:
            return ""
        if self.outcome == "pending" and not self.is_batch:
            return (
                "Judged and not recorded: a run is writing it, or it would have deleted or quarantined too many rows."
            )
        if self.outcome == "pending":
            return "Judged and not recorded yet: a run is writing it, or the next run completes it."
        if not self.is_batch:
            return "Nothing was written: the table is unchanged."
        if self.schema_change_id:
            waits = "its schema change is answered"
        elif not self.suite and any(rule.startswith(f"{STATISTIC}(") for rule in self.unmet):
            waits = "a person accepts it or takes it out, or its statistic or its transform is corrected"
        else:
            waits = "its suite, its transform or its data is fixed"
        return f"Nothing was written: the batch waits until {waits}."

    @property
    def page(self) -> str | None:
        """The name of its page, unique in its flow; None for backfills, replays and decisions, which have none."""
        if not (self.is_batch or self.is_swap):
            return None
        return f"v{self.checkpoint_version}-{self.refresh}-{'swap' if self.is_swap else 'batch'}-{self.batch_id}"


@dataclass(frozen=True, kw_only=True)
class QuarantineCount:
    """Number of quarantine entries that broke one rule and are in one state; an entry with two rules counts twice."""

    rule: str
    level: str
    """``row`` or ``file``."""
    state: str
    entries: int


@dataclass(frozen=True, kw_only=True)
class Version:
    """One checkpoint of a flow, summarized from the ledger."""

    checkpoint_version: int
    refresh: int
    batches: int
    first_at: datetime
    last_at: datetime


class Journal:
    """Queries for pages over a cache of the tables; create one per serving process."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._tables = TableCache(
            journal_tables.ALL,
            {
                "is_stream": identity.is_stream,
                "checkpoint_version_of": lambda app_id: identity.checkpoint_of(app_id)[0],
                "refresh_of": lambda app_id: identity.checkpoint_of(app_id)[1],
            },
        )

    def summaries(self, pipelines: Sequence[str]) -> dict[tuple[str, str], Summary]:
        """Summaries of all flows of these pipelines that have a batch, by (pipeline, flow)."""
        self._refresh("recent", "ledger", pipelines)
        since = dates.micros(datetime.now(UTC)) - _DAY
        rows = self._tables.query(queries.SUMMARIES, [since, since, json.dumps(list(pipelines))])
        return {key: _summary(list(newest)) for key, newest in groupby(rows, key=itemgetter("pipeline", "flow"))}

    def _refresh(self, kind: str, table: str, pipelines: Sequence[str]) -> None:
        """Update a cached table for several pipelines, two at a time: the work is done without Python's lock."""
        with ThreadPoolExecutor(2) as threads:
            for done in [
                threads.submit(self._tables.refresh, kind, pipeline, PipelinePlace(self._layout, pipeline).ops(table))
                for pipeline in pipelines
            ]:
                done.result()

    def lines(
        self,
        pipeline: str,
        *,
        flow: str | None = None,
        run_key: str | None = None,
        page: str | None = None,
        until: datetime | None = None,
        batches: bool = False,
        limit: int,
        offset: int = 0,
    ) -> list[Line]:
        """Batches, swaps, backfills, replays and decisions, the newest first.

        Args:
            flow: Only lines of this flow.
            run_key: Only lines that this run recorded, or judged last.
            page: Only the line whose page has this name.
            until: Only lines of this time or earlier.
            batches: Only batches of the stream.
            offset: Number of newer lines to skip.
        """
        for kind in ("ledger", "verdicts", "evolution"):
            self._tables.refresh(kind, pipeline, PipelinePlace(self._layout, pipeline).ops(kind))
        parameters = {
            **{"pipeline": pipeline, "flow": flow, "run_key": run_key, "page": page},
            "until": None if until is None else dates.micros(until),
            **{"batches": batches, "limit": limit, "offset": offset},
        }
        return [_line(row) for row in self._tables.query(queries.LINES, parameters, queries.JUDGEMENTS)]

    def versions(self, pipeline: str, flow: str) -> list[Version]:
        """The checkpoints with recorded batches of a flow, the newest first."""
        self._tables.refresh("ledger", pipeline, PipelinePlace(self._layout, pipeline).ops("ledger"))
        rows = self._tables.query(queries.VERSIONS, [pipeline, flow])
        return [
            Version(**row | {name: dates.from_micros(row[name]) for name in ("first_at", "last_at")}) for row in rows
        ]


def quarantine_counts(place: FlowPlace) -> list[QuarantineCount]:
    """A flow's quarantine entries by rule and state, the highest count first."""
    return [QuarantineCount(**row) for row in store.select(place.quarantine, _BY_RULE)]


def open_entries(place: FlowPlace) -> int:
    """The number of open entries in a flow's quarantine; each counts once."""
    return next((int(row["entries"]) for row in store.select(place.quarantine, _OPEN)), 0)


def _summary(newest: Sequence[dict[str, Any]]) -> Summary:
    """Of the newest batches of a flow, the last one first."""
    last = newest[0]
    names = ("batch_id", "checkpoint_version", "refresh", "read_today", "quarantined_today")
    return Summary(
        at=last["recorded_at"],
        trend=tuple(row["read"] for row in reversed(newest)),
        trend_quarantined=tuple(row["quarantined"] for row in reversed(newest)),
        **{name: last[name] for name in names},
    )


def _line(row: dict[str, Any]) -> Line:
    record = None if row["kind"] is None else line_of(LedgerLine, row)
    names = (*queries.EITHER, "suite", "judged", "schema_change_id")
    return Line(record=record, unmet=tuple(row["unmet"] or ()), **{name: row[name] for name in names})
