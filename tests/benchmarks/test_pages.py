"""The benchmark of the pages asks of a lake whose flows can all be read."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.patience import PATIENCE

PROJECT = Path(__file__).parents[2]


@pytest.mark.airflow
@pytest.mark.nightly
def test_a_small_one_prints_its_times() -> None:
    command = [sys.executable, PROJECT / "benchmarks/pages.py", "--flows", "2", "--batches", "3", "--rounds", "2"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, cwd=PROJECT, check=False)
    assert done.returncode == 0, done.stderr
    assert "2 flows: the first overview" in done.stdout
    assert "overview, the next 2 while a job writes: median" in done.stdout
