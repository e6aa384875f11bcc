"""Generated histories of a whole pipeline, whose drivers are killed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.hunt.kills import Kills
from tests.hunt.test_hunt import STEPS, seeds
from tests.slices import of_week

if TYPE_CHECKING:
    from tests.hunt.conftest import Begin

pytestmark = [pytest.mark.jvm, pytest.mark.gx, pytest.mark.chaos]


@pytest.mark.nightly
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", seeds(*of_week(range(201, 206), 1)))
def test_the_judge_agrees_after_every_run_of_a_history_with_3_real_kills(seed: int, begin: Begin) -> None:
    history = begin(seed, kills=Kills(share=0.9))
    while len(history.kills.done) < 3:
        history.go_on(STEPS)
