"""Records the result of each `plan`, for alert rules about several runs in a row. Starts no JVM.

A text file per pipeline with one line of JSON per plan, not a table: a plan that finds no new input must cost milliseconds.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pendulum

from tidegate import atomic
from tidegate.alerting.alerts import PlannedLag

if TYPE_CHECKING:
    from pathlib import Path

    from tidegate.layout import Layout
    from tidegate.status.lag import Lag

MAX_LINES = 500
"""When a file has more than twice as many lines, it is cut to this number."""

log = logging.getLogger("tidegate")


def record(layout: Layout, pipeline: str, lags: Iterable[Lag]) -> None:
    """Record the result of a plan."""
    _append(layout.plans(pipeline), {"flows": {lag.flow: _entry(lag) for lag in lags}})


def record_failure(layout: Layout, pipeline: str) -> None:
    """Record that a plan failed."""
    _append(layout.plans(pipeline), {"flows": None})


def record_watched(layout: Layout, pipeline: str) -> None:
    """Record that alerts watch the pipeline, if nothing is recorded yet, so that a pipeline without any plan raises an alert."""
    if not layout.plans(pipeline).exists():
        _append(layout.plans(pipeline), {"flows": {}})


def last_activity(layout: Layout, pipeline: str) -> datetime | None:
    """Time of a pipeline's last plan; before the first plan, the time since which alerts watch the pipeline."""
    lines = list(_lines(layout, pipeline))
    return lines[-1][0] if lines else None


def read(layout: Layout, pipeline: str, flow: str) -> tuple[PlannedLag, ...]:
    """The results of a flow's plans, oldest first, including failed ones."""
    results = []
    for at, flows in _lines(layout, pipeline):
        if flows is None:
            results.append(PlannedLag(at=at, behind=None, rows=None))
        elif flow in flows:
            entry = flows[flow]
            first_offsets = {int(partition): offset for partition, offset in entry.get("first_offsets", {}).items()}
            results.append(PlannedLag(at=at, behind=entry["behind"], rows=entry["rows"], first_offsets=first_offsets))
    return tuple(results)


def _entry(lag: Lag) -> dict[str, Any]:
    entry: dict[str, Any] = {"behind": lag.behind if lag.error is None else None, "rows": lag.rows}
    return entry | {"first_offsets": lag.first_offsets} if lag.first_offsets else entry


def _lines(layout: Layout, pipeline: str) -> Iterator[tuple[datetime, Mapping[str, Any] | None]]:
    """Time and result of each plan, the oldest first: entries by flow, or None if the plan failed."""
    try:
        text = layout.plans(pipeline).read_text(encoding="utf-8")
    except FileNotFoundError:
        return
    for line in text.splitlines():
        try:
            values = json.loads(line)
            at, flows = datetime.fromisoformat(values["at"]), values["flows"]
        except (ValueError, KeyError, TypeError):
            # An incomplete line, written when the disk was full.
            continue
        yield at, flows


def _append(path: Path, values: dict[str, Any]) -> None:
    """Append a line. An I/O error is logged and does not fail the plan."""
    line = json.dumps({"at": pendulum.now("UTC").isoformat(), **values}) + "\n"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a", encoding="utf-8") as file:
            file.write(line)
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
        if len(lines) > 2 * MAX_LINES:
            atomic.write_text(path, "".join(lines[-MAX_LINES:]))
    except OSError as error:
        log.warning(
            "the result of the plan could not be recorded for alerts: %s", error.strerror or type(error).__name__
        )
