"""What all tests share: one Spark session for those that need one, and a place of their own for each lake."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.deployment import Deployment
from tidegate.environment import Environment

if TYPE_CHECKING:
    from playwright.sync_api import Browser
    from pyspark.sql import SparkSession

PROJECT = Path(__file__).parents[1]


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The session that jobs have, in this process."""
    from tidegate.spark.session import build_session

    place = tmp_path_factory.mktemp("spark")
    environment = Environment.read({"TIDEGATE_PROJECT": str(PROJECT)})
    session = build_session(
        environment,
        "tidegate tests",
        {
            "spark.sql.warehouse.dir": str(place / "warehouse"),
            "spark.sql.shuffle.partitions": "2",
        },
    )
    yield session
    session.stop()


@pytest.fixture
def deployment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Deployment:
    """A lake and a landing zone of this test alone, with a copy of the suites that it may edit."""
    made = Deployment.make(tmp_path, PROJECT)
    for name in list(os.environ):
        if name.startswith("TIDEGATE_"):
            monkeypatch.delenv(name)
    return made


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A headless Chromium without a network; see `tests.browser`. Mark its tests ``browser``.

    One for each module: while it runs, this thread has an event loop, which other modules' tests would trip over.
    """
    from tests.browser import launched

    with launched() as started:
        yield started
