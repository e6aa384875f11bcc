"""A pipeline that reads a topic by its schedule, with the broker, the feeder and the scheduler of `make up`.

Per merge, the demo reads the topic in the DAG, without a scheduler.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tests.live.tables import wrong_clicks

if TYPE_CHECKING:
    from tests.live_airflow import Live

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.live,
    pytest.mark.jvm,
    pytest.mark.kafka,
    pytest.mark.airflow,
    pytest.mark.timeout(2400),
]


def test_a_scheduled_run_reads_a_topic(steady: Live, clicks: str) -> None:
    assert clicks.startswith("scheduled__")
    (bootstrap,) = re.findall(r"Kafka broker +(127\.0\.0\.1:\d+)", steady.first_output)
    assert wrong_clicks(steady.layout, bootstrap) == []
    assert steady.dags()["clickstream"], "the guide's command paused it"
