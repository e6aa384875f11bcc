"""The benchmark of the pages runs with a small lake."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.waiting import TIMEOUT_SECONDS

PROJECT = Path(__file__).parents[2]


@pytest.mark.airflow
@pytest.mark.nightly
def test_the_benchmark_prints_its_times() -> None:
    command = [sys.executable, str(PROJECT / "benchmarks/pages.py"), "--flows", "2", "--batches", "3", "--rounds", "2"]
    process = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, cwd=PROJECT, check=False)
    assert process.returncode == 0, process.stderr
    assert "2 flows, the first answers: overview" in process.stdout
    assert "overview, the next 2 while a job writes: median" in process.stdout
