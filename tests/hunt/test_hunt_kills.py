"""Generated histories of a whole pipeline of files, whose drivers are killed.

``HUNT_KILLS=60`` sets the number of kills. ``--lake=s3`` has the lake in a bucket: the files ``test_kills_in_buckets_*.py`` do so.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from tests.hunt.kills import Kills
from tests.hunt.test_hunt import seeds
from tests.slices import of_week

if TYPE_CHECKING:
    from tests.hunt.conftest import Begin

pytestmark = [pytest.mark.jvm, pytest.mark.gx, pytest.mark.chaos]

KILLS = int(os.environ.get("HUNT_KILLS", "12"))
STEPS = 4
"""Between two looks at the number of kills: most steps have one or two."""


@pytest.mark.nightly
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", seeds(*of_week(range(201, 206), 1)))
def test_the_judge_agrees_after_every_run_of_a_history_whose_drivers_are_killed(seed: int, begin: Begin) -> None:
    history = begin(seed, kills=Kills(share=0.9, in_a_row=2))
    while len(history.kills.done) < KILLS:
        history.go_on(STEPS)
    print(f"{len(history.kills.done)} kills:", *history.log, sep="\n")
