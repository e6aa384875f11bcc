"""Tests of faults of the server and of stored state, for lakes in buckets alone, in a process of their own (`tests.lakes_in_buckets`)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.lakes_in_buckets import expect_passed_in_buckets
from tests.s3_server import S3Process

pytestmark = [pytest.mark.jvm, pytest.mark.nightly, pytest.mark.chaos]

FAULTS = "tests/jvm/faults_of_spark.py"
STATE = "tests/jvm/state_of_spark.py"


def test_they_pass_with_lakes_in_buckets(s3_server: S3Process, tmp_path: Path) -> None:
    expect_passed_in_buckets([FAULTS, STATE], tmp_path)
