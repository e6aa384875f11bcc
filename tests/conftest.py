"""What all tests share: one Spark session for those that need one, and a place of their own for each lake."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.deployment import Deployment
from tests.start_state import StartStates
from tests.tiers import pytest_addoption, pytest_collection_modifyitems, pytest_terminal_summary
from tidegate.environment import Environment

if TYPE_CHECKING:
    from playwright.sync_api import Browser
    from pyspark.sql import SparkSession

    from tidegate.embedded.broker import Broker

__all__ = ["pytest_addoption", "pytest_collection_modifyitems", "pytest_terminal_summary"]

PROJECT = Path(__file__).parents[1]

TOGETHER = {
    "one live Airflow": (
        "test_backfills",
        "test_guides",
        "test_no_values",
        "test_tasks_tell_the_truth",
        "test_up_and_down",
    ),
}
"""Files of tests/live whose tests run in one worker, because they share something."""


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """A file's tests stay together: they share what they start."""
    from xdist.scheduler import LoadFileScheduling

    class Together(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            scope: str = super()._split_scope(nodeid)
            shared = (what for what, names in TOGETHER.items() for name in names if scope == f"tests/live/{name}.py")
            return next(shared, scope)

    return Together(config, log)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The session that jobs have, in this process.

    Rows are few and every plan is new, so compiling costs more than it saves: plans are interpreted, by code that only C1
    compiles. Applications that tests start run as users' do.
    """
    from tidegate.launch import submit_conf
    from tidegate.spark.driver.session import build_session

    place = tmp_path_factory.mktemp("spark")
    environment = Environment.read({"TIDEGATE_PROJECT": str(PROJECT)})
    session = build_session(
        environment,
        "tidegate tests",
        {
            "spark.sql.warehouse.dir": str(place / "warehouse"),
            "spark.sql.shuffle.partitions": "2",
            **submit_conf(environment, small=True),
            "spark.sql.codegen.wholeStage": "false",
            "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        },
    )
    yield session
    session.stop()


@pytest.fixture(scope="session")
def _start_states(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> StartStates:
    return StartStates(tmp_path_factory.mktemp("start"), PROJECT, spark)


@pytest.fixture
def start_state(_start_states: StartStates, no_settings: None) -> Callable[[Callable[[Deployment], None]], Deployment]:
    """Gives a deployment as a function of the test module builds it; built once per worker, then copied.

    For a state that several tests begin with: ``start_state(two_days_in_all_tables)``.
    """
    return _start_states.restore


@pytest.fixture
def no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """No variable of the shell that runs the tests names a lake or a broker."""
    for name in list(os.environ):
        if name.startswith("TIDEGATE_"):
            monkeypatch.delenv(name)


@pytest.fixture
def deployment(tmp_path: Path, no_settings: None) -> Deployment:
    """A lake and a landing zone of this test alone, with a copy of the suites that it may edit."""
    return Deployment.make(tmp_path, PROJECT)


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A real Kafka broker for all tests of this worker. Mark its tests ``kafka``; take names of topics from ``topic``."""
    from tidegate.embedded.broker import Broker
    from tidegate.embedded.jars import class_path

    with Broker(tmp_path_factory.mktemp("broker"), class_path=class_path(PROJECT, "broker")) as running:
        yield running


@pytest.fixture
def topic() -> str:
    """A name that no other test has; the test makes the topic itself, with the partitions that it needs."""
    return f"clicks-{secrets.token_hex(6)}"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A headless Chromium without a network; see `tests.browser`. Mark its tests ``browser``.

    One for each module: while it runs, this thread has an event loop, which other modules' tests would trip over.
    """
    from tests.browser import launched

    with launched() as started:
        yield started
