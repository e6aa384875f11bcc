"""The guide to schedules is followed line by line, with a real Airflow, broker, feeder and Spark.

Its commands up to the new pipeline, and its last one, are given per merge too, in the Airflow of the other live tests
(conftest.py, test_up_and_down.py). That Airflow's own command line takes the others: tests/airflow/test_commands.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs import guides
from tests.live.console import GUIDE, Console

pytestmark = [
    *(pytest.mark.nightly, pytest.mark.live, pytest.mark.jvm, pytest.mark.kafka, pytest.mark.airflow),
    pytest.mark.timeout(1800),
]


@pytest.fixture
def console(tmp_path: Path) -> Iterator[Console]:
    folder = tmp_path / "project"
    opened = Console(folder, guides.scaffold(folder))
    yield opened
    opened.remove()


def test_the_guide_to_schedules_can_be_followed_line_by_line(console: Console) -> None:
    for step in guides.steps(GUIDE):
        console.follow_step(step)
