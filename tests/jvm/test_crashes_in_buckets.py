"""Tests of kills and crashes that are the same with a lake in a bucket, in a process of their own (`tests.lakes_in_buckets`)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.lakes_in_buckets import expect_passed_in_buckets
from tests.s3_server import S3Process
from tests.slices import of_week

pytestmark = [pytest.mark.jvm, pytest.mark.nightly, pytest.mark.chaos]

STEPS = "test_a_run_that_is_aborted_one_step_later_each_time_leaves_every_id_in_exactly_one_place"
BACKFILL = "test_an_interrupted_backfill_is_finished_once_and_each_row_is_in_one_place"
CRASHES = [
    "tests/spark/kinds/test_stateful.py::test_a_crash_at_any_step_changes_no_result",
    "tests/spark/kinds/test_joins.py::test_a_drained_flow_has_what_a_full_recomputation_gives",
    "tests/chaos/test_kill_around_state.py",
    f"tests/chaos/test_kill_at_every_step.py::{STEPS}",
    "tests/chaos/test_kill_a_replay.py",
    f"tests/spark/reprocessing/test_whole_backfills.py::{BACKFILL}",
]
"""Each is run in a week of its own, with the cases of that week."""


@pytest.mark.parametrize("tests", of_week(CRASHES, 1))
def test_they_pass_with_lakes_in_buckets(s3_server: S3Process, tests: str, tmp_path: Path) -> None:
    expect_passed_in_buckets([tests], tmp_path)
