"""The tiers of the test suite: which one a test belongs to, in which order they run, and how long each took."""

from __future__ import annotations

import random
from collections import defaultdict
from typing import Any

import pytest

TIERS = ("programs", "airflow", "spark", "fast")
"""In the order in which they run with several workers: longest files first, so that no worker ends alone with one."""
MEANING = {
    "programs": "whole programs: a live Airflow, the demo, the guides, the command line with its Spark applications",
    "airflow": "Airflow's operators, DAGs and pages, without a scheduler",
    "spark": "Spark, Delta and Kafka in the test's own process",
    "fast": "neither a JVM nor Airflow's database",
}
_PROGRAMS = ("tests/live/", "tests/demo/", "tests/docs/", "tests/cli/")


def tier_of(nodeid: str, marks: Any) -> str:
    """The tier of a test.

    Args:
        nodeid: Its path and name.
        marks: The names of its markers, or anything that holds them.
    """
    if "jvm" not in marks and "airflow" not in marks:
        return "fast"
    if nodeid.startswith(_PROGRAMS) or "live" in marks:
        return "programs"
    return "airflow" if "airflow" in marks else "spark"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--deal``."""
    parser.addoption("--deal", type=int, metavar="SEED", help="deal the files out to the workers in another order")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """With several workers the order among files is free: by tier, or as ``--deal`` says."""
    if not hasattr(config, "workerinput"):
        return
    seed = config.getoption("deal")
    if seed is not None:
        files = sorted({item.nodeid.partition("::")[0] for item in items})
        random.Random(seed).shuffle(files)
        place = {file: number for number, file in enumerate(files)}
        items.sort(key=lambda item: place[item.nodeid.partition("::")[0]])
        return
    tiers: dict[str, int] = {}
    for item in items:
        file, tier = item.nodeid.partition("::")[0], TIERS.index(tier_of(item.nodeid, item.keywords))
        tiers[file] = min(tier, tiers.get(file, tier))
    items.sort(key=lambda item: tiers[item.nodeid.partition("::")[0]])


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print how many tests each tier has and how long they took, added up over all workers."""
    seconds: dict[str, float] = defaultdict(float)
    tests: dict[str, int] = defaultdict(int)
    for outcome in ("passed", "failed", "error", "skipped", ""):
        for report in terminalreporter.stats.get(outcome, []):
            if not hasattr(report, "duration"):
                continue
            tier = tier_of(report.nodeid, report.keywords)
            seconds[tier] += report.duration
            tests[tier] += report.when == "call"
    if not tests:
        return
    terminalreporter.section("tiers")
    for tier in TIERS:
        if tests[tier]:
            terminalreporter.write_line(f"{seconds[tier]:7.0f} s {tests[tier]:5} tests  {tier}: {MEANING[tier]}")
