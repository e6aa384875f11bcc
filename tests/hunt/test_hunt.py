"""Generated histories of a whole pipeline of a topic, with faults; after each run a judge in plain Python computes all tables again.

Those of files are in ``test_hunt_files.py``, those with SIGKILLs in ``test_hunt_kills.py``, those under a clock that is set in
``test_hunt_clocks.py``: each file is short enough for a slice.

A failure prints its seed and what was done. ``HUNT_SEEDS=3,17`` runs these seeds, ``HUNT_STEPS=8`` sets the steps between two looks
at the number of faults.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

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
@pytest.mark.kafka
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", seeds(101))
def test_the_judge_agrees_after_every_run_of_a_history_of_a_topic_with_5_faults(
    seed: int, begin: Begin, broker: Broker
) -> None:
    history = begin(seed, broker=broker, faults=Faults(share=0.7))
    while len(history.faults.struck) < 5:
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

    assert 30 < len(history.judge.bronze) + len(history.judge.files) < 60
    history.reingest()
