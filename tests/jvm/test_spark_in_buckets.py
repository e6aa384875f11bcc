"""Two Spark applications and delta-rs commit to one table in a bucket, while the server answers as it should."""

from __future__ import annotations

import pytest

from tests.jvm.sparks import expect_each_commit_once
from tests.s3_server import S3Process
from tests.store.proxy import S3Proxy

pytestmark = [pytest.mark.jvm, pytest.mark.nightly]


@pytest.mark.timeout(1200)
def test_two_sparks_and_delta_rs_lose_no_commit_of_each_other(s3_server: S3Process) -> None:
    tries = expect_each_commit_once(s3_server, S3Proxy(s3_server.endpoint))
    contested = [agents for agents in tries.values() if sum("Hadoop" in agent for agent in agents) > 1]
    assert contested, "Sparks raced for a version"
