"""The cost of a gate: the same flow with a suite of six expectations and without a gate, in alternating pairs.

``make benchmark-gate`` lands a file of a million orders once, then derives a silver table from it several times: with one
flow that has a gate and with one that has none, in alternating order. Each has its own table and checkpoint, so each does
the whole work. The benchmark compares the flow's own time, without the start of Spark and Great Expectations, and the
processor time of Python and the JVM, which other work on the machine affects less. The first pair warms the JVM up and is
not counted.

By default all rows are valid. With ``--bad``, the flow with a gate also writes rows to quarantine, which the other does not.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import random
import statistics
import sys
import tempfile
from pathlib import Path
from string import Template

PROJECT = Path(__file__).parents[1]

LANDING = '''"""Orders as they arrive."""

from tidegate.spec import FileSource, Flow, Pipeline, Table

SCHEMA = """
order_id STRING NOT NULL, customer STRING, country STRING, kind STRING, amount DOUBLE, pieces INT,
ordered_at TIMESTAMP, updated_at TIMESTAMP
"""

pipeline = Pipeline(
    name="landing",
    flows=(
        Flow(name="bronze", source=FileSource(path="orders", format="csv", schema=SCHEMA), target=Table("bronze.orders")),
    ),
)
'''

SILVER = Template('''"""The flow under test."""

from tidegate.spec import ChangeFeed, Flow, Gate, Pipeline, Table

pipeline = Pipeline(
    name="$name",
    flows=(
        Flow(
            name="silver",
            source=ChangeFeed("bronze.orders"),
            transform="orders:clean",
            target=Table("silver.$name", keys=("order_id",), sequence_by=("updated_at",)),
            gate=$gate,
        ),
    ),
)
''')

TRANSFORM = '''"""A typical transform: cleaned texts and an additional column."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F


def clean(orders: DataFrame) -> DataFrame:
    """Country codes in capitals, and the price of a piece."""
    return orders.withColumns({"country": F.upper(F.trim("country")), "each": F.col("amount") / F.col("pieces")})
'''

COUNTRIES = ["AT", "CH", "DE", "FR", "IT", "NL"]

EXPECTATIONS = [
    ("expect_column_values_to_not_be_null", {"column": "customer", "mostly": 0.9}, "critical"),
    ("expect_column_values_to_be_in_set", {"column": "country", "value_set": COUNTRIES}, "warning"),
    ("expect_column_values_to_be_between", {"column": "amount", "min_value": 0, "max_value": 10_000}, "warning"),
    ("expect_column_values_to_match_regex", {"column": "order_id", "regex": "^o[0-9]{8}$"}, "warning"),
    ("expect_column_value_lengths_to_be_between", {"column": "kind", "min_value": 2, "max_value": 8}, "warning"),
    ("expect_table_row_count_to_be_between", {"min_value": 1}, "critical"),
]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--bad", type=float, default=0.0, help="share of rows that break a rule")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="gate-cost-") as folder:
        _measure(Path(folder), arguments.rows, arguments.pairs, arguments.bad)


def _measure(folder: Path, rows: int, pairs: int, bad: float) -> None:
    names = [(f"plain_{number}", f"gated_{number}") for number in range(pairs + 1)]
    _write_project(folder / "project", [name for pair in names for name in pair])
    _land(folder / "landing" / "orders", rows, bad)
    for name, subfolder in (("PROJECT", "project"), ("LAKE", "lake"), ("LANDING", "landing")):
        os.environ[f"TIDEGATE_{name}"] = str(folder / subfolder)
    sys.path.insert(0, str(folder / "project"))
    _run("landing")
    walls, processors = [], []
    for number, (plain, gated) in enumerate(names):
        order = (plain, gated) if number % 2 else (gated, plain)
        seconds = {name: _run(name) for name in order}
        wall, processor = (seconds[gated][part] / seconds[plain][part] for part in (0, 1))
        counted = "" if number else "  (warm-up, not counted)"
        print(
            f"pair {number}: without {seconds[plain][0]:6.2f} s (processor {seconds[plain][1]:6.2f} s), "
            f"with {seconds[gated][0]:6.2f} s ({seconds[gated][1]:6.2f} s): ratio {wall:.3f} ({processor:.3f}){counted}",
            flush=True,
        )
        if number:
            walls.append(wall)
            processors.append(processor)
    print(f"{rows:,} rows, {bad:.1%} of them bad, {len(EXPECTATIONS)} expectations, {pairs} pairs:")
    for what, ratios in (("time", walls), ("processor time", processors)):
        print(f"  {what}: ratio {statistics.median(ratios):.3f} (median; {min(ratios):.3f} to {max(ratios):.3f})")


def _run(name: str) -> tuple[float, float]:
    """Run a pipeline; returns the seconds of its flow and the processor seconds."""
    from tidegate.environment import Environment
    from tidegate.project import registry
    from tidegate.requests.request import RunRequest, fresh_id
    from tidegate.spark.application import run_application

    request = RunRequest.check(registry.load(name), fresh_id("benchmark"), {"flows": []})
    before = _processor_seconds()
    report = run_application(Environment.read(), request, fresh_id("a"))
    (flow,) = report.flows
    if flow.state != "done":
        raise SystemExit(f"{name}: {flow.state}: {flow.error}")
    return flow.seconds, _processor_seconds() - before


def _processor_seconds() -> float:
    """Processor seconds of this process and its JVM."""
    import psutil

    own = psutil.Process()
    times = [process.cpu_times() for process in (own, *own.children(recursive=True))]
    return sum(time.user + time.system for time in times)


def _write_project(project: Path, names: list[str]) -> None:
    for package in ("pipelines", "spark_jobs", "expectations/orders"):
        (project / package).mkdir(parents=True)
        (project / package / "__init__.py").touch()
    for shared in ("jars", ".cache"):
        (project / shared).symlink_to(PROJECT / shared)
    (project / "spark_jobs" / "orders.py").write_text(TRANSFORM)
    (project / "pipelines" / "landing.py").write_text(LANDING)
    for name in names:
        gate = 'Gate("orders/silver")' if name.startswith("gated") else "None"
        (project / "pipelines" / f"{name}.py").write_text(SILVER.substitute(name=name, gate=gate))
    plain = [{"type": kind, "kwargs": kwargs, "severity": severity} for kind, kwargs, severity in EXPECTATIONS]
    suite = {"name": "orders/silver", "expectations": plain}
    (project / "expectations" / "orders" / "silver.json").write_text(json.dumps(suite))


def _land(folder: Path, rows: int, share: float) -> None:
    """Land a file of orders, a share of which breaks a rule."""
    rng = random.Random(2013)
    folder.mkdir(parents=True)
    with (folder / "orders.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["order_id", "customer", "country", "kind", "amount", "pieces", "ordered_at", "updated_at"])
        for number in range(rows):
            bad = rng.random() < share
            day = f"2026-01-{1 + number % 28:02d}"
            writer.writerow(
                [
                    f"o{number:08d}",
                    "" if bad and number % 2 else f"c{rng.randrange(50_000)}",
                    rng.choice(COUNTRIES).lower(),
                    rng.choice(["shop", "phone", "web"]),
                    -1 if bad else round(rng.random() * 900, 2),
                    rng.randrange(1, 9),
                    f"{day} 10:00:00",
                    f"{day} 11:00:00",
                ]
            )


if __name__ == "__main__":
    main()
