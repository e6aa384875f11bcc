"""Whole runs whose system calls on tables fail: an exit code that says why, and the next run ends right."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos.refused_jobs import driver, problems, refuse_one_of_each
from tests.refused_calls import Call
from tidegate.errors import EX_TEMPFAIL

pytestmark = [pytest.mark.jvm, pytest.mark.chaos]


@pytest.mark.nightly
def test_after_a_full_disk_and_a_lost_one_the_next_run_ends_right(tmp_path: Path) -> None:
    flows = ("bronze", "silver")
    with driver(tmp_path) as serving:
        for call, error in (
            (Call("write", "lake/tables/silver/acts/part-*"), "ENOSPC"),
            (Call("rename", "lake/_ops/acts/ledger/_delta_log/*.json"), "EIO"),
        ):
            refused = serving.run(call, error, flows)
            assert refused.refused and refused.code == EX_TEMPFAIL, refused.out
            assert not list(problems(serving, call, error, refused)), refused.out
        after = serving.run(flows=flows)
    assert (after.code, after.wrong) == (0, []), after.out


@pytest.mark.nightly
@pytest.mark.timeout(1800)
def test_a_call_on_any_file_of_a_table_may_fail(tmp_path: Path) -> None:
    with driver(tmp_path) as serving:
        refuse_one_of_each(
            serving,
            ("bronze", "silver", "gold"),
            lambda kind: kind.startswith(("lake/tables", "lake/_ops", "lake/quarantine", "lake/late")),
        )
