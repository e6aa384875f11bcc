"""Whole runs whose system calls on checkpoints and state fail: an exit code that says why, and the next run ends right."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos.refused_jobs import driver, refuse_one_of_each

pytestmark = [pytest.mark.jvm, pytest.mark.chaos]


@pytest.mark.nightly
@pytest.mark.timeout(1800)
def test_a_call_on_any_file_of_a_checkpoint_may_fail(tmp_path: Path) -> None:
    with driver(tmp_path) as serving:
        refuse_one_of_each(
            serving, ("bronze", "rows", "firsts"), lambda kind: kind.startswith(("lake/checkpoints", "lake/heartbeats"))
        )
