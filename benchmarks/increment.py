"""What an increment costs with Tidegate: the pipeline `flights` beside a PySpark script that does the same by hand.

``python benchmarks/increment.py`` lands twenty days of flights and takes them in with both. Then, pair by pair, five more
days arrive (about 4,600 records, of which five break a rule), and both take them in, in turns: ``tidegate run flights`` and
`benchmarks/increment_by_hand.py`, each started as a command, with the same jars, flags and settings of Spark. What is counted
is everything from the command to its end: processor seconds of all processes, wall seconds, Spark jobs, SQL executions. In
the end both silver tables, gold tables and quarantines must hold the same.

``--clean``     no record breaks a rule
``--load``      the first load instead: 2.0 million rows, the flights of 2013 six times over, each copy a year later
``--backfill``  a replay of one day instead, beside the increment that brought this day, and what ``tidegate plan`` announced
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path

from benchmarks import cost
from benchmarks.cost import ROLES, Cost
from demo import flights_feed, recompute
from tidegate.ending import leave
from tidegate.environment import Environment
from tidegate.launch import submit_conf, submit_environment
from tidegate.layout import Layout
from tidegate.report import RunReport
from tidegate.spark.driver.session import SETTINGS

PROJECT = Path(__file__).parents[1]
BIN = Path(sys.executable).parent
WARM_DAYS = 20
DAYS_AT_ONCE = 5
BAD: tuple[Mapping[str, str], ...] = (
    {"dep_delay": "late"},
    {"origin": "ZRH"},
    {"distance": "-1"},
    {"air_time": "99999"},
    {"carrier": "UAL"},
)
"""What is wrong with one record of each day of an increment, in turns."""
LINES = ('"tailnum",', 'F.lower("tailnum").alias("tailnum"),')
"""A line of the transform in two ways; a backfill exchanges one for the other, so that every row of its window differs."""
TABLES = {"silver.flights": "silver", "gold.daily_delay": "gold"}


class Bench:
    """Two lakes over one landing zone."""

    def __init__(self, folder: Path, *, small: bool, project: Path = PROJECT) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.small = folder, small
        places = {"PROJECT": project, "LAKE": folder / "lake", "LANDING": folder / "landing"}
        self.environ = {**os.environ, **{f"TIDEGATE_{name}": str(place) for name, place in places.items()}}
        self.environment = Environment.read(self.environ)
        self.layout = Layout.of(self.environment)
        self.by_hand, self.landing = folder / "by-hand", self.layout.landing("flights")

    def tidegate(self, *more: str) -> tuple[Cost, RunReport]:
        """One run of the pipeline.

        Raises:
            SystemExit: It ran with another compiler than the script.
        """
        command = [str(BIN / "tidegate"), "run", "flights", *more]
        taken = cost.measure(command, self.environ, self.folder / "tidegate.log")
        newest = max(self.layout.reports("flights").glob("*/*/report.json"), key=lambda path: path.stat().st_mtime)
        report = RunReport.read(newest)
        assert report is not None
        if ("compilation: C1 only" in report.notes) != self.small:
            raise SystemExit("the two programs ran with different flags of the JVM")
        return taken, report

    def script(self) -> Cost:
        """One run of the script, started as Tidegate starts its application."""
        conf = submit_conf(self.environment, small=self.small) | SETTINGS
        settings = [part for name, value in conf.items() for part in ("--conf", f"{name}={value}")]
        application = [str(Path(__file__).with_name("increment_by_hand.py")), str(self.by_hand), str(self.landing)]
        command = [str(BIN / "spark-submit"), "--master", self.environment.master, *settings, *application]
        environ = {**self.environ, **submit_environment(self.environment)}
        return cost.measure(command, environ, self.folder / "by-hand.log")

    def announced(self, *more: str) -> dict[str, float | None]:
        """The seconds that ``tidegate plan`` says a run will take, by flow."""
        command = [str(BIN / "tidegate"), "plan", "flights", *more, "--json"]
        said = subprocess.run(command, env=self.environ, capture_output=True, text=True, check=True).stdout
        return {flow["flow"]: flow["seconds"] for flow in json.loads(said)["flows"]}

    def batches(self) -> tuple[list[int], list[int]]:
        """How many batches the three flows have taken, with Tidegate and by hand."""
        ours = [self.layout.checkpoint("flights", flow, 1, 0) for flow in ("bronze", "silver", "gold")]
        theirs = [self.by_hand / "checkpoints" / flow for flow in ("bronze", "silver", "gold")]
        counts = [[len(list((path / "commits").glob("[0-9]*"))) for path in side] for side in (ours, theirs)]
        return counts[0], counts[1]

    def compare(self) -> str:
        """Both lakes hold the same rows.

        Raises:
            SystemExit: They do not.
        """
        import duckdb
        from deltalake import DeltaTable

        told = []
        with duckdb.connect() as connection:
            for name, other in TABLES.items():
                theirs = DeltaTable(self.by_hand / other).to_pyarrow_table()
                ours = DeltaTable(self.layout.table(name)).to_pyarrow_table(columns=theirs.column_names)
                connection.register("theirs", theirs)
                if found := recompute.differences(connection, "theirs", theirs.column_names, ours):
                    raise SystemExit(f"{name}: {found:,} rows stand in only one of the two tables")
                told.append(f"{name} has the same {ours.num_rows:,} rows")
        ours, theirs = (
            DeltaTable(path).to_pyarrow_table(columns=[]).num_rows if path.exists() else 0
            for path in (self.layout.quarantine("flights", "silver"), self.by_hand / "quarantine")
        )
        if ours != theirs:
            raise SystemExit(f"{ours:,} records are in Tidegate's quarantine, {theirs:,} in the script's")
        return f"{', '.join(told)}, {ours:,} records in quarantine"


def increments(folder: Path, pairs: int, *, clean: bool) -> None:
    """Small increments, in pairs."""
    bench = Bench(folder, small=True)
    days = list(flights_feed.days())
    _land(bench, days[:WARM_DAYS])
    bench.tidegate()
    bench.script()
    taken = []
    for number in range(pairs):
        begin = WARM_DAYS + number * DAYS_AT_ONCE
        rows = _land(bench, days[begin : begin + DAYS_AT_ONCE], () if clean else BAD)
        print(f"pair {number + 1}, {rows:,} rows:")
        taken.append(_pair(bench, tidegate_first=number % 2 == 0))
    _summary(taken)
    print(f"in the end {bench.compare()}")


def load(folder: Path, pairs: int, copies: int) -> None:
    """The first load of everything, each pair into new lakes."""
    taken = []
    for number in range(pairs):
        bench = Bench(folder / str(number), small=False)
        rows = _land(bench, list(flights_feed.days()), copies=copies)
        print(f"pair {number + 1}, the first load of {rows:,} rows:")
        taken.append(_pair(bench, tidegate_first=number % 2 == 0))
        ours, theirs, _ = taken[-1]
        for name, each in (("tidegate", ours), ("by hand ", theirs)):
            peaks = ", ".join(f"{role} {each.peaks.get(role, 0) / 1024**2:,.0f} MB" for role in ROLES[:3])
            print(f"  {name}: resident at most: {peaks}; {rows / each.processor:,.0f} rows per processor second")
        print("  batches of bronze, silver and gold: {} with Tidegate, {} by hand".format(*bench.batches()))
        print(f"  in the end {bench.compare()}")
    _summary(taken)


def backfill(folder: Path, pairs: int) -> None:
    """A replay of one day beside the increment that brought it. The transform changes in between, so every row does."""
    project = folder / "project"
    for part in ("pipelines", "spark_jobs", "expectations"):
        shutil.copytree(PROJECT / part, project / part, ignore=shutil.ignore_patterns("__pycache__"))
    for shared in ("jars", "jars.lock.json", ".cache"):
        (project / shared).symlink_to(PROJECT / shared)
    bench = Bench(folder, small=True, project=project)
    days = list(flights_feed.days())
    _land(bench, days[:WARM_DAYS])
    bench.tidegate()
    ratios = []
    for number in range(pairs):
        day = days[WARM_DAYS + number]
        rows = _land(bench, [day])
        print(f"pair {number + 1}, {day}, {rows:,} rows:")
        increment = bench.tidegate()[0]
        print(f"  increment {increment.told()}")
        _exchange(project / "spark_jobs" / "flights.py")
        window = ("--mode", "replay", "--from", str(day), "--to", str(day))
        announced = bench.announced(*window)
        replay, report = bench.tidegate(*window)
        print(f"  replay    {replay.told()}")
        for flow in report.flows:
            if flow.flow in announced:
                told = announced[flow.flow]
                batches = sum(batch.seconds for batch in flow.batches)
                print(f"    {flow.flow}: plan announced {told} s, its {len(flow.batches)} batches took {batches:.1f} s")
        ratios.append((replay.processor / increment.processor, replay.wall / increment.wall))
    for what, each in zip(("processor", "wall"), zip(*ratios, strict=True), strict=True):
        print(f"replay to increment, {what}: {_spread(each)}")


def _pair(bench: Bench, *, tidegate_first: bool) -> tuple[Cost, Cost, float]:
    """Both programs in turns; also what the import of Great Expectations costs alone, in processor seconds."""
    if tidegate_first:
        (ours, report), theirs = bench.tidegate(), bench.script()
    else:
        theirs, (ours, report) = bench.script(), bench.tidegate()
    extra = cost.import_of_great_expectations(bench.environ, bench.folder / "import.log")
    waited = ", ".join(f"{name} {report.parts.get(name, 0):.1f} s" for name in ("gx_import", "gx_wait"))
    print(f"  tidegate {ours.told()}")
    print(f"  by hand  {theirs.told()}")
    print(
        f"  the import of Great Expectations: processor {extra:.1f} s alone; in the run, by the clock: {waited}",
        flush=True,
    )
    return ours, theirs, extra


def _summary(taken: Sequence[tuple[Cost, Cost, float]]) -> None:
    """Tidegate's costs in terms of the script's."""
    told = {
        "processor": [ours.processor / theirs.processor for ours, theirs, _ in taken],
        "processor without the import": [(ours.processor - extra) / theirs.processor for ours, theirs, extra in taken],
        "wall": [ours.wall / theirs.wall for ours, theirs, _ in taken],
        "Spark jobs": [ours.jobs / theirs.jobs for ours, theirs, _ in taken],
        "SQL executions": [ours.executions / theirs.executions for ours, theirs, _ in taken],
    }
    for what, ratios in told.items():
        print(f"Tidegate to script, {what}: {_spread(ratios)}")


def _spread(ratios: Sequence[float]) -> str:
    return f"{statistics.median(ratios):.2f} (median of {len(ratios)}; {min(ratios):.2f} to {max(ratios):.2f})"


def _exchange(path: Path) -> None:
    """Write one line of the transform the other way."""
    text = path.read_text()
    old, new = LINES if LINES[0] in text else reversed(LINES)
    if text.count(old) != 1:
        raise SystemExit(f"{path.name} has changed: {old} does not stand in it once")
    path.write_text(text.replace(old, new))


def _land(bench: Bench, days: Sequence[date], bad: Sequence[Mapping[str, str]] = (), copies: int = 1) -> int:
    """A file for each day and copy; returns how many records they hold."""
    bench.landing.mkdir(parents=True, exist_ok=True)
    count = 0
    for years in range(copies):
        for number, day in enumerate(days):
            records = [later(record, years) for record in flights_feed.days()[day]]
            if bad:
                _spoil(records, bad[number % len(bad)])
            path = bench.landing / flights_feed.name_of(day.replace(year=day.year + years))
            draft = path.with_suffix(".tmp")
            with draft.open("w", encoding="utf-8", newline="") as file:
                writer = csv.DictWriter(file, flights_feed.FIELDS, lineterminator="\n")
                writer.writeheader()
                writer.writerows(records)
            draft.replace(path)
            count += len(records)
    return count


def later(record: Mapping[str, str], years: int) -> dict[str, str]:
    """The same flight some years later, which is another flight."""
    if not years:
        return dict(record)
    moved = {
        name: f"{int(record[name][:4]) + years}{record[name][4:]}" for name in ("year", "time_hour", "published_on")
    }
    return {**record, **moved}


def _spoil(records: list[dict[str, str]], wrong: Mapping[str, str]) -> None:
    """Let one flight that left break a rule."""
    left = next(number for number, record in enumerate(records) if record["arr_delay"] != "NA")
    records[left] = {**records[left], **wrong}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, help="3 by default; 1 of a load, 2 of a backfill")
    parser.add_argument("--copies", type=int, default=6, help="how often a load lands the flights of 2013")
    mode = parser.add_mutually_exclusive_group()
    for name in ("--clean", "--load", "--backfill"):
        mode.add_argument(name, action="store_true")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="increment-") as made:
        folder = Path(made)
        if asked.load:
            load(folder, asked.pairs or 1, asked.copies)
        elif asked.backfill:
            backfill(folder, asked.pairs or 2)
        else:
            increments(folder, asked.pairs or 3, clean=asked.clean)


if __name__ == "__main__":
    main()
    leave(0)
