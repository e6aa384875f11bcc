"""Generated histories of a whole pipeline of files, with a fault in most runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.hunt.history import Faults
from tests.hunt.test_hunt import STEPS, seeds
from tests.slices import of_week

if TYPE_CHECKING:
    from tests.hunt.conftest import Begin

pytestmark = [pytest.mark.jvm, pytest.mark.gx, pytest.mark.chaos]


@pytest.mark.nightly
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", seeds(*of_week((2, 3), 1)))
def test_the_judge_agrees_after_every_run_of_a_history_of_files_with_8_faults(seed: int, begin: Begin) -> None:
    history = begin(seed, faults=Faults(share=0.8))
    while len(history.faults.struck) < 8:
        history.go_on(STEPS)
