"""The cost of an increment: Tidegate's pipeline `flights` compared with a hand-written PySpark script.

``python benchmarks/increment.py`` lands twenty days of flights and processes them with both. Then, for each pair, five more
days land (about 4,600 records, of which five break a rule), and both process them, in alternating order: ``tidegate run
flights`` and `benchmarks/increment_by_hand.py`, each started as a command, with the same jars, JVM flags and Spark settings.
The benchmark measures each command from start to end: processor seconds of all processes, wall seconds, Spark jobs, SQL
executions. At the end both silver tables, gold tables and quarantines must have the same content.

``--clean``     no record breaks a rule
``--load``      the first load instead: 2.0 million rows, six copies of the flights of 2013, each copy a year later
``--backfill``  a backfill of one day instead, compared with the increment of this day, and with the estimate of ``tidegate plan``
``--against CHECKOUT``  the same increments by another checkout of Tidegate instead of the script, such as an earlier commit
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
from tidegate.environment import Environment
from tidegate.lake.layout import Layout
from tidegate.lake.place import FlowPlace, PipelinePlace, Place
from tidegate.processes import exit_now
from tidegate.reports.report import RunReport
from tidegate.requests.launch import submit_conf, submit_environment
from tidegate.spark.driver.session import SETTINGS
from tidegate.store import Address

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
"""The wrong value of one record of each day of an increment, cyclically."""
LINES = ('"tailnum",', 'F.lower("tailnum").alias("tailnum"),')
"""Two versions of a line of the transform; before a backfill they are exchanged, so that every row of its window differs."""
TABLES = {"silver.flights": "silver", "gold.daily_delay": "gold"}


class Bench:
    """Two lakes with one landing zone.

    Args:
        folder: Of lakes, landing zone and logs.
        small: Whether the increments are small, so that Tidegate compiles with C1 only.
        project: The folder of the declarations.
        checkout: The checkout whose `tidegate` runs.
        lake: The name of the lake's folder.
    """

    def __init__(
        self, folder: Path, *, small: bool, project: Path = PROJECT, checkout: Path = PROJECT, lake: str = "lake"
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.small, self.bin = folder, small, checkout / ".venv" / "bin"
        folders = {"PROJECT": project, "LAKE": folder / lake, "LANDING": folder / "landing"}
        self.environ = {**os.environ, **{f"TIDEGATE_{name}": str(path) for name, path in folders.items()}}
        self.environment = Environment.read(self.environ)
        self.layout = Layout.of(self.environment)
        self.by_hand, self.landing = folder / "by-hand", self.layout.landing("flights")

    def tidegate(self, *more: str) -> tuple[Cost, RunReport]:
        """Run the pipeline.

        Raises:
            SystemExit: It ran with other JIT compiler flags than the script.
        """
        command = [str(self.bin / "tidegate"), "run", "flights", *more]
        measured = cost.measure(command, self.environ, self.folder / "tidegate.log")
        newest = max(
            Path(PipelinePlace(self.layout, "flights").reports).glob("*/*/report.json"),
            key=lambda path: path.stat().st_mtime,
        )
        report = RunReport.read(Address.local(newest))
        assert report is not None
        if ("compilation: C1 only" in report.notes) != self.small:
            raise SystemExit("the two programs ran with different JVM flags")
        return measured, report

    def script(self) -> Cost:
        """Run the script, with spark-submit and the settings that Tidegate uses."""
        conf = submit_conf(self.environment, small=self.small) | SETTINGS
        settings = [part for name, value in conf.items() for part in ("--conf", f"{name}={value}")]
        application = [str(Path(__file__).with_name("increment_by_hand.py")), str(self.by_hand), str(self.landing)]
        command = [str(BIN / "spark-submit"), "--master", self.environment.master, *settings, *application]
        environ = {**self.environ, **submit_environment(self.environment)}
        return cost.measure(command, environ, self.folder / "by-hand.log")

    def estimated_seconds(self, *more: str) -> dict[str, float | None]:
        """The seconds that ``tidegate plan`` estimates for a run, by flow."""
        command = [str(self.bin / "tidegate"), "plan", "flights", *more, "--json"]
        output = subprocess.run(command, env=self.environ, capture_output=True, text=True, check=True).stdout
        return {flow["flow"]: flow["seconds"] for flow in json.loads(output)["flows"]}

    def batches(self) -> tuple[list[int], list[int]]:
        """The number of batches of each of the three flows, with Tidegate and by hand."""
        ours = [Place(self.layout, "flights", flow, 1, 0).checkpoint for flow in ("bronze", "silver", "gold")]
        theirs = [self.by_hand / "checkpoints" / flow for flow in ("bronze", "silver", "gold")]
        counts = [[len(list(Path(path / "commits").glob("[0-9]*"))) for path in side] for side in (ours, theirs)]
        return counts[0], counts[1]

    def compare(self) -> str:
        """Compare the tables of both lakes.

        Raises:
            SystemExit: They differ.
        """
        import duckdb
        from deltalake import DeltaTable

        results = []
        with duckdb.connect() as connection:
            for name, other in TABLES.items():
                theirs = DeltaTable(self.by_hand / other).to_pyarrow_table()
                ours = DeltaTable(self.layout.table(name)).to_pyarrow_table(columns=theirs.column_names)
                connection.register("theirs", theirs)
                if different := recompute.differences(connection, "theirs", theirs.column_names, ours):
                    raise SystemExit(f"{name}: {different:,} rows are in only one of the two tables")
                results.append(f"{name} has the same {ours.num_rows:,} rows")
        ours, theirs = (
            DeltaTable(path).to_pyarrow_table(columns=[]).num_rows if path.exists() else 0
            for path in (FlowPlace(self.layout, "flights", "silver").quarantine, self.by_hand / "quarantine")
        )
        if ours != theirs:
            raise SystemExit(f"{ours:,} records are in Tidegate's quarantine, {theirs:,} in the script's")
        return f"{', '.join(results)}, {ours:,} records in quarantine"


def increments(folder: Path, pairs: int, *, clean: bool) -> None:
    """Compare small increments, in pairs."""
    bench = Bench(folder, small=True)
    days = list(flights_feed.days())
    _land(bench, days[:WARM_DAYS])
    bench.tidegate()
    bench.script()
    measured = []
    for number in range(pairs):
        begin = WARM_DAYS + number * DAYS_AT_ONCE
        rows = _land(bench, days[begin : begin + DAYS_AT_ONCE], () if clean else BAD)
        print(f"pair {number + 1}, {rows:,} rows:")
        measured.append(_pair(bench, tidegate_first=number % 2 == 0))
    _summary(measured)
    print(f"at the end {bench.compare()}")


def against(folder: Path, pairs: int, checkout: Path) -> None:
    """Compare small increments with those of another checkout, in pairs."""
    sides = (
        Bench(folder, small=True),
        Bench(folder, small=True, project=checkout, checkout=checkout, lake="lake-of-other"),
    )
    days = list(flights_feed.days())
    _land(sides[0], days[:WARM_DAYS])
    for bench in sides:
        bench.tidegate()
    measured: list[tuple[Cost, Cost]] = []
    for number in range(pairs):
        begin = WARM_DAYS + number * DAYS_AT_ONCE
        rows = _land(sides[0], days[begin : begin + DAYS_AT_ONCE], BAD)
        print(f"pair {number + 1}, {rows:,} rows:")
        costs = {bench: bench.tidegate()[0] for bench in (sides if number % 2 == 0 else sides[::-1])}
        measured.append((costs[sides[0]], costs[sides[1]]))
        for name, each in zip(("this ", "other"), measured[-1], strict=True):
            print(f"  {name} {each.summary()}", flush=True)
    for what in ("processor", "wall", "jobs", "executions"):
        ratios = [getattr(this, what) / getattr(other, what) for this, other in measured]
        print(f"this checkout to the other, {what}: {_spread(ratios)}")


def load(folder: Path, pairs: int, copies: int) -> None:
    """Compare the first load of all files, each pair with new lakes."""
    measured = []
    for number in range(pairs):
        bench = Bench(folder / str(number), small=False)
        rows = _land(bench, list(flights_feed.days()), copies=copies)
        print(f"pair {number + 1}, the first load of {rows:,} rows:")
        measured.append(_pair(bench, tidegate_first=number % 2 == 0))
        ours, theirs, _ = measured[-1]
        for name, each in (("tidegate", ours), ("by hand ", theirs)):
            peaks = ", ".join(f"{role} {each.peaks.get(role, 0) / 1024**2:,.0f} MB" for role in ROLES[:3])
            print(f"  {name}: maximum resident memory: {peaks}; {rows / each.processor:,.0f} rows per processor second")
        print("  batches of bronze, silver and gold: {} with Tidegate, {} by hand".format(*bench.batches()))
        print(f"  at the end {bench.compare()}")
    _summary(measured)


def backfill(folder: Path, pairs: int) -> None:
    """Compare a backfill of one day with the increment of that day. The transform changes in between, so all rows change."""
    project = folder / "project"
    for part in ("pipelines", "spark_jobs", "expectations"):
        shutil.copytree(PROJECT / part, project / part, ignore=shutil.ignore_patterns("__pycache__"))
    for shared in ("jars", ".cache"):
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
        print(f"  increment {increment.summary()}")
        _exchange(project / "spark_jobs" / "flights.py")
        window = ("--mode", "backfill", "--from", str(day), "--to", str(day))
        estimates = bench.estimated_seconds(*window)
        backfilled, report = bench.tidegate(*window)
        print(f"  backfill    {backfilled.summary()}")
        for flow in report.flows:
            if flow.flow in estimates:
                estimate = estimates[flow.flow]
                batches = sum(batch.seconds for batch in flow.batches)
                print(
                    f"    {flow.flow}: plan estimated {estimate} s, its {len(flow.batches)} batches took {batches:.1f} s"
                )
        ratios.append((backfilled.processor / increment.processor, backfilled.wall / increment.wall))
    for what, each in zip(("processor", "wall"), zip(*ratios, strict=True), strict=True):
        print(f"backfill to increment, {what}: {_spread(each)}")


def _pair(bench: Bench, *, tidegate_first: bool) -> tuple[Cost, Cost, float]:
    """Measure both programs, and the processor seconds of the import of Great Expectations alone."""
    if tidegate_first:
        (ours, report), theirs = bench.tidegate(), bench.script()
    else:
        theirs, (ours, report) = bench.script(), bench.tidegate()
    extra = cost.import_of_great_expectations(bench.environ, bench.folder / "import.log")
    waited = ", ".join(f"{name} {report.parts.get(name, 0):.1f} s" for name in ("gx_import", "gx_wait"))
    print(f"  tidegate {ours.summary()}")
    print(f"  by hand  {theirs.summary()}")
    print(
        f"  the import of Great Expectations: processor {extra:.1f} s alone; wall time in the run: {waited}",
        flush=True,
    )
    return ours, theirs, extra


def _summary(measured: Sequence[tuple[Cost, Cost, float]]) -> None:
    """Print the ratios of Tidegate's costs to those of the script."""
    ratios_by_name = {
        "processor": [ours.processor / theirs.processor for ours, theirs, _ in measured],
        "processor without the import": [
            (ours.processor - extra) / theirs.processor for ours, theirs, extra in measured
        ],
        "wall": [ours.wall / theirs.wall for ours, theirs, _ in measured],
        "Spark jobs": [ours.jobs / theirs.jobs for ours, theirs, _ in measured],
        "SQL executions": [ours.executions / theirs.executions for ours, theirs, _ in measured],
    }
    for what, ratios in ratios_by_name.items():
        print(f"Tidegate to script, {what}: {_spread(ratios)}")


def _spread(ratios: Sequence[float]) -> str:
    return f"{statistics.median(ratios):.2f} (median of {len(ratios)}; {min(ratios):.2f} to {max(ratios):.2f})"


def _exchange(path: Path) -> None:
    """Replace one line of the transform by its other version."""
    text = path.read_text()
    old, new = LINES if LINES[0] in text else reversed(LINES)
    if text.count(old) != 1:
        raise SystemExit(f"{path.name} must contain {old} exactly once; adapt LINES in {Path(__file__).name}")
    path.write_text(text.replace(old, new))


def _land(bench: Bench, days: Sequence[date], bad: Sequence[Mapping[str, str]] = (), copies: int = 1) -> int:
    """Land a file for each day and copy; returns the number of records."""
    bench.landing.make_folder()
    count = 0
    for years in range(copies):
        for number, day in enumerate(days):
            records = [later(record, years) for record in flights_feed.days()[day]]
            if bad:
                _add_error(records, bad[number % len(bad)])
            path = bench.landing / flights_feed.name_of(day.replace(year=day.year + years))
            draft = Path(path).with_suffix(".tmp")
            with draft.open("w", encoding="utf-8", newline="") as file:
                writer = csv.DictWriter(file, flights_feed.FIELDS, lineterminator="\n")
                writer.writeheader()
                writer.writerows(records)
            draft.replace(path)
            count += len(records)
    return count


def later(record: Mapping[str, str], years: int) -> dict[str, str]:
    """A copy of a flight some years later, with another key."""
    if not years:
        return dict(record)
    moved = {
        name: f"{int(record[name][:4]) + years}{record[name][4:]}" for name in ("year", "time_hour", "published_on")
    }
    return {**record, **moved}


def _add_error(records: list[dict[str, str]], wrong: Mapping[str, str]) -> None:
    """Replace values of the first flight that arrived, so that it breaks a rule."""
    index = next(number for number, record in enumerate(records) if record["arr_delay"] != "NA")
    records[index] = {**records[index], **wrong}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, help="3 by default; 1 with --load, 2 with --backfill")
    parser.add_argument("--copies", type=int, default=6, help="number of copies of the flights of 2013 for --load")
    mode = parser.add_mutually_exclusive_group()
    for name in ("--clean", "--load", "--backfill"):
        mode.add_argument(name, action="store_true")
    mode.add_argument("--against", type=Path, metavar="CHECKOUT")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="increment-") as temporary:
        folder = Path(temporary)
        if arguments.load:
            load(folder, arguments.pairs or 1, arguments.copies)
        elif arguments.backfill:
            backfill(folder, arguments.pairs or 2)
        elif arguments.against:
            against(folder, arguments.pairs or 7, arguments.against.resolve())
        else:
            increments(folder, arguments.pairs or 3, clean=arguments.clean)


if __name__ == "__main__":
    main()
    exit_now(0)
