"""Data Docs: what a site shows, what it never holds, and that it does not grow dearer."""

from __future__ import annotations

import dataclasses
import json
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tidegate.report import Verdict
from tidegate.spark.gate import SuiteGate, load_suite, publish
from tidegate.spark.gate.docs import SHOWN

if TYPE_CHECKING:
    from great_expectations.core import ExpectationSuiteValidationResult
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.jvm

CANARY = "canary-4711"
EXPECTATIONS = [
    ("expect_column_values_to_not_be_null", {"column": "origin"}, "critical"),
    ("expect_column_values_to_match_regex", {"column": "tail", "regex": "^N"}, "warning"),
    ("expect_column_max_to_be_between", {"column": "weight", "max_value": 1}, "info"),
    ("expect_column_distinct_values_to_be_in_set", {"column": "tail", "value_set": ["A"]}, "info"),
    ("expect_table_row_count_to_be_between", {"min_value": 1}, "critical"),
    (
        "unexpected_rows_expectation",
        {"unexpected_rows_query": "SELECT * FROM {batch} WHERE tail NOT LIKE 'N%'"},
        "warning",
    ),
]


@pytest.fixture(scope="module")
def judged(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> tuple[ExpectationSuiteValidationResult, Verdict]:
    path = tmp_path_factory.mktemp("suite") / "silver.json"
    plain = [{"type": kind, "kwargs": kwargs, "severity": severity} for kind, kwargs, severity in EXPECTATIONS]
    path.write_text(json.dumps({"name": "flights/silver", "expectations": plain}))
    gate = SuiteGate(load_suite(path, "flights/silver"), "code")
    rows = [("JFK", "N1", 1), ("JFK", CANARY, 47114711), ("LGA", "N3", 2)]
    frame = spark.createDataFrame(rows, "origin string, tail string, weight int")
    verdict = gate.judge(gate.flag(frame), flow="silver", batch_id=7)
    assert verdict.outcome == "split"
    assert gate.last_result is not None
    return gate.last_result, verdict


def test_a_batch_gets_a_page_and_a_line_in_the_index(
    judged: tuple[ExpectationSuiteValidationResult, Verdict], tmp_path: Path
) -> None:
    results, verdict = judged
    index = publish(results, tmp_path / "flights", verdict=verdict, run_key="manual-1a2b3c4d")

    assert index == tmp_path / "flights" / "index.html"
    text = index.read_text()
    assert "match_regex(tail) (1 of 3 rows break it, mostly 1)" in text
    assert "2 of 6" in text
    (page,) = re.findall(r'href="(silver/[^"]+)"', text)
    assert (index.parent / page).is_file()
    body = (index.parent / page).read_text()
    assert "values must match this regular expression" in body
    for link in re.findall(r'href="(\.\.?/[^"#]+\.html)"', body):
        assert ((index.parent / page).parent / link).resolve() == index.resolve()


def test_no_file_of_a_site_holds_a_value_of_the_data(
    judged: tuple[ExpectationSuiteValidationResult, Verdict], tmp_path: Path
) -> None:
    results, verdict = judged
    site = publish(results, tmp_path / "flights", verdict=verdict, run_key="run").parent
    files = [path for path in site.rglob("*") if path.is_file()]
    assert {path.suffix for path in files} == {".html", ".jsonl"}
    for path in files:
        assert CANARY not in path.read_text(), path
        assert "47114711" not in path.read_text(), path


def test_pages_of_earlier_runs_stay_as_they_were_and_are_listed_newest_first(
    judged: tuple[ExpectationSuiteValidationResult, Verdict], tmp_path: Path
) -> None:
    results, verdict = judged
    site = tmp_path / "flights"
    publish(results, site, verdict=verdict, run_key="first")
    before = (site / "silver" / "first-batch-7.html").stat()
    publish(results, site, verdict=dataclasses.replace(verdict, outcome="refused", batch_id=8), run_key="second")
    publish(results, site, verdict=dataclasses.replace(verdict, flow="gold"), run_key="second")

    after = (site / "silver" / "first-batch-7.html").stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    pages = re.findall(r'href="([a-z]+/[^"]+)"', (site / "index.html").read_text())
    assert pages == ["gold/second-batch-7.html", "silver/second-batch-8.html", "silver/first-batch-7.html"]


def test_a_batch_that_is_judged_again_has_one_line_with_its_last_outcome(
    judged: tuple[ExpectationSuiteValidationResult, Verdict], tmp_path: Path
) -> None:
    results, verdict = judged
    publish(results, tmp_path, verdict=dataclasses.replace(verdict, outcome="refused"), run_key="run")
    index = publish(
        results, tmp_path, verdict=dataclasses.replace(verdict, outcome="passed"), run_key="run"
    ).read_text()
    assert index.count("batch-7.html") == 1
    assert '<span class="passed">' in index
    assert '<span class="refused">' not in index


def test_a_line_that_a_crash_cut_off_does_not_break_the_index(
    judged: tuple[ExpectationSuiteValidationResult, Verdict], tmp_path: Path
) -> None:
    results, verdict = judged
    publish(results, tmp_path, verdict=verdict, run_key="first")
    with (tmp_path / "history.jsonl").open("a") as history:
        history.write('{"at": "2013-01')
    publish(results, tmp_path, verdict=verdict, run_key="second")
    index = publish(results, tmp_path, verdict=verdict, run_key="third").read_text()
    assert "first-batch-7.html" in index
    assert "third-batch-7.html" in index


def test_a_site_with_a_long_history_costs_no_more(
    judged: tuple[ExpectationSuiteValidationResult, Verdict], tmp_path: Path
) -> None:
    results, verdict = judged
    publish(results, tmp_path, verdict=verdict, run_key="first")
    line = (tmp_path / "history.jsonl").read_text()
    with (tmp_path / "history.jsonl").open("a") as history:
        for number in range(20_000):
            history.write(line.replace("first-", f"old{number}-"))
    began = time.process_time()
    index = publish(results, tmp_path, verdict=verdict, run_key="last").read_text()
    assert time.process_time() - began < 2
    assert index.count("-batch-7.html") == SHOWN
    assert "last-batch-7.html" in index
