"""Generated histories of a whole pipeline, whose drivers are killed: one week with the lake in a bucket, one week in a folder.

``HUNT_KILLS=60`` sets the number of kills; ``--lake=s3`` has all of them in buckets.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.hunt.kills import Kills
from tests.hunt.test_hunt import STEPS, seeds
from tests.lakes_in_buckets import expect_passed_in_buckets
from tests.slices import of_week

if TYPE_CHECKING:
    from tests.hunt.conftest import Begin

pytestmark = [pytest.mark.jvm, pytest.mark.gx, pytest.mark.chaos]

KILLS = int(os.environ.get("HUNT_KILLS", "3"))


@pytest.mark.nightly
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("lake", of_week(("s3", "folder"), 1))
@pytest.mark.parametrize("seed", seeds(*of_week(range(201, 206), 1)))
def test_the_judge_agrees_after_every_run_of_a_history_with_3_real_kills(
    seed: int, lake: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    if lake != request.config.getoption("lake") == "folder":
        request.getfixturevalue("s3_server")
        expect_passed_in_buckets([__file__], tmp_path)
        return
    begin: Begin = request.getfixturevalue("begin")
    history = begin(seed, kills=Kills(share=0.9))
    while len(history.kills.done) < KILLS:
        history.go_on(STEPS)
