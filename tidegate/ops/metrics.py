"""Spark's progress of each micro-batch: rates, durations, offsets; one line each in ``_ops/<pipeline>/progress``.

The ledger records the disposition of rows; these lines record speed and lateness. Use the ledger for numbers of rows: Spark
counts a row as often as the batch scans it.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Self

import pendulum

from tidegate.ops import store

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow


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

    @classmethod
    def from_spark(cls, progress: Mapping[str, Any], **of_run: Any) -> Self:
        """Convert Spark's progress.

        Args:
            progress: The JSON of ``StreamingQueryProgress``, parsed.
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
            **of_run,
        )


def append(path: Path, lines: Iterable[QueryProgress]) -> None:
    """Append lines to a pipeline's table ``progress``, in one commit."""
    store.append(
        path, schema(), [{**dataclasses.asdict(line), "duration_ms": dict(line.duration_ms)} for line in lines]
    )


def read(path: Path, flow: str, attempt: str) -> list[dict[str, Any]]:
    """The lines of one attempt's batches of a flow, oldest first, with the columns that Airflow's gauges need."""
    columns = "trigger_ms, offsets_behind"
    # Safe in SQL literals: names of flows and ids of attempts are validated and have no quotes.
    return store.select(
        path, f"SELECT {columns} FROM delta_table WHERE flow = '{flow}' AND attempt = '{attempt}' ORDER BY started_at"
    )


def now() -> datetime:
    """The current time in UTC."""
    return pendulum.now("UTC")


def schema() -> pyarrow.Schema:
    """The columns of the table, in the order of `QueryProgress`."""
    import pyarrow as pa

    instant = pa.timestamp("us", tz="UTC")
    types = {
        "int": pa.int64(),
        "int | None": pa.int64(),
        "float | None": pa.float64(),
        "str": pa.string(),
        "str | None": pa.string(),
        "datetime": instant,
        "Mapping[str, int]": pa.map_(pa.string(), pa.int64()),
    }
    return pa.schema([(field.name, types[str(field.type)]) for field in dataclasses.fields(QueryProgress)])


def _instant(text: str) -> datetime:
    instant = pendulum.parse(text)
    assert isinstance(instant, datetime)
    return instant


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
