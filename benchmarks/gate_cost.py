"""What a gate costs: the same flow with a suite of six expectations and without, in pairs that take turns.

``make benchmark-gate`` lands a file of a million orders once, then derives a silver table from them again and again:
one flow with a gate and its twin without, the order turning from pair to pair. Each has a table and a checkpoint of its
own, so each does the whole work. What is compared is the flow's own time, without the start of Spark and of Great
Expectations, and the processor time of Python and the JVM meanwhile, which other work on the machine does not stretch.
The first pair warms the JVM up and is not counted.

All rows are good unless ``--bad`` says otherwise: rows that break a rule are written to quarantine too, which the twin
without a gate does not do.
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

TRANSFORM = '''"""A transform as people write them: texts put right, a column more."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F


def clean(orders: DataFrame) -> DataFrame:
    """Countries in capitals, and what a piece costs."""
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
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="gate-cost-") as folder:
        _measure(Path(folder), asked.rows, asked.pairs, asked.bad)


def _measure(folder: Path, rows: int, pairs: int, bad: float) -> None:
    names = [(f"plain_{number}", f"gated_{number}") for number in range(pairs + 1)]
    _write_project(folder / "project", [name for pair in names for name in pair])
    _land(folder / "landing" / "orders", rows, bad)
    for name, place in (("PROJECT", "project"), ("LAKE", "lake"), ("LANDING", "landing")):
        os.environ[f"TIDEGATE_{name}"] = str(folder / place)
    sys.path.insert(0, str(folder / "project"))
    _run("landing")
    walls, processors = [], []
    for number, (plain, gated) in enumerate(names):
        order = (plain, gated) if number % 2 else (gated, plain)
        taken = {name: _run(name) for name in order}
        wall, processor = (taken[gated][part] / taken[plain][part] for part in (0, 1))
        counted = "" if number else "  (warms up, not counted)"
        print(
            f"pair {number}: without {taken[plain][0]:6.2f} s (processor {taken[plain][1]:6.2f} s), "
            f"with {taken[gated][0]:6.2f} s ({taken[gated][1]:6.2f} s): ratio {wall:.3f} ({processor:.3f}){counted}",
            flush=True,
        )
        if number:
            walls.append(wall)
            processors.append(processor)
    print(f"{rows:,} rows, {bad:.1%} of them bad, {len(EXPECTATIONS)} expectations, {pairs} pairs:")
    for what, ratios in (("time", walls), ("processor time", processors)):
        print(f"  {what}: ratio {statistics.median(ratios):.3f} (median; {min(ratios):.3f} to {max(ratios):.3f})")


def _run(name: str) -> tuple[float, float]:
    """One run; the seconds of its flow, and of processor time."""
    from tidegate import registry
    from tidegate.environment import Environment
    from tidegate.request import RunRequest, fresh_id
    from tidegate.spark.job import run_job

    request = RunRequest.check(registry.load(name), fresh_id("benchmark"), {"flows": []})
    before = _processor_seconds()
    report = run_job(Environment.read(), request, fresh_id("a"))
    (flow,) = report.flows
    if flow.state != "done":
        raise SystemExit(f"{name}: {flow.state}: {flow.error}")
    return flow.seconds, _processor_seconds() - before


def _processor_seconds() -> float:
    """Of this process and its JVM."""
    import psutil

    own = psutil.Process()
    times = [process.cpu_times() for process in (own, *own.children(recursive=True))]
    return sum(time.user + time.system for time in times)


def _write_project(project: Path, names: list[str]) -> None:
    for package in ("pipelines", "spark_jobs", "expectations/orders"):
        (project / package).mkdir(parents=True)
        (project / package / "__init__.py").touch()
    for shared in ("jars", "jars.lock.json", ".cache"):
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
    """Orders, a share of which breaks a rule."""
    chance = random.Random(2013)
    folder.mkdir(parents=True)
    with (folder / "orders.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["order_id", "customer", "country", "kind", "amount", "pieces", "ordered_at", "updated_at"])
        for number in range(rows):
            bad = chance.random() < share
            day = f"2026-01-{1 + number % 28:02d}"
            writer.writerow(
                [
                    f"o{number:08d}",
                    "" if bad and number % 2 else f"c{chance.randrange(50_000)}",
                    chance.choice(COUNTRIES).lower(),
                    chance.choice(["shop", "phone", "web"]),
                    -1 if bad else round(chance.random() * 900, 2),
                    chance.randrange(1, 9),
                    f"{day} 10:00:00",
                    f"{day} 11:00:00",
                ]
            )


if __name__ == "__main__":
    main()
