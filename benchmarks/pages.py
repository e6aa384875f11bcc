"""Response times of the pages in Airflow, by default for 50 flows with 10,000 batches each.

``python benchmarks/pages.py`` creates a lake in a temporary folder with ledgers, verdicts, quarantine tables, checkpoints and
Delta tables. It renders pages as the app does, without HTTP and Airflow's session, and prints the times of the first pages, and
the median and the maximum of the next ones. Meanwhile a writer adds batches, one commit per batch as a job does. The status
of every flow is read from its checkpoint and its source.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from tidegate.lake.layout import Layout
from tidegate.lake.place import AttemptPlace, FlowPlace, PipelinePlace, Place
from tidegate.store import Address

DECLARATION = """
from tidegate.spec import ChangeFeed, FileSource, Flow, Pipeline, Table

pipeline = Pipeline(name="{name}", flows=(
    Flow(name="bronze", source=FileSource(path="{name}", format="csv", schema="a STRING"), target=Table("bronze.{name}")),
    Flow(name="silver", source=ChangeFeed("bronze.{name}"), transform="x:clean",
         target=Table("silver.{name}", keys=("a",), sequence_by=("b",))),
))
"""
_SINGLE = 90
"""Number of batches whose lines are not compacted."""
_RUNS = 1000
"""Number of runs of a pipeline of which reports are kept."""
_KEPT_BATCHES = 100
"""Number of batches that Spark keeps in a checkpoint (``spark.sql.streaming.minBatchesToRetain``)."""


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--flows", type=int, default=50)
    parser.add_argument("--batches", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=30)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        names = [f"p{number:02}" for number in range(arguments.flows // 2)]
        _create_lake(folder, names, arguments.batches)
        _measure(folder, names, arguments.rounds)


def _create_lake(folder: Path, names: list[str], batches: int) -> None:
    (folder / "pipelines").mkdir()
    (folder / "pipelines/__init__.py").touch()
    (folder / "spark_jobs").mkdir()
    (folder / "spark_jobs/__init__.py").touch()
    (folder / "spark_jobs/x.py").write_text("def clean(rows):\n    return rows\n")
    for name in names:
        (folder / f"pipelines/{name}.py").write_text(DECLARATION.format(name=name))
        (folder / "landing" / name).mkdir(parents=True)
        (folder / f"landing/{name}/1.csv").write_text("a\n1\n")
    sys.path.insert(0, str(folder))
    layout = _layout(folder)
    layout.open()
    first = names[0]
    for kind, line in (("ledger", _ledger_line), ("verdicts", _verdict_line)):
        # The older lines in one file, as if compacted, then one commit per line, as a job writes them.
        compacted = max(batches - _SINGLE, 0)
        _add(Path(PipelinePlace(layout, first).ops(kind)), kind, line, range(compacted))
        for batch in range(compacted, batches):
            _add(Path(PipelinePlace(layout, first).ops(kind)), kind, line, (batch,))
    _quarantine(Path(FlowPlace(layout, first, "silver").quarantine))
    _copy(layout, first, names)
    for name in names:
        _fill(layout, name)
        _reports(layout, name)


def _add(
    path: Path, kind: str, line: Any, batches: Iterable[int], flows: tuple[str, ...] = ("bronze", "silver")
) -> None:
    from tidegate.ops import ledger, store

    columns = (ledger.LEDGER if kind == "ledger" else ledger.VERDICTS).columns
    rows = [line(flow, batch, list(columns)) for batch in batches for flow in flows]
    if rows:
        store.append(Address.local(path), columns, rows)


def _copy(layout: Layout, first: str, names: list[str]) -> None:
    """Copy the tables of the first pipeline for the others, because fifty thousand commits would take an hour.

    The copies are hard links, because files of Delta tables are never changed.
    """
    import os
    import shutil

    no_locks = shutil.ignore_patterns("*.lock")
    for name in names[1:]:
        for table in (
            PipelinePlace(layout, first).ops("ledger"),
            PipelinePlace(layout, first).ops("verdicts"),
            FlowPlace(layout, first, "silver").quarantine,
        ):
            target = Path(str(table).replace(f"/{first}/", f"/{name}/"))
            shutil.copytree(table, target, ignore=no_locks, copy_function=os.link)


def _ledger_line(flow: str, batch: int, names: list[str]) -> dict[str, Any]:
    from tidegate.ops.ledger import RecordedLine
    from tidegate.ops.table import row_of

    line = RecordedLine(
        flow=flow,
        kind="append",
        app_id=f"p/{flow}/v1/0",
        batch_id=batch,
        target_version=batch,
        rules={"required(a)": 10},
        seconds=4.2,
        read=1000 + batch,
        written=990 + batch,
        quarantined=10,
        **_attempt(batch),
    )
    return row_of(line)


def _verdict_line(flow: str, batch: int, names: list[str]) -> dict[str, Any]:
    results = [
        {"expectation": "between", "rule": f"between(column_{number})", "success": True, "severity": "critical"}
        for number in range(10)
    ]
    fields = {"flow": flow, "app_id": f"p/{flow}/v1/0", "batch_id": batch, "outcome": "split", **_attempt(batch)}
    fields["results"] = json.dumps(results)
    return {name: fields.get(name, "x") for name in names}


def _attempt(batch: int) -> dict[str, Any]:
    at = datetime.now(UTC) - timedelta(minutes=20 * (20_000 - batch))
    return {
        "run_key": f"run-{batch}",
        "attempt": "a",
        "checkpoint_version": 1,
        "refresh": 0,
        "mode": "incremental",
        "requested_by": None,
        "recorded_at": at,
    }


def _quarantine(path: Path) -> None:
    import pyarrow
    from deltalake import write_deltalake

    path.parent.mkdir(parents=True)
    many, at = 10_000, datetime.now(UTC)
    columns = {
        "_row_id": [str(number) for number in range(many)],
        "level": ["row"] * many,
        "rules": [["required(a)"]] * many,
        "record": ["1"] * many,
        "state": ["open"] * many,
        "quarantined_at": [at] * many,
        "_in_hand": pyarrow.nulls(many, pyarrow.string()),
        "_replay": pyarrow.nulls(many, pyarrow.int64()),
    }
    write_deltalake(str(path), pyarrow.table(columns), mode="append")


def _fill(layout: Layout, name: str) -> None:
    """Create both tables of a pipeline, and checkpoints that have read all files except the last one."""
    import pyarrow
    from deltalake import DeltaTable, write_deltalake

    from tests.spark_files import Checkpoint, delta_offset

    for table in (f"bronze.{name}", f"silver.{name}"):
        Path(layout.table(table).parent).mkdir(parents=True, exist_ok=True)
        for _ in range(2):
            write_deltalake(str(layout.table(table)), pyarrow.table({"a": ["1"]}), mode="append")
    bronze = Checkpoint(Place(layout, name, "bronze", 1, 0).checkpoint)
    silver = Checkpoint(Place(layout, name, "silver", 1, 0).checkpoint)
    table_id = str(DeltaTable(str(layout.table(f"bronze.{name}"))).metadata().id)
    landed = layout.landing(name)
    for batch in range(_KEPT_BATCHES):
        bronze.list_files(batch, {str(landed / f"earlier-{batch}.csv"): int(time.time() * 1000)})
        bronze.run(batch, {"logOffset": batch})
        silver.run(batch, delta_offset(1, table_id=table_id))


def _reports(layout: Layout, name: str) -> None:
    """Create runs with one attempt each; their reports are hard links to one."""
    from tidegate.reports.report import FlowReport, RunReport, now

    flows = [
        FlowReport(flow=flow, target=f"{flow}.{name}", checkpoint_version=1, state="done")
        for flow in ("bronze", "silver")
    ]
    first = AttemptPlace(layout, name, "run-0", "a20260101T000000-0").report
    RunReport(
        dag_id=name, run_key="run-0", attempt=first.parent.name, started_at=now(), ended_at=now(), flows=flows
    ).write(first)
    for number in range(1, _RUNS):
        path = AttemptPlace(layout, name, f"run-{number}", first.parent.name).report
        Path(path.parent).mkdir(parents=True)
        Path(path).hardlink_to(first)


def _layout(folder: Path) -> Layout:
    return Layout.local(folder / "lake", folder / "landing")


def _measure(folder: Path, names: list[str], rounds: int) -> None:
    from tidegate.airflow.pages.views import Views
    from tidegate.airflow.urls import AppLinks
    from tidegate.environment import Environment
    from tidegate.pages import render

    folders = {"TIDEGATE_LAKE": str(folder / "lake"), "TIDEGATE_LANDING": str(folder / "landing")}
    environment = Environment.read(folders | {"TIDEGATE_PROJECT": str(folder)})
    _check(environment)
    views = Views(environment)

    def page(template: str, content: Callable[[], dict[str, Any]], expected: str) -> float:
        started = time.perf_counter()
        html = render.page(template, AppLinks("/tidegate"), root="/tidegate", airflow="", address="/", **content())
        assert expected in html
        return time.perf_counter() - started

    def overview() -> float:
        return page(
            "overview.html",
            lambda: views.overview(set(names), "", ""),
            f"/pipelines/{names[-1]}/flows/silver/v1-0-batch-",
        )

    def flow() -> float:
        return page("flow.html", lambda: views.flow(names[-1], "silver", 1), "Flow status")

    def batch(number: int) -> float:
        name = f"v1-0-batch-{number}"
        return page("batch.html", lambda: views.batch(names[-1], "silver", name), "✓ met")

    first = f"overview {overview():.2f} s, flow {flow():.2f} s, batch {batch(0):.2f} s"
    print(f"{2 * len(names)} flows, the first answers: {first}")
    stop = threading.Event()
    writer = threading.Thread(target=_write, args=(folder, names, stop))
    writer.start()
    try:
        _print_times("overview", [_delayed(overview) for _ in range(rounds)])
        _print_times("flow", [_delayed(flow) for _ in range(10)])
        _print_times("batch", [_delayed(lambda: batch(1)) for _ in range(10)])
    finally:
        stop.set()
        writer.join()


def _check(environment: Any) -> None:
    """Check that the status of every flow can be read, because errors would be faster than a status."""
    from tidegate.status import flow_status, run_ends, status_cache

    for status in flow_status.gather(environment, list(status_cache.declarations(environment).items()), patience=60):
        assert status.error is None and status.lag is not None, f"{status.pipeline}/{status.flow}: {status.error}"
        assert status.lag.behind == 1, f"{status.pipeline}/{status.flow}: {status.reason}"
        assert status.ends is not None and status.ends.failure is None
    # The first page lists all runs.
    run_ends._listed.clear()


def _delayed(request: Any) -> float:
    # The interval of a person's requests, so that cached statuses expire and are read again.
    time.sleep(0.7)
    return float(request())


def _write(folder: Path, names: list[str], stop: threading.Event) -> None:
    batch = 100_000
    while not stop.wait(1.0):
        _add(
            Path(PipelinePlace(_layout(folder), names[batch % len(names)]).ops("ledger")),
            "ledger",
            _ledger_line,
            (batch,),
            ("silver",),
        )
        batch += 1


def _print_times(what: str, seconds: list[float]) -> None:
    median, slowest = (f"{1000 * each:.0f} ms" for each in (statistics.median(seconds), max(seconds)))
    print(f"{what}, the next {len(seconds)} while a job writes: median {median}, slowest {slowest}")


if __name__ == "__main__":
    main()
