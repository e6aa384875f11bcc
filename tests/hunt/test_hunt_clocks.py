"""Generated histories of a whole pipeline, under a clock that is set forth and back by minutes and days at any step."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.hunt import clocks
from tests.hunt.history import Faults
from tests.hunt.test_hunt import STEPS, seeds
from tests.slices import of_week

if TYPE_CHECKING:
    from tests.hunt.conftest import Begin

pytestmark = [pytest.mark.jvm, pytest.mark.gx, pytest.mark.chaos]


@pytest.mark.nightly
@pytest.mark.timeout(3600)
@pytest.mark.skipif(clocks.COMPILER is None, reason="a clock that is set needs a C compiler")
@pytest.mark.parametrize("seed", seeds(*of_week((301, 302, 303), 1)))
def test_the_judge_agrees_whatever_the_clocks_say(seed: int, tmp_path: Path) -> None:
    test = f"{__file__}::{test_a_history_with_5_strikes_under_a_clock_that_is_set.__name__}"
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", test]
    variables = {**clocks.environment(tmp_path), "HUNT_SEEDS": str(seed)}

    run = subprocess.run(
        command,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parents[2],
    )

    assert run.returncode == 0, run.stdout[-5000:]
    assert " 1 passed" in run.stdout or "\n1 passed" in run.stdout, run.stdout[-5000:]


@pytest.mark.timeout(3600)
@pytest.mark.skipif(clocks.Clock.of_process() is None, reason="only in the process of the test above")
@pytest.mark.parametrize("seed", seeds(0))
def test_a_history_with_5_strikes_under_a_clock_that_is_set(seed: int, begin: Begin) -> None:
    history = begin(seed, faults=Faults(share=0.6))
    assert history.clock is not None
    history.clock.set(90 * clocks.DAY)
    shifted = Path(history.clock.path).stat().st_mtime + 80 * clocks.DAY
    assert time.time() > shifted, "the library shifts the clock"
    assert history.spark._jvm.System.currentTimeMillis() / 1000 > shifted, "and that of the JVM"
    while len(history.faults.struck) < 5:
        history.go_on(STEPS)
    assert any("step" in strike for strike in history.faults.struck)
