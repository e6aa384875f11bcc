"""Runs of a pipeline in processes of their own, which are killed at random moments."""

from __future__ import annotations

import dataclasses
import json
import random
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tidegate import hidden
from tidegate.formatting import count
from tidegate.lake.place import AttemptPlace, FlowPlace
from tidegate.processes import end_group
from tidegate.project import registry
from tidegate.reports.report import RunReport
from tidegate.requests import launch
from tidegate.requests.request import fresh_id
from tidegate.spec import Pipeline
from tidegate.testing.lake import Lake, read

FIRST_SPAN_SECONDS = 6.0
"""The first kills come within so many seconds of the job's first report. A job with a cold JVM takes longer."""
_TIMEOUT_SECONDS = 600.0


def kill_at_random(
    lake: Lake,
    pipeline: str,
    *steps: Callable[[Lake], object],
    follows: Sequence[str] = (),
    seed: int = 0,
    kills: int = 3,
) -> list[str]:
    """Land input step by step, kill the runs that read it, and compare the tables with those of undisturbed runs.

    After each step the increment is started as ``tidegate run`` starts it and gets a SIGKILL at a random moment, with its whole process
    group, ``kills`` times or until it ended before; then it runs to its end. The undisturbed runs read the same landing zone in this
    process, into a lake beside it.

    Args:
        lake: An empty lake.
        pipeline: The pipeline's name.
        steps: Each lands files in the lake that it is given; without any, one increment reads what has landed.
        follows: Pipelines that write tables which it reads; they run undisturbed after each step.
        seed: Of the random moments. The same seed does not repeat the same kills, because durations vary.
        kills: Kills of each increment.

    Returns:
        What was killed and when, one line each.

    Raises:
        AssertionError: A row is only in one of the lakes, a ledger line does not balance, a run without a kill failed, or no run
            was killed.
    """
    rng, span, killed = random.Random(seed), FIRST_SPAN_SECONDS, list[str]()
    beside = lake.environment.lake.with_name(f"{lake.environment.lake.name}-undisturbed")
    undisturbed = dataclasses.replace(lake, environment=dataclasses.replace(lake.environment, lake_at=beside))
    for number, step in enumerate(steps or (_nothing_more,)):
        step(lake)
        for each, names in ((lake, follows), (undisturbed, (*follows, pipeline))):
            for name in names:
                _check(each.run(name))
        for _ in range(kills):
            seconds = rng.uniform(0, span)
            if not _killed(lake, pipeline, seconds):
                span = max(1.0, seconds)
                break
            killed.append(f"increment {number}: SIGKILL after {seconds:.1f} s")
            span *= 1.2
        _check(lake.run(pipeline))
    if not killed:
        raise AssertionError("no run was killed: every run ended before; land more")
    expect_equal(lake, undisturbed, registry.load(pipeline), "; ".join(killed))
    lake.expect_a_balanced_ledger(pipeline)
    return killed


def expect_equal(lake: Lake, other: Lake, pipeline: Pipeline, what: str) -> None:
    """Check that the tables and the quarantine of a pipeline have the same rows in both lakes, whatever the batches.

    Raises:
        AssertionError: Names the table, and says how many rows are in only one lake; ``what`` was done to the first.
    """
    for flow in pipeline.flows:
        by_id = not any(_keyed(table) for table in flow.source_tables)
        for path in (lake.layout.table(flow.target.name), FlowPlace(lake.layout, pipeline.name, flow.name).quarantine):
            place = path.key
            rows, expected = (_rows(each.environment.lake / place, by_id=by_id) for each in (lake, other))
            if rows != expected:
                extra, lost = (rows - expected).total(), (expected - rows).total()
                raise AssertionError(
                    f"after {what}: {place} has {count(extra, 'row')} too many and lacks {count(lost, 'row')}"
                )


def _nothing_more(_: Lake) -> None:
    """Everything has landed before."""


def _killed(lake: Lake, pipeline: str, seconds: float) -> bool:
    """Start a run and kill it so many seconds after its first report; False if it ended before. Nothing of it runs afterwards."""
    request, attempt = lake.request(pipeline), fresh_id("a")
    request_id = request.write(lake.layout)
    report = AttemptPlace(lake.layout, request.dag_id, request.run_key, attempt).report
    log = lake.environment.lake.with_name("killed.log")
    job = launch.start(lake.environment, request, request_id, attempt, log)
    try:
        deadline = time.monotonic() + _TIMEOUT_SECONDS
        while not report.exists() and job.poll() is None and time.monotonic() < deadline:
            time.sleep(0.05)
        if not report.exists():
            raise AssertionError(f"the run of {pipeline!r} did not begin; its output is {log}")
        time.sleep(seconds)
        return job.poll() is None
    finally:
        end_group(job.pid, grace=0)
        job.wait()


def _check(report: RunReport) -> None:
    failed = [f"{flow.flow}: {flow.error.message}" for flow in report.flows if flow.error]
    if failed:
        raise AssertionError("a run without a kill failed: " + "; ".join(failed))


def _keyed(table: str) -> bool:
    """Whether a table has keys: the ids of rows that are made of it contain versions, which depend on how batches were cut."""
    return not table.startswith("bronze.")


def _rows(path: Path, *, by_id: bool) -> Counter[str]:
    """The rows of a table as text, without what depends on the run; none where there is no table."""
    if not (path / "_delta_log").exists():
        return Counter()
    table = read(path)
    is_quarantine = "rules" in table.column_names and "level" in table.column_names
    columns = ("level", "rules", "state") if is_quarantine else [n for n in table.column_names if not n.startswith("_")]
    kept = [*columns, *(name for name in (hidden.DELETED, hidden.ROW_ID) if name in table.column_names)]
    names = [name for name in kept if by_id or name != hidden.ROW_ID]
    return Counter(
        json.dumps(_comparable(row), default=repr, sort_keys=True) for row in table.select(names).to_pylist()
    )


def _comparable(value: Any) -> Any:
    """A value with nine digits of numbers that may be sums in another order."""
    if isinstance(value, float):
        return f"{value:.9g}"
    if isinstance(value, dict):
        return {name: _comparable(each) for name, each in value.items()}
    return [_comparable(each) for each in value] if isinstance(value, (list, tuple)) else value
