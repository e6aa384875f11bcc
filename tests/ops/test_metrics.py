"""Spark's progress of a micro-batch becomes one line."""

from __future__ import annotations

import copy
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tidegate.ops import metrics, store
from tidegate.ops.metrics import QueryProgress

PROGRESS: dict[str, Any] = {
    "id": "e1c1",
    "runId": "f2",
    "name": "clicks/bronze/v1/0",
    "timestamp": "2026-01-05T10:00:00.123Z",
    "batchId": 7,
    "numInputRows": 1200,
    "inputRowsPerSecond": 300.5,
    "processedRowsPerSecond": 600.25,
    "durationMs": {"addBatch": 1500, "latestOffset": 20, "triggerExecution": 1999},
    "sources": [
        {
            "startOffset": {"clicks": {"0": 100, "1": 50}},
            "endOffset": {"clicks": {"0": 900, "1": 450}},
            "latestOffset": {"clicks": {"0": 1000, "1": 450, "2": 7}},
        }
    ],
}
OF_RUN = {"flow": "bronze", "app_id": "clicks/bronze/v1/0", "run_key": "r", "attempt": "a", "mode": "incremental"}
NOW = datetime(2026, 1, 5, 10, 1, tzinfo=UTC)


def line(**changed: Any) -> QueryProgress:
    return QueryProgress.from_spark(copy.deepcopy(PROGRESS) | changed, recorded_at=NOW, **OF_RUN)


def test_a_line_has_rates_durations_and_lag() -> None:
    progress = line()
    assert (progress.batch_id, progress.input_rows, progress.started_at.microsecond) == (7, 1200, 123_000)
    assert (progress.input_rows_per_second, progress.processed_rows_per_second) == (300.5, 600.25)
    assert (progress.trigger_ms, dict(progress.duration_ms)) == (1999, {"addBatch": 1500, "latestOffset": 20})
    assert progress.offsets_behind == 107
    assert progress.end_offset == '{"clicks": {"0": 900, "1": 450}}'


def test_missing_values_are_none_and_not_zero() -> None:
    source = [{"startOffset": None, "endOffset": {"logOffset": 3}, "latestOffset": None}]
    progress = line(inputRowsPerSecond=float("nan"), processedRowsPerSecond=0.0, sources=source)
    assert (progress.input_rows_per_second, progress.processed_rows_per_second) == (None, None)
    assert (progress.start_offset, progress.end_offset, progress.offsets_behind) == (None, '{"logOffset": 3}', None)
    delta = {"sourceVersion": 1, "reservoirVersion": 4}
    assert line(sources=[{"endOffset": delta, "latestOffset": delta}]).offsets_behind is None


def test_lines_are_appended_in_one_commit_and_can_be_read(tmp_path: Path) -> None:
    path = tmp_path / "progress"
    metrics.append(path, [line(), line(batchId=8)])
    metrics.append(path, [line(batchId=9)])
    rows = store.select(path, "SELECT batch_id, started_at FROM delta_table ORDER BY batch_id")
    assert [row["batch_id"] for row in rows] == [7, 8, 9]
    assert rows[0]["started_at"] == datetime(2026, 1, 5, 10, 0, 0, 123_000, tzinfo=UTC)
    assert len(list((path / "_delta_log").glob("*.json"))) == 2


def test_a_missing_table_has_no_rows(tmp_path: Path) -> None:
    assert store.select(tmp_path / "missing", "SELECT * FROM delta_table") == []
