"""The commands that start a request: ``airflow dags trigger``, ``tidegate run`` and ``airflow backfill create``.

``airflow backfill create`` starts a run for each data interval that *begins* between two instants, both included, and has
ended; with ``--dry-run`` it lists them. The instants are printed with their offset from UTC, because Airflow reads a date
without a time as midnight in UTC, whatever the pipeline's time zone.
"""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tidegate.advice import Command

if TYPE_CHECKING:
    import pendulum

    from tidegate.requests.request import RunRequest
    from tidegate.spec import Pipeline


@dataclass(frozen=True, kw_only=True)
class Commands:
    """The commands that start a request."""

    single: tuple[str, ...]
    """One run for the whole request: with Airflow, and without it."""
    dry_run: str | None = None
    """The one that judges the request and writes nothing; None if there is nothing to judge."""
    by_interval: str | None = None
    """``airflow backfill create``: one run for each data interval. None without a cron schedule, or if the request cannot be
    split into intervals."""

    @property
    def all(self) -> tuple[str, ...]:
        """All commands."""
        return tuple(command for command in (*self.single, self.dry_run, self.by_interval) if command is not None)

    def lines(self) -> list[str]:
        """Lines of text for messages."""
        lines = [f"to see what it deletes, changes and refuses: {self.dry_run}"] if self.dry_run is not None else []
        lines += [f"to start it: {command}" for command in self.single]
        if self.by_interval is not None:
            lines.append(f"or one run for each interval (--dry-run lists them): {self.by_interval}")
        return lines


def commands(pipeline: Pipeline, request: RunRequest, *, judged: bool = False) -> Commands:
    """The commands for a request.

    Args:
        judged: Whether the request replaces rows, so that a dry run has something to judge.
    """
    single = _single(request)
    dry_run = f"{single[-1]} --dry-run" if judged else None
    window = request.window
    # Runs of `airflow backfill create` have the mode backfill, and no parameter `flows`.
    if request.mode != "backfill" or window is None or request.flows or not isinstance(pipeline.schedule, str):
        return Commands(single=single, dry_run=dry_run)
    first, last = window.since, window.until.subtract(seconds=1)
    by_interval = (
        f"airflow backfill create --dag-id {request.dag_id} --from-date {_with_offset(first)} --to-date {_with_offset(last)} "
        "--reprocess-behavior completed --max-active-runs 1"
    )
    return Commands(single=single, dry_run=dry_run, by_interval=by_interval)


def command(request: RunRequest) -> Command:
    """The command line that starts a request without Airflow."""
    options = ["--mode", request.mode] if request.mode != "incremental" else []
    options += [part for flow in request.flows for part in ("--flow", flow)]
    if request.window is not None:
        first, last = request.window.dates
        options += ["--from", str(first), "--to", str(last)]
    if request.gaps:
        options.append("--gaps")
    options += [part for each in request.accept for part in ("--accept", each)]
    return Command.tidegate("run", request.dag_id, *options)


def _single(request: RunRequest) -> tuple[str, ...]:
    conf: dict[str, Any] = {"mode": request.mode} if request.mode != "incremental" else {}
    if request.flows:
        conf["flows"] = list(request.flows)
    if request.window is not None:
        first, last = request.window.dates
        conf |= {"from_date": str(first), "to_date": str(last)}
    if request.gaps:
        conf["gaps"] = True
    if request.accept:
        conf["accept"] = list(request.accept)
    trigger = f"airflow dags trigger {request.dag_id}" + (f" --conf {shlex.quote(json.dumps(conf))}" if conf else "")
    return trigger, command(request).written


def _with_offset(moment: pendulum.DateTime) -> str:
    """ISO 8601 in local time with the offset from UTC."""
    return moment.format("YYYY-MM-DDTHH:mm:ssZ")
