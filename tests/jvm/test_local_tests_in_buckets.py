"""Tests of kills, crashes and faults that are the same with a lake in a bucket, in a process of their own (`tests.lakes_in_buckets`)."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.s3_server import S3Process
from tests.slices import of_week

pytestmark = [pytest.mark.jvm, pytest.mark.nightly, pytest.mark.chaos]

PROJECT = Path(__file__).parents[2]
FAULTS = "tests/jvm/faults_of_spark.py"
STEPS = "test_a_run_that_is_aborted_one_step_later_each_time_leaves_every_id_in_exactly_one_place"
STORING = (
    "test_a_rerun_makes_the_state_of_a_killed_batch_and_decides_as_the_stream_would[storing:evaluate_batch-0-left0]"
)
CRASHES = [
    "tests/spark/kinds/test_stateful.py::test_a_crash_at_any_step_changes_no_result",
    "tests/spark/kinds/test_joins.py::test_a_drained_flow_has_what_a_full_recomputation_gives",
    f"tests/chaos/test_kill_around_state.py::{STORING}",
    f"tests/chaos/test_kill_at_every_step.py::{STEPS}",
]
"""Each is run in a week of its own, with the cases of that week."""


@pytest.mark.parametrize("tests", [(FAULTS, crashes) for crashes in of_week(CRASHES, 1)])
def test_they_pass_with_lakes_in_buckets(s3_server: S3Process, tests: Sequence[str], tmp_path: Path) -> None:
    options = ["-q", "-n", "0", "--lake=s3", f"--basetemp={tmp_path / 'own'}"]
    command = [sys.executable, "-m", "pytest", *options, *tests]
    result = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout[-6000:] + result.stderr[-2000:]
    assert " passed" in result.stdout and " skipped" not in result.stdout, result.stdout[-1000:]
