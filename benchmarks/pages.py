"""How long the overview in Airflow takes: 50 flows with 1,000 batches each, by default.

``python benchmarks/pages.py`` makes a lake in a temporary folder with ledgers, verdicts, quarantine tables, checkpoints and
Delta tables, asks for pages as the app does, without its routes and Airflow's session in front of it, and prints the first
answer's time and the median and the slowest of the next ones. While it asks, a writer adds batches. The lines are written
as a job writes them, one commit a batch; every flow stands where its checkpoint and its source say.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import threading
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

DECLARATION = """
from tidegate.spec import ChangeFeed, FileSource, Flow, Pipeline, Table

pipeline = Pipeline(name="{name}", flows=(
    Flow(name="bronze", source=FileSource(path="{name}", format="csv", schema="a STRING"), target=Table("bronze.{name}")),
    Flow(name="silver", source=ChangeFeed("bronze.{name}"), transform="x:clean",
         target=Table("silver.{name}", keys=("a",), sequence_by=("b",))),
))
"""
_KEPT_BATCHES = 100
"""So many batches Spark keeps in a checkpoint (``spark.sql.streaming.minBatchesToRetain``)."""


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--flows", type=int, default=50)
    parser.add_argument("--batches", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=30)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        names = [f"p{number:02}" for number in range(asked.flows // 2)]
        _make(folder, names, asked.batches)
        _measure(folder, names, asked.rounds)


def _make(folder: Path, names: list[str], batches: int) -> None:
    (folder / "pipelines").mkdir()
    (folder / "pipelines/__init__.py").touch()
    for name in names:
        (folder / f"pipelines/{name}.py").write_text(DECLARATION.format(name=name))
        (folder / "landing" / name).mkdir(parents=True)
        (folder / f"landing/{name}/1.csv").write_text("a\n1\n")
    sys.path.insert(0, str(folder))
    layout = _layout(folder)
    layout.open()
    first = names[0]
    for kind, line in (("ledger", _ledger_line), ("verdicts", _verdict_line)):
        for batch in range(batches):
            for flow in ("bronze", "silver"):
                _add(layout.ops(first, kind), kind, line, flow, batch)
    _quarantine(layout.quarantine(first, "silver"))
    _copy(layout, first, names)
    for name in names:
        _fill(layout, name)


def _add(path: Path, kind: str, line: Any, flow: str, batch: int) -> None:
    from tidegate.ops import ledger, store

    schema = ledger.schema() if kind == "ledger" else ledger.verdict_schema()
    store.append(path, schema, [line(flow, batch, schema.names)])


def _copy(layout: Any, first: str, names: list[str]) -> None:
    """The other pipelines' tables are the first one's: making fifty thousand commits would take an hour.

    As links: nobody changes a file of a Delta table.
    """
    import os
    import shutil

    leave = shutil.ignore_patterns("*.lock")
    for name in names[1:]:
        for place in (layout.ops(first, "ledger"), layout.ops(first, "verdicts"), layout.quarantine(first, "silver")):
            target = Path(str(place).replace(f"/{first}/", f"/{name}/"))
            shutil.copytree(place, target, ignore=leave, copy_function=os.link)


def _ledger_line(flow: str, batch: int, names: list[str]) -> dict[str, Any]:
    counts = {"read": 1000 + batch, "written": 990 + batch, "quarantined": 10}
    told = {
        "flow": flow,
        "kind": "append",
        "app_id": f"p/{flow}/v1/0",
        "batch_id": batch,
        "filtered": {},
        "rules": {"required(a)": 10},
        "seconds": 4.2,
        **_attempt(batch),
    }
    return {name: told.get(name, counts.get(name, 0)) for name in names}


def _verdict_line(flow: str, batch: int, names: list[str]) -> dict[str, Any]:
    results = [{"rule": f"between(column_{number})", "success": True, "severity": "critical"} for number in range(10)]
    told = {"flow": flow, "app_id": f"p/{flow}/v1/0", "batch_id": batch, "outcome": "split", **_attempt(batch)}
    told["results"] = json.dumps(results)
    return {name: told.get(name, "x") for name in names}


def _attempt(batch: int) -> dict[str, Any]:
    at = datetime.now(UTC) - timedelta(minutes=20 * (2000 - batch))
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


def _fill(layout: Any, name: str) -> None:
    """Both tables of a pipeline, and the checkpoints that have read all but what landed last."""
    import pyarrow
    from deltalake import DeltaTable, write_deltalake

    from tests.written import Checkpoint, delta_offset

    for table in (f"bronze.{name}", f"silver.{name}"):
        layout.table(table).parent.mkdir(parents=True, exist_ok=True)
        for _ in range(2):
            write_deltalake(str(layout.table(table)), pyarrow.table({"a": ["1"]}), mode="append")
    bronze = Checkpoint(layout.checkpoint(name, "bronze", 1, 0))
    silver = Checkpoint(layout.checkpoint(name, "silver", 1, 0))
    table_id = str(DeltaTable(str(layout.table(f"bronze.{name}"))).metadata().id)
    landed = layout.landing(name)
    for batch in range(_KEPT_BATCHES):
        bronze.list_files(batch, {str(landed / f"earlier-{batch}.csv"): int(time.time() * 1000)})
        bronze.run(batch, {"logOffset": batch})
        silver.run(batch, delta_offset(1, table_id=table_id))


def _layout(folder: Path) -> Any:
    from tidegate.layout import Layout

    return Layout(folder / "lake", folder / "landing")


def _measure(folder: Path, names: list[str], rounds: int) -> None:
    from tidegate.airflow.pages import render
    from tidegate.airflow.pages.views import Views
    from tidegate.environment import Environment

    places = {"TIDEGATE_LAKE": str(folder / "lake"), "TIDEGATE_LANDING": str(folder / "landing")}
    environment = Environment.read(places | {"TIDEGATE_PROJECT": str(folder)})
    _check(environment)
    shown = Views(environment)

    def overview() -> float:
        started = time.perf_counter()
        page = render.page(
            "overview.html", root="/tidegate", airflow="", address="/", **shown.overview(set(names), "", "")
        )
        assert page.count('class="plot spark"') == 2 * len(names)
        return time.perf_counter() - started

    def flow(page: int) -> float:
        started = time.perf_counter()
        found = shown.flow(names[-1], "silver", page)
        render.page("flow.html", root="/tidegate", airflow="", address="/", **found)
        return time.perf_counter() - started

    print(f"{2 * len(names)} flows: the first overview {overview():.2f} s, the first flow page {flow(1):.2f} s")
    stop = threading.Event()
    writer = threading.Thread(target=_write, args=(folder, names, stop))
    writer.start()
    try:
        _tell("overview", [_pause(overview) for _ in range(rounds)])
        _tell("flow", [_pause(lambda page=page: flow(page)) for page in range(1, 11)])
    finally:
        stop.set()
        writer.join()


def _check(environment: Any) -> None:
    """Fails unless every flow can be read: an error is told more quickly than a standing."""
    from tidegate import registry
    from tidegate.status import standing

    for told in standing.gather(environment, list(registry.declarations().items()), patience=60):
        assert told.error is None and told.lag is not None, f"{told.pipeline}/{told.flow}: {told.error}"
        assert told.lag.behind == 1, f"{told.pipeline}/{told.flow}: {told.lag.reason}"


def _pause(ask: Any) -> float:
    # As people ask, so that standings grow old and are read anew meanwhile.
    time.sleep(0.7)
    return float(ask())


def _write(folder: Path, names: list[str], stop: threading.Event) -> None:
    batch = 100_000
    while not stop.wait(1.0):
        _add(_layout(folder).ops(names[batch % len(names)], "ledger"), "ledger", _ledger_line, "silver", batch)
        batch += 1


def _tell(what: str, seconds: list[float]) -> None:
    told = [f"{1000 * each:.0f} ms" for each in (statistics.median(seconds), max(seconds))]
    print(f"{what}, the next {len(seconds)} while a job writes: median {told[0]}, slowest {told[1]}")


if __name__ == "__main__":
    main()
