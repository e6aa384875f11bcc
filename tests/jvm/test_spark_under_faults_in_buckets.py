"""Two Spark applications and delta-rs commit to one table in a bucket, under faults of the server."""

from __future__ import annotations

import re

import pytest

from tests.jvm import writers
from tests.jvm.sparks import APPENDS, SPARKS, expect_each_commit_once
from tests.jvm.writers import fail_in_turn
from tests.s3_server import S3Process
from tests.store.proxy import S3Proxy

pytestmark = [pytest.mark.jvm, pytest.mark.nightly]


@pytest.mark.timeout(1200)
def test_two_sparks_and_delta_rs_lose_no_commit_of_each_other_under_faults_of_the_server(s3_server: S3Process) -> None:
    proxy = S3Proxy(s3_server.endpoint)
    # Version 0 is the empty table; the others are more than those of Spark.
    faulty = [rf"_delta_log/{version:020}\.json$" for version in range(1, len(SPARKS) * APPENDS, 3)]
    faults = fail_in_turn(proxy, faulty)
    tries = expect_each_commit_once(s3_server, proxy)
    assert all(fault.fired for fault in faults)
    first = [agents[0] for path, agents in tries.items() if any(re.search(fault, path) for fault in faulty)]
    assert sum("Hadoop" in agent for agent in first) > len(writers.FAULTS), "Spark met the faults"
