"""Drivers of histories of files in JSON are killed with the lake in a bucket: a quarter of 60 kills, which is short enough for a slice."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.hunt.buckets import expect_agreement_after_kills
from tests.s3_server import S3Process

pytestmark = [pytest.mark.jvm, pytest.mark.gx, pytest.mark.chaos, pytest.mark.nightly]


@pytest.mark.timeout(3600)
def test_the_judge_agrees_after_every_run_of_a_history_whose_drivers_are_killed_15_times(
    s3_server: S3Process, tmp_path: Path
) -> None:
    expect_agreement_after_kills("json", tmp_path)
