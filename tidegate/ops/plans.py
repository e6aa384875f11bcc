"""What `plan` found before each run, for rules about several runs in a row. Starts no JVM.

A text file per pipeline with a line of JSON a plan, and not a table: a plan that finds nothing has to cost milliseconds.
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

KEPT = 500
"""Lines that stay when a file with twice as many is cut."""

log = logging.getLogger("tidegate")


def record(layout: Layout, pipeline: str, lags: Iterable[Lag]) -> None:
    """Add what a plan found.

    Args:
        layout: The paths of the lake.
        pipeline: Its name.
        lags: Of the flows that were asked.
    """
    _add(layout.plans(pipeline), {"flows": {lag.flow: _told(lag) for lag in lags}})


def record_failure(layout: Layout, pipeline: str) -> None:
    """Add that a plan was made and did not get to an answer."""
    _add(layout.plans(pipeline), {"flows": None})


def look(layout: Layout, pipeline: str) -> None:
    """Add that somebody watches, if nothing is noted yet: a pipeline that is never planned is to be missed one day."""
    if not layout.plans(pipeline).exists():
        _add(layout.plans(pipeline), {"flows": {}})


def last_sign(layout: Layout, pipeline: str) -> datetime | None:
    """When any flow of a pipeline was planned last, or before that: when somebody first looked."""
    lines = list(_lines(layout, pipeline))
    return lines[-1][0] if lines else None


def read(layout: Layout, pipeline: str, flow: str) -> tuple[PlannedLag, ...]:
    """What the plans of a flow found, oldest first; those that failed are among them."""
    found = []
    for at, flows in _lines(layout, pipeline):
        if flows is None:
            found.append(PlannedLag(at=at, behind=None, rows=None))
        elif flow in flows:
            told = flows[flow]
            begins = {int(partition): offset for partition, offset in told.get("begins", {}).items()}
            found.append(PlannedLag(at=at, behind=told["behind"], rows=told["rows"], begins=begins))
    return tuple(found)


def _told(lag: Lag) -> dict[str, Any]:
    told: dict[str, Any] = {"behind": lag.behind if lag.error is None else None, "rows": lag.rows}
    return told | {"begins": lag.begins} if lag.begins else told


def _lines(layout: Layout, pipeline: str) -> Iterator[tuple[datetime, Mapping[str, Any] | None]]:
    """Each plan, the oldest first: when it was, and what it found of each flow, None where it failed."""
    try:
        text = layout.plans(pipeline).read_text(encoding="utf-8")
    except FileNotFoundError:
        return
    for line in text.splitlines():
        try:
            told = json.loads(line)
            at, flows = datetime.fromisoformat(told["at"]), told["flows"]
        except (ValueError, KeyError, TypeError):
            # Half a line: the disk was full.
            continue
        yield at, flows


def _add(path: Path, told: dict[str, Any]) -> None:
    """Never fails a plan: what could not be noted is told in the log."""
    line = json.dumps({"at": pendulum.now("UTC").isoformat(), **told}) + "\n"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a", encoding="utf-8") as file:
            file.write(line)
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
        if len(lines) > 2 * KEPT:
            atomic.write_text(path, "".join(lines[-KEPT:]))
    except OSError as error:
        log.warning("what the plan found could not be noted for alerts: %s", error.strerror or type(error).__name__)
