"""Generated histories of payments, whose flows have state, with the lake in a bucket."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.lakes_in_buckets import expect_passed_in_buckets
from tests.s3_server import S3Process

pytestmark = [pytest.mark.jvm, pytest.mark.gx, pytest.mark.kafka, pytest.mark.chaos, pytest.mark.nightly]

HISTORIES = "tests/pipelines/test_payments.py::test_fifty_of_a_thousand_histories_equal_one_computation_over_all_rows"


@pytest.mark.timeout(3600)
def test_fifty_histories_equal_one_computation_with_a_lake_in_a_bucket(s3_server: S3Process, tmp_path: Path) -> None:
    expect_passed_in_buckets([HISTORIES], tmp_path)
