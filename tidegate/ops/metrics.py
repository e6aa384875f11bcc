"""What Spark tells of every micro-batch: rates, durations, state, offsets; one line each in ``_ops/<pipeline>/progress``.

The ledger says what became of the rows, these lines say how fast and how late. Its numbers of rows are the ledger's to
tell: Spark counts a row as often as a batch reads it.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping
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
    """One line: what Spark's ``StreamingQueryProgress`` told of one micro-batch."""

    flow: str
    app_id: str
    """Pipeline, flow, checkpoint version and refresh: also the name of the query."""
    batch_id: int
    run_key: str
    attempt: str
    mode: str
    """What the run was asked to do."""
    started_at: datetime
    """When the trigger began."""
    input_rows: int
    """As Spark counts them: a row as often as the batch reads it, and none of files that a landing batch opens itself."""
    input_rows_per_second: float | None
    """Since the trigger before, in the same run; None for its first, and where Spark saw no row."""
    processed_rows_per_second: float | None
    trigger_ms: int
    """The whole micro-batch."""
    duration_ms: Mapping[str, int]
    """Its parts, as Spark names them: ``latestOffset``, ``queryPlanning``, ``addBatch``, ``walCommit``, …"""
    state_rows: int
    state_bytes: int
    late_rows: int
    """Dropped behind the watermark."""
    watermark: datetime | None
    start_offset: str | None
    """As JSON, in the form of the checkpoint."""
    end_offset: str | None
    offsets_behind: int | None
    """Messages of the topic between the end of this batch and the newest that the run saw; None for other sources."""
    recorded_at: datetime

    @classmethod
    def from_spark(cls, told: Mapping[str, Any], **of_run: Any) -> Self:
        """From the JSON of Spark's progress.

        Args:
            told: The JSON as plain values.
            of_run: ``flow``, ``app_id``, ``run_key``, ``attempt``, ``mode`` and ``recorded_at``.
        """
        durations = {name: int(ms) for name, ms in (told.get("durationMs") or {}).items()}
        operators = told.get("stateOperators") or []
        source = (told.get("sources") or [{}])[0]
        watermark = (told.get("eventTime") or {}).get("watermark")
        return cls(
            batch_id=int(told["batchId"]),
            started_at=_instant(told["timestamp"]),
            input_rows=int(told.get("numInputRows") or 0),
            input_rows_per_second=_rate(told.get("inputRowsPerSecond")),
            processed_rows_per_second=_rate(told.get("processedRowsPerSecond")),
            trigger_ms=durations.pop("triggerExecution", 0),
            duration_ms=durations,
            state_rows=sum(int(each.get("numRowsTotal") or 0) for each in operators),
            state_bytes=sum(int(each.get("memoryUsedBytes") or 0) for each in operators),
            late_rows=sum(int(each.get("numRowsDroppedByWatermark") or 0) for each in operators),
            watermark=_instant(watermark) if watermark else None,
            start_offset=_offset(source.get("startOffset")),
            end_offset=_offset(source.get("endOffset")),
            offsets_behind=_behind(source.get("endOffset"), source.get("latestOffset")),
            **of_run,
        )


def append(path: Path, lines: Iterable[QueryProgress]) -> None:
    """Add lines to a pipeline's progress.

    Args:
        path: `Layout.ops` of ``progress``.
        lines: One or more.
    """
    store.append(
        path, schema(), [{**dataclasses.asdict(line), "duration_ms": dict(line.duration_ms)} for line in lines]
    )


def read(path: Path, flow: str, attempt: str) -> list[dict[str, Any]]:
    """What one attempt's batches of a flow told, oldest first: the columns that gauges are made of.

    Args:
        path: `Layout.ops` of ``progress``.
        flow: Its name.
        attempt: The id of the attempt.
    """
    columns = "trigger_ms, state_rows, late_rows, offsets_behind"
    # Both are names of ours, so neither can end the literal that it stands in.
    return store.select(
        path, f"SELECT {columns} FROM held WHERE flow = '{flow}' AND attempt = '{attempt}' ORDER BY started_at"
    )


def now() -> datetime:
    """The instant, in UTC."""
    return pendulum.now("UTC")


def schema() -> pyarrow.Schema:
    """Names and types of the columns, in the order of `QueryProgress`."""
    import pyarrow as pa

    moment = pa.timestamp("us", tz="UTC")
    types = {
        "int": pa.int64(),
        "int | None": pa.int64(),
        "float | None": pa.float64(),
        "str": pa.string(),
        "str | None": pa.string(),
        "datetime": moment,
        "datetime | None": moment,
        "Mapping[str, int]": pa.map_(pa.string(), pa.int64()),
    }
    return pa.schema([(field.name, types[str(field.type)]) for field in dataclasses.fields(QueryProgress)])


def _instant(text: str) -> datetime:
    found = pendulum.parse(text)
    assert isinstance(found, datetime)
    return found


def _rate(value: object) -> float | None:
    # The first trigger of a run has none: Spark tells 0, NaN or nothing.
    return float(value) if isinstance(value, (int, float)) and value > 0 else None


def _offset(value: object) -> str | None:
    return value if isinstance(value, str) or value is None else json.dumps(value, sort_keys=True)


def _behind(end: object, latest: object) -> int | None:
    """Between two offsets of a topic, ``{topic: {partition: offset}}``."""
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
