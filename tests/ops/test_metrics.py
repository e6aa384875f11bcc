"""Spark's progress of a micro-batch becomes one line."""

from __future__ import annotations

import copy
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from tidegate.ops import metrics, store
from tidegate.ops.metrics import QueryProgress
from tidegate.store import Address

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
    return QueryProgress.from_spark(
        copy.deepcopy(PROGRESS) | changed, Address.local(Path("missing")), recorded_at=NOW, **OF_RUN
    )


def line_of_state(number: int, checkpoint: Address | None = None, **of_run: str) -> QueryProgress:
    """One of two recorded batches of a query with a window: the first has rows, the second closes windows."""
    recorded = json.loads(Path(__file__).with_name("state_progress.json").read_text())
    return QueryProgress.from_spark(
        recorded[number], checkpoint or Address.local(Path("missing")), recorded_at=NOW, **OF_RUN | of_run
    )


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


def test_a_line_of_a_stateful_query_has_its_state_and_how_far_the_watermark_is_behind(folder: Address) -> None:
    (folder / "state/0/1/1.changelog").put(bytes(300))
    (folder / "offsets").put(bytes(1000))
    first, second = line_of_state(0, folder), line_of_state(1, folder)
    assert (first.state_operator, first.state_rows, first.state_bytes) == ("stateStoreSave", 28, 300)
    assert (first.watermark, first.watermark_lag_seconds) == (None, None), "Spark begins with 1970"
    assert (second.state_rows, second.state_memory_bytes) == (14, 3_410_824)
    assert second.watermark == datetime(2026, 1, 5, 10, 29, 54, tzinfo=UTC)
    assert second.started_at == second.watermark + timedelta(seconds=second.watermark_lag_seconds or 0)
    assert (line().state_operator, line().state_rows, line().watermark) == (None, None, None)


def test_the_figures_of_a_state_are_those_of_the_last_batches_of_its_flow(folder: Address) -> None:
    path = folder / "progress"
    assert metrics.state_figures(path, "windows") == []
    metrics.append(path, [line(), line_of_state(0, flow="windows"), line_of_state(1, flow="windows")])
    newest, before = metrics.state_figures(path, "windows", limit=5)
    assert (newest.batch_id, newest.state_rows, before.batch_id, before.state_rows) == (1, 14, 0, 28)
    later = datetime(2026, 1, 5, 11, 29, 54, tzinfo=UTC)
    assert newest.summary(later) == (
        "14 rows of state, 0 B in files; watermark 2026-01-05 10:29:54 UTC, 1 h behind the clock"
    )
    assert before.summary(later) == "28 rows of state, 0 B in files; no watermark yet"
    assert [each.batch_id for each in metrics.state_figures(path, "windows")] == [1]
    assert metrics.state_figures(path, "bronze") == []


def test_lines_are_appended_in_one_commit_and_can_be_read(folder: Address) -> None:
    path = folder / "progress"
    metrics.append(path, [line(), line(batchId=8)])
    metrics.append(path, [line(batchId=9)])
    rows = store.select(path, "SELECT batch_id, started_at FROM delta_table ORDER BY batch_id")
    assert [row["batch_id"] for row in rows] == [7, 8, 9]
    assert rows[0]["started_at"] == datetime(2026, 1, 5, 10, 0, 0, 123_000, tzinfo=UTC)
    assert len(list(Path(path / "_delta_log").glob("*.json"))) == 2


def test_a_missing_table_has_no_rows(folder: Address) -> None:
    assert store.select(folder / "missing", "SELECT * FROM delta_table") == []
