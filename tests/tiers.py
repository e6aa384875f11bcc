"""The tiers of the test suite: which tier a test belongs to, the order in which they run, and their duration."""

from __future__ import annotations

import gc
import random
from collections import defaultdict
from typing import Any

import pytest

TIERS = ("programs", "airflow", "spark", "guides", "buckets", "slow", "fast")
"""The order with several workers: the longest files first, so that no worker is left with a long one at the end.

The guides run in JVMs that the tests before them have warmed up: a run of three flows takes a third of the time there.
"""
MEANING = {
    "programs": "whole programs: a live Airflow, the demo, the command line with its Spark applications, a browser",
    "airflow": "Airflow's operators, DAGs and pages, without a scheduler",
    "spark": "Spark, Delta, Kafka and Great Expectations in the test's own process",
    "guides": "the commands of the guides, in the JVM of the tests before them",
    "buckets": "a real S3 server, without Spark",
    "slow": "the command line, Delta tables without Spark, pages, waits, all source files",
    "fast": "no JVM, no Airflow, no Great Expectations, no browser",
}
LONG_SECONDS = 1
"""A fast test takes a tenth of a second. This is named, not refused: a busy machine delays any test."""
GUIDES = "tests/docs/test_guides.py"
OTHER_GUIDES = (
    "change-data-capture",
    "complete-intervals",
    "schema-changes",
    "sql",
    "stateful",
    "windows-and-sessions",
)
"""Guides that another worker runs than the rest of `GUIDES`: those that do not begin with the commands that the others have in common."""
_PROGRAMS = ("tests/live/", "tests/demo/", "tests/docs/", "tests/cli/")


def tier_of(nodeid: str, marks: Any) -> str:
    """The tier of a test.

    Args:
        nodeid: Path and name of the test.
        marks: A container with the names of its markers.
    """
    if not any(mark in marks for mark in ("jvm", "airflow", "gx", "browser")):
        return "buckets" if "s3" in marks else "slow" if "slow" in marks else "fast"
    if nodeid.startswith(GUIDES):
        return "guides"
    if nodeid.startswith(_PROGRAMS) or "live" in marks:
        return "programs"
    if "airflow" in marks:
        return "airflow"
    return "programs" if "browser" in marks else "spark"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options ``--deal`` and ``--lake``."""
    parser.addoption("--deal", type=int, metavar="SEED", help="distribute the files to the workers in a random order")
    parser.addoption(
        "--lake",
        choices=("folder", "s3"),
        default="folder",
        help="where the lakes of deployments are: in their folders, or in buckets of a server (tests/lakes_in_buckets.py)",
    )


def pytest_sessionstart(session: pytest.Session) -> None:
    """Collect no garbage while tests are collected: almost all that this makes lives until the end."""
    if hasattr(session.config, "workerinput") or not session.config.getoption("numprocesses", None):
        gc.disable()


def pytest_collection_finish() -> None:
    """Leave the collected tests out of all later garbage collections, which took an eighth of the time of the fast tests."""
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the tests with an S3 server. With several workers, sort the files by tier, or randomly with ``--deal``."""
    for item in items:
        if isinstance(item, pytest.Function) and "s3_server" in item.fixturenames:
            item.add_marker("s3")
    if not hasattr(config, "workerinput"):
        return
    seed = config.getoption("deal")
    if seed is not None:
        files = sorted({item.nodeid.partition("::")[0] for item in items})
        random.Random(seed).shuffle(files)
        order = {file: number for number, file in enumerate(files)}
        items.sort(key=lambda item: order[item.nodeid.partition("::")[0]])
        return
    tiers: dict[str, int] = {}
    for item in items:
        file, tier = item.nodeid.partition("::")[0], TIERS.index(tier_of(item.nodeid, item.keywords))
        tiers[file] = min(tier, tiers.get(file, tier))
    # The fast files in reverse order: the short files of tests/alerting are last, not the long ones of tests/trace.
    numbers = {file: number for number, file in enumerate(tiers)}
    fast = TIERS.index("fast")

    def order_of(item: pytest.Item) -> tuple[int, int]:
        file = item.nodeid.partition("::")[0]
        return tiers[file], -numbers[file] if tiers[file] == fast else 0

    items.sort(key=order_of)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print the number of tests of each tier and their duration, summed over all workers, and fast tests that are not fast."""
    seconds: dict[str, float] = defaultdict(float)
    tests: dict[str, int] = defaultdict(int)
    long: list[tuple[float, str]] = []
    for outcome in ("passed", "failed", "error", "skipped", ""):
        for report in terminalreporter.stats.get(outcome, []):
            if not hasattr(report, "duration"):
                continue
            tier = tier_of(report.nodeid, report.keywords)
            seconds[tier] += report.duration
            tests[tier] += report.when == "call"
            if tier == "fast" and report.when == "call" and report.duration > LONG_SECONDS:
                long.append((report.duration, report.nodeid))
    if not tests:
        return
    terminalreporter.section("tiers")
    for tier in TIERS:
        if tests[tier]:
            terminalreporter.write_line(f"{seconds[tier]:7.0f} s {tests[tier]:5} tests  {tier}: {MEANING[tier]}")
    for duration, nodeid in sorted(long, reverse=True):
        terminalreporter.write_line(f"{duration:7.1f} s  mark it slow, if it always takes so long: {nodeid}")
