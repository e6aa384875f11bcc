"""Whole runs whose system calls on other files fail (landed, leases, reports, Spark's own): a reason, and the next run ends right."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos.refused_jobs import driver, refuse_one_of_each

pytestmark = [pytest.mark.jvm, pytest.mark.chaos]


@pytest.mark.nightly
@pytest.mark.timeout(1800)
def test_a_call_on_any_other_file_may_fail(tmp_path: Path) -> None:
    with driver(tmp_path) as serving:
        refuse_one_of_each(
            serving,
            ("bronze", "rows", "firsts"),
            lambda kind: (
                not kind.startswith(
                    ("lake/tables", "lake/_ops", "lake/quarantine", "lake/late", "lake/checkpoints", "lake/heartbeats")
                )
            ),
            increments=3,
        )
