"""Spark's progress of each micro-batch: rates, durations, offsets, state; one line each in ``_ops/<pipeline>/progress``.

The ledger records the disposition of rows; these lines record speed and lateness. Use the ledger for numbers of rows: Spark
counts a row as often as the batch scans it.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Self

import pendulum

from tidegate import formatting
from tidegate.ops import store
from tidegate.ops.table import OwnTable, columns_of, row_of
from tidegate.store import Address


@dataclass(frozen=True, kw_only=True)
class QueryProgress:
    """One line: Spark's ``StreamingQueryProgress`` of one micro-batch."""

    flow: str
    app_id: str
    """Pipeline, flow, checkpoint version and refresh: also the name of the query."""
    batch_id: int
    run_key: str
    attempt: str
    mode: str
    """Mode of the run's request."""
    started_at: datetime
    """Start of the trigger."""
    input_rows: int
    """Spark's count: a row counts as often as the batch scans it; rows of files that a landing batch opens itself do not count."""
    input_rows_per_second: float | None
    """Since the previous trigger of the same run; None for the first trigger and for a batch without rows."""
    processed_rows_per_second: float | None
    """Likewise."""
    trigger_ms: int
    """Duration of the whole micro-batch."""
    duration_ms: Mapping[str, int]
    """Duration of its parts by Spark's names: ``latestOffset``, ``queryPlanning``, ``addBatch``, ``walCommit``, …"""
    start_offset: str | None
    """JSON, as in the checkpoint; a list for several sources."""
    end_offset: str | None
    offsets_behind: int | None
    """Messages between the end of this batch and the newest offset that Spark knew; None if the source is not a topic."""
    recorded_at: datetime
    state_operator: str | None = None
    """Spark's name of the stateful operator; None, like all that follows, for a query without one."""
    state_rows: int | None = None
    """Rows in the state store after this batch, as Spark counts them. Of custom state a list counts once for its key, and timers
    do not count."""
    state_bytes: int | None = None
    """Size of the state's files in the checkpoint, with those of the earlier batches that Spark keeps."""
    state_memory_bytes: int | None = None
    """Memory that the state store uses."""
    watermark: datetime | None = None
    """The watermark of this batch: windows that end by then are closed. None before the first batch with rows has ended."""
    watermark_lag_seconds: float | None = None
    """From the watermark to the start of the batch."""

    @classmethod
    def from_spark(cls, progress: Mapping[str, Any], checkpoint: Address, **of_run: Any) -> Self:
        """Convert Spark's progress.

        Args:
            progress: The JSON of ``StreamingQueryProgress``, parsed.
            checkpoint: The folder of the query, in which the state's files are measured: Spark reports only the size of tables
                that RocksDB has written out, which a small state never needs.
            of_run: ``flow``, ``app_id``, ``run_key``, ``attempt``, ``mode`` and ``recorded_at``.
        """
        durations = {name: int(ms) for name, ms in (progress.get("durationMs") or {}).items()}
        sources = progress.get("sources") or [{}]
        return cls(
            batch_id=int(progress["batchId"]),
            started_at=_instant(progress["timestamp"]),
            input_rows=int(progress.get("numInputRows") or 0),
            input_rows_per_second=_rate(progress.get("inputRowsPerSecond")),
            processed_rows_per_second=_rate(progress.get("processedRowsPerSecond")),
            trigger_ms=durations.pop("triggerExecution", 0),
            duration_ms=durations,
            start_offset=_offset([source.get("startOffset") for source in sources]),
            end_offset=_offset([source.get("endOffset") for source in sources]),
            offsets_behind=_behind(sources[0].get("endOffset"), sources[0].get("latestOffset")),
            **_of_state(progress, checkpoint),
            **of_run,
        )


PROGRESS = OwnTable("progress", QueryProgress)


@dataclass(frozen=True, kw_only=True)
class StateFigures:
    """What Spark reported about the state of a stateful flow in one batch; the fields are columns of the table."""

    app_id: str
    batch_id: int
    started_at: datetime
    state_operator: str
    state_rows: int
    state_bytes: int
    state_memory_bytes: int
    watermark: datetime | None

    def lag(self, now: datetime) -> timedelta | None:
        """How far the watermark is behind this time; None while there is no watermark."""
        return None if self.watermark is None else now - self.watermark

    def summary(self, now: datetime) -> str:
        """Rows, size, and how far the watermark is behind, in one phrase."""
        size = f"{formatting.count(self.state_rows, 'row')} of state, {formatting.size(self.state_bytes)} in files"
        lag = self.lag(now)
        if lag is None or self.watermark is None:
            return f"{size}; no watermark yet"
        return f"{size}; watermark {self.watermark:%Y-%m-%d %H:%M:%S} UTC, {formatting.span(lag)} behind the clock"

    def to_json(self, now: datetime) -> dict[str, Any]:
        """A JSON-serializable dict."""
        lag = self.lag(now)
        return {
            "operator": self.state_operator,
            "rows": self.state_rows,
            "bytes": self.state_bytes,
            "memory_bytes": self.state_memory_bytes,
            "watermark": None if self.watermark is None else self.watermark.isoformat(),
            "watermark_lag_seconds": None if lag is None else lag.total_seconds(),
        }


def append(address: Address, lines: Iterable[QueryProgress]) -> None:
    """Append lines to a pipeline's table ``progress``, in one commit."""
    store.append(address, PROGRESS.columns, [row_of(line) for line in lines])


def read(address: Address, flow: str, attempt: str) -> list[dict[str, Any]]:
    """The lines of one attempt's batches of a flow, oldest first."""
    # Safe in SQL literals: names of flows and ids of attempts are validated and have no quotes.
    return store.select(
        address, f"SELECT * FROM delta_table WHERE flow = '{flow}' AND attempt = '{attempt}' ORDER BY started_at"
    )


def state_figures(address: Address, flow: str, limit: int = 1) -> list[StateFigures]:
    """The state after a flow's last batches, the newest first; none for a flow without state, or before its first batch."""
    lines = store.select(
        address,
        f"SELECT {', '.join(columns_of(StateFigures))} FROM delta_table WHERE flow = '{flow}' AND state_rows IS NOT NULL "
        f"ORDER BY started_at DESC, batch_id DESC LIMIT {limit}",
    )
    return [StateFigures(**line) for line in lines]


def now() -> datetime:
    """The current time in UTC."""
    return pendulum.now("UTC")


def _instant(text: str) -> datetime:
    instant = pendulum.parse(text)
    assert isinstance(instant, datetime)
    return instant


def _of_state(progress: Mapping[str, Any], checkpoint: Address) -> dict[str, Any]:
    """The columns about state. A flow has one stateful operator; of several the numbers are added up."""
    operators = progress.get("stateOperators") or []
    if not operators:
        return {}
    text = (progress.get("eventTime") or {}).get("watermark")
    # Spark begins with 1970, before it has seen an event time.
    watermark = None if text is None or text.startswith("1970-01-01T00:00:00") else _instant(text)
    return {
        "state_operator": ", ".join(each["operatorName"] for each in operators),
        "state_rows": sum(int(each["numRowsTotal"]) for each in operators),
        "state_bytes": _size(checkpoint / "state"),
        "state_memory_bytes": sum(int(each["memoryUsedBytes"]) for each in operators),
        "watermark": watermark,
        "watermark_lag_seconds": (
            None if watermark is None else (_instant(progress["timestamp"]) - watermark).total_seconds()
        ),
    }


def _size(folder: Address) -> int:
    """Bytes of all files in a folder; Spark may delete some meanwhile."""
    size = 0
    for entry in folder.walk():
        with contextlib.suppress(FileNotFoundError):
            size += entry.size
    return size


def _rate(value: object) -> float | None:
    # The first trigger of a run has no rate: Spark reports 0, NaN or nothing.
    return float(value) if isinstance(value, (int, float)) and value > 0 else None


def _offset(values: Sequence[object]) -> str | None:
    """The offset of the source, or a list of those of several."""
    value = values[0] if len(values) == 1 else list(values)
    return value if isinstance(value, str) or value is None else json.dumps(value, sort_keys=True)


def _behind(end: object, latest: object) -> int | None:
    """Number of messages between two offsets of a topic, ``{topic: {partition: offset}}``; None for other offsets."""
    if not isinstance(end, Mapping) or not isinstance(latest, Mapping):
        return None
    behind = 0
    for topic, partitions in latest.items():
        if not isinstance(partitions, Mapping):
            return None
        read = end.get(topic)
        if not isinstance(read, Mapping):
            return None
        behind += sum(int(offset) - int(read.get(partition, 0)) for partition, offset in partitions.items())
    return behind
