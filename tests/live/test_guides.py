"""All commands of docs/guides/scheduling.md, with a real Airflow, broker, feeder and Spark.

Per merge, the commands up to the new pipeline and the last one run in the Airflow of the other live tests (conftest.py,
test_up_and_down.py). tests/airflow/test_commands.py checks that Airflow's command line accepts the others.
"""

from __future__ import annotations

import pytest

from tests.docs import guides
from tests.live.console import GUIDE, Console

pytestmark = [
    *(pytest.mark.nightly, pytest.mark.live, pytest.mark.jvm, pytest.mark.kafka, pytest.mark.airflow),
    pytest.mark.timeout(1800),
]


def test_the_scheduling_guide_works_command_by_command(console: Console) -> None:
    for step in guides.steps(GUIDE):
        console.follow_step(step)
