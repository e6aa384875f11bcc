"""A generated history of a topic with faults and aborts, with the lake in a bucket."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.hunt.buckets import STEPS
from tests.lakes_in_buckets import expect_passed_in_buckets
from tests.s3_server import S3Process

pytestmark = [pytest.mark.jvm, pytest.mark.gx, pytest.mark.kafka, pytest.mark.chaos, pytest.mark.nightly]

HISTORY = "tests/hunt/test_hunt.py::test_the_judge_agrees_after_every_run_of_a_history_of_a_topic_with_5_faults"


@pytest.mark.timeout(3600)
def test_the_judge_agrees_with_a_lake_in_a_bucket_after_every_run(s3_server: S3Process, tmp_path: Path) -> None:
    expect_passed_in_buckets([HISTORY], tmp_path, HUNT_STEPS=str(STEPS))
