"""The benchmark of increments measures all processes, and compares programs with the same rules."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import cost, increment
from demo import flights_feed
from pipelines import flights
from tests.waiting import TIMEOUT_SECONDS

pytestmark = pytest.mark.slow

PROJECT = Path(__file__).parents[2]
BURN = "import os; [None for _ in iter(lambda: sum(os.times()[:2]) < 0.5, False)]"
"""Python code that ends after half a second of processor time."""
LEAVES_CHILD = f"""
import subprocess, sys
subprocess.Popen([sys.executable, "-c", {BURN!r}])
"""
"""Python code that ends at once and leaves a child process behind."""
MEASURE = f"""
import os, sys
from pathlib import Path
from benchmarks import cost
print(cost.measure([sys.executable, "-c", {LEAVES_CHILD!r}], dict(os.environ), Path(os.devnull)).processor)
"""


def test_processes_that_outlive_their_parent_are_measured() -> None:
    # In a child process, because the measuring process becomes the subreaper of all its descendants.
    command = [sys.executable, "-c", MEASURE]
    environ = {**os.environ, "PYTHONPATH": str(PROJECT)}
    process = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, env=environ, check=False)
    assert process.returncode == 0, process.stderr
    assert float(process.stdout) >= 0.5


def test_the_events_of_all_event_logs_are_counted(tmp_path: Path) -> None:
    for name in ("local-1", "local-2"):
        events = ["SparkListenerJobStart", "SparkListenerJobEnd", "SparkListenerJobStart"]
        (tmp_path / name).write_text("".join(json.dumps({"Event": event}) + "\n" for event in events))
    assert cost.count_events(tmp_path) == {"SparkListenerJobStart": 4, "SparkListenerJobEnd": 2}


def test_a_copy_of_a_flight_in_a_later_year_has_another_key() -> None:
    evening = flights_feed.days()[max(flights_feed.days())]
    last = next(record for record in evening if record["time_hour"].startswith("2014"))
    moved = increment.later(last, 2)
    assert (last["year"], last["time_hour"][:4], last["published_on"]) == ("2013", "2014", "2014-01-01T11:00:00Z")
    assert (moved["year"], moved["time_hour"][:4], moved["published_on"]) == ("2015", "2016", "2016-01-01T11:00:00Z")
    assert {name for name in last if last[name] != moved[name]} == {"year", "time_hour", "published_on"}


def test_the_transform_contains_the_line_that_a_backfill_changes() -> None:
    assert (PROJECT / "spark_jobs/flights.py").read_text().count(increment.LINES[0]) == 1


def test_the_script_has_the_schema_and_the_rules_of_the_pipeline() -> None:
    # Parsed instead of imported: the import of PySpark takes a second.
    tree = ast.parse((PROJECT / "benchmarks/increment_by_hand.py").read_text())
    constants = {
        node.targets[0].id: ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
    }
    assert constants["SCHEMA"] == flights.SCHEMA
    suite = json.loads((PROJECT / "expectations/flights/silver.json").read_text())
    refusing = [each for each in suite["expectations"] if each["severity"] != "info"]
    columns = [name.partition("(")[2].removesuffix(")") for name in constants["CHECKS"]]
    assert columns == [each["kwargs"]["column"] for each in refusing]
    for each, rule in zip(refusing, constants["CHECKS"].values(), strict=True):
        limits = [each["kwargs"].get(name) for name in ("min_value", "max_value", "value")]
        assert all(f"{limit:g}" in rule for limit in limits if limit is not None), rule
