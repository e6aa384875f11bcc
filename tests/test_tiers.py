"""Every test belongs to one tier, and the summary has the time of each tier."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tiers import MEANING, TIERS, tier_of

PROJECT = Path(__file__).parents[1]


@pytest.mark.parametrize(
    ("nodeid", "marks", "tier"),
    [
        ("tests/spec/test_flow.py::test_a", set(), "fast"),
        ("tests/docs/test_docs.py::test_a", set(), "fast"),
        ("tests/spark/test_dispositions.py::test_a", {"jvm"}, "spark"),
        ("tests/store/test_objects.py::test_a", {"s3"}, "buckets"),
        ("tests/cli/test_status.py::test_a", {"slow"}, "slow"),
        ("tests/cli/test_run.py::test_a", {"slow", "jvm"}, "programs"),
        ("tests/airflow/test_dag.py::test_a", {"airflow"}, "airflow"),
        ("tests/live/test_console.py::test_a", {"live", "airflow", "jvm"}, "programs"),
        ("tests/docs/test_guides.py::test_a", {"jvm"}, "guides"),
        ("tests/spark/gate/test_suite.py::test_a", {"gx"}, "spark"),
        ("tests/cli/test_expectations.py::test_a", {"gx"}, "programs"),
        ("tests/pages/test_in_browser.py::test_a", {"browser"}, "programs"),
        ("tests/airflow/pages/test_browser.py::test_a", {"airflow", "browser"}, "airflow"),
    ],
)
def test_marks_and_folder_decide_the_tier_of_a_test(nodeid: str, marks: set[str], tier: str) -> None:
    assert tier_of(nodeid, marks) == tier


def test_every_tier_has_a_description() -> None:
    assert set(MEANING) == set(TIERS)


@pytest.mark.slow
def test_a_run_prints_the_time_of_each_tier(tmp_path: Path) -> None:
    for name in ("__init__", "tiers"):
        (tmp_path / "tests").mkdir(exist_ok=True)
        (tmp_path / "tests" / f"{name}.py").write_text((PROJECT / "tests" / f"{name}.py").read_text())
    (tmp_path / "tests" / "conftest.py").write_text("from tests.tiers import *\n")
    (tmp_path / "tests" / "test_sums.py").write_text(
        "import pytest\n\ndef test_one(): pass\n\n@pytest.mark.jvm\ndef test_two(): pass\n"
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests"]
    environment = os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    run = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    assert f"0 s     1 tests  fast: {MEANING['fast']}" in run.stdout
    assert f"0 s     1 tests  spark: {MEANING['spark']}" in run.stdout
