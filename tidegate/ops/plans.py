"""Records the result of each `plan`, for alert rules about several runs in a row. Starts no JVM.

A text file per pipeline with one line of JSON per plan, not a table: a plan that finds no new input must cost milliseconds.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import pendulum

from tidegate import json_codec
from tidegate.lake.place import FlowPlace, PipelinePlace
from tidegate.store import Address

MAX_LINES = 500
"""When a file has more than twice as many lines, it is cut to this number."""

log = logging.getLogger("tidegate")


@dataclass(frozen=True, kw_only=True)
class PlannedLag:
    """The lag of a flow in one plan, as it is recorded, whether or not the run had work."""

    at: datetime
    behind: int | None = None
    """Number of files, messages or table versions; None when the source or the checkpoint could not be read."""
    rows: int | None = None
    """None if unknown."""
    first_offsets: Mapping[str, int] = field(default_factory=dict)
    """Only for topics: partition, of several ``<topic>/<partition>``, to its first offset."""


@dataclass(frozen=True, kw_only=True)
class _Plan:
    at: datetime
    flows: Mapping[str, Any] | None
    """Fields of a `PlannedLag` by flow; None if the plan failed."""


def record(place: PipelinePlace, lags: Mapping[str, PlannedLag]) -> None:
    """Record the result of a plan, now.

    Args:
        lags: By flow.
    """
    flows = {flow: json_codec.to_plain(lag) for flow, lag in lags.items()}
    for fields in flows.values():
        del fields["at"]
    _append(place.plans, flows)


def record_failure(place: PipelinePlace) -> None:
    """Record that a plan failed."""
    _append(place.plans, None)


def record_watched(place: PipelinePlace) -> None:
    """Record that alerts watch the pipeline, if nothing is recorded yet, so that a pipeline without any plan raises an alert."""
    if not place.plans.exists():
        _append(place.plans, {})


def last_activity(place: PipelinePlace) -> datetime | None:
    """Time of a pipeline's last plan; before the first plan, the time since which alerts watch the pipeline."""
    plans = list(_plans(place))
    return plans[-1].at if plans else None


def read(place: FlowPlace) -> tuple[PlannedLag, ...]:
    """The results of a flow's plans, oldest first, including failed ones."""
    results = []
    for plan in _plans(place.of_pipeline):
        if plan.flows is None:
            results.append(PlannedLag(at=plan.at))
        elif place.flow in plan.flows:
            results.append(json_codec.from_plain({"at": plan.at, **plan.flows[place.flow]}, PlannedLag))
    return tuple(results)


def _plans(place: PipelinePlace) -> Iterator[_Plan]:
    """The recorded plans, the oldest first."""
    try:
        lines = place.plans.read().data.splitlines()
    except FileNotFoundError:
        return
    for line in lines:
        # An incomplete line was written when the disk was full.
        with contextlib.suppress(ValueError):
            yield json_codec.decode(line, _Plan)


def _append(address: Address, flows: Mapping[str, Any] | None) -> None:
    """Append a line. An I/O error is logged and does not fail the plan."""
    line = json_codec.encode(_Plan(at=pendulum.now("UTC"), flows=flows)) + "\n"

    def appended(recorded: bytes | None) -> bytes:
        lines = [*(recorded or b"").splitlines(keepends=True), line.encode()]
        return b"".join(lines if len(lines) <= 2 * MAX_LINES else lines[-MAX_LINES:])

    try:
        address.update(appended)
    except OSError as error:
        log.warning(
            "the result of the plan could not be recorded for alerts: %s", error.strerror or type(error).__name__
        )
