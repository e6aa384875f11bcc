"""Generated histories of a whole pipeline of a topic, with faults; after each run a judge in plain Python computes all tables again.

Those of files are in ``test_hunt_files.py``, those with SIGKILLs in ``test_hunt_kills.py``: each file is short enough for a slice.

A failure prints its seed and what was done. ``HUNT_SEEDS=3,17`` runs these seeds, ``HUNT_STEPS=8`` sets the steps between two looks
at the number of faults.
"""

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
from tests.hunt.sources import Topic
from tests.waiting import wait_until

if TYPE_CHECKING:
    from devstack.broker import Broker
    from tests.hunt.conftest import Begin

pytestmark = [pytest.mark.jvm, pytest.mark.gx, pytest.mark.chaos]

STEPS = int(os.environ.get("HUNT_STEPS", "14"))


def seeds(*default: int) -> list[int]:
    return [int(seed) for seed in os.environ.get("HUNT_SEEDS", "").split(",") if seed] or list(default)


@pytest.mark.nightly
def test_the_judge_agrees_with_a_short_history_with_a_fault(begin: Begin) -> None:
    history = begin(4, faults=Faults(share=1.0, attempts=1))
    for _ in range(3):
        history.log.append(history.source.add(history.rng))

    history.increment()

    assert len(history.faults.struck) == 1
    assert history.judge.silver


@pytest.mark.nightly
@pytest.mark.kafka
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", seeds(101))
def test_the_judge_agrees_after_every_run_of_a_history_of_a_topic_with_20_faults(
    seed: int, begin: Begin, broker: Broker
) -> None:
    history = begin(seed, broker=broker, faults=Faults(share=0.7))
    while len(history.faults.struck) < 20:
        history.go_on(STEPS)


@pytest.mark.nightly
@pytest.mark.kafka
def test_a_compacted_topic_is_read_without_what_it_lost(begin: Begin, broker: Broker) -> None:
    history = begin(101, broker=broker)
    topic = history.source
    assert isinstance(topic, Topic)
    topic.send_one_by_one(history.rng, 30)
    history.increment()

    topic.send_one_by_one(history.rng, 30)
    topic.compact()
    wait_until(lambda: len(topic.committed()) < 30, "the topic is compacted")
    history.increment()

    assert 30 < len(history.judge.bronze) < 60
    history.reingest()


@pytest.mark.nightly
@pytest.mark.timeout(3600)
@pytest.mark.skipif(clocks.COMPILER is None, reason="a clock that is set needs a C compiler")
@pytest.mark.parametrize("seed", seeds(301, 302, 303))
def test_the_judge_agrees_whatever_the_clocks_say(seed: int, tmp_path: Path) -> None:
    test = f"{__file__}::{test_a_history_with_30_strikes_under_a_clock_that_is_set.__name__}"
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
def test_a_history_with_30_strikes_under_a_clock_that_is_set(seed: int, begin: Begin) -> None:
    history = begin(seed, faults=Faults(share=0.6))
    assert history.clock is not None
    history.clock.set(90 * clocks.DAY)
    shifted = Path(history.clock.path).stat().st_mtime + 80 * clocks.DAY
    assert time.time() > shifted, "the library shifts the clock"
    assert history.spark._jvm.System.currentTimeMillis() / 1000 > shifted, "and that of the JVM"
    while len(history.faults.struck) < 30:
        history.go_on(STEPS)
    assert any("step" in strike for strike in history.faults.struck)
