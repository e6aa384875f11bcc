"""Fixtures for all tests: one Spark session per worker, lakes of their own, a broker, a browser."""

from __future__ import annotations

import logging
import os
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings

from tests.deployment import Deployment
from tests.isolation import Inherited, slow_parts
from tests.start_state import StartStates
from tests.tiers import (
    GUIDES,
    OTHER_GUIDES,
    pytest_addoption,
    pytest_collection_finish,
    pytest_collection_modifyitems,
    pytest_sessionstart,
    pytest_terminal_summary,
    tier_of,
)
from tidegate.store import Address
from tidegate.testing.fixtures import lake

if TYPE_CHECKING:
    from playwright.sync_api import Browser
    from pyspark.sql import SparkSession

    from devstack.broker import Broker
    from tests.lakes_in_buckets import LakesInBuckets
    from tests.s3_server import S3Process
    from tests.store.identities import IdentityProxy
    from tests.store.proxy import S3Proxy
    from tests.store.token_endpoint import TokenEndpoint

__all__ = [
    "lake",
    "pytest_addoption",
    "pytest_collection_finish",
    "pytest_collection_modifyitems",
    "pytest_sessionstart",
    "pytest_terminal_summary",
]

PROJECT = Path(__file__).parents[1]

_SOURCE = PROJECT / "tests/source"
SHARED_WORKERS = {
    "one live Airflow": (
        "tests/live/test_backfills.py",
        "tests/live/test_task_states.py",
        "tests/live/test_up_and_down.py",
    ),
    "a steady live Airflow": (
        "tests/live/test_clicks.py",
        "tests/live/test_invalid_confs.py",
        "tests/live/test_no_values.py",
        "tests/live/test_outages.py",
        "tests/live/test_watch.py",
    ),
    "one prepared lake": ("tests/acts/test_plans.py", "tests/acts/test_recoveries.py", "tests/acts/test_runs.py"),
    "the parsed source": (
        "tests/docs/test_reference.py",
        "tests/scripts/test_typed_advice.py",
        *(f"tests/source/{path.name}" for path in sorted(_SOURCE.glob("test_*.py"))),
    ),
}
"""Files that run in one worker, by what they share. All live tests in one would take more than a night's ten minutes."""


def _is_not_a_retry_of_py4j(record: logging.LogRecord) -> bool:
    return not (record.module == "java_gateway" and record.levelno < logging.WARNING)


def pytest_configure() -> None:
    """Keep py4j's thread from formatting a traceback each time that it sends a command again.

    Python parses a line of code for each traceback, and up to 3.11.7 two threads that parse at the same time can fail
    (python/cpython#106905). Most records come from py4j's own logger, that of a retry from the root logger.
    """
    logging.getLogger("py4j").setLevel(logging.WARNING)
    logging.getLogger().addFilter(_is_not_a_retry_of_py4j)
    # On a busy machine one example takes seconds.
    settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.load_profile("any machine")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Run the tests of a file in one worker, because they share processes and fixtures."""
    from xdist.scheduler import LoadFileScheduling

    class SharedWorkerScheduling(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            scope: str = super()._split_scope(nodeid)
            if scope == GUIDES and nodeid.endswith(tuple(f"[{guide}.md]" for guide in OTHER_GUIDES)):
                return f"the other guides of {scope}"
            return next((what for what, files in SHARED_WORKERS.items() if scope in files), scope)

    return SharedWorkerScheduling(config, log)


@pytest.fixture(autouse=True)
def unchanged_process(request: pytest.FixtureRequest) -> Iterator[None]:
    """A test leaves the working folder and the environment as they were: processes of later tests inherit them.

    A fast test has neither a JVM nor Great Expectations, which take seconds.
    """
    before, slow = Inherited.read(), slow_parts()
    yield
    changed = before.restore()
    assert not changed, f"the test changed {', '.join(changed)}; use monkeypatch"
    if tier_of(request.node.nodeid, request.node.keywords) in ("fast", "slow"):
        added = [f"{name} (mark it {mark})" for name, mark in slow_parts().items() if name not in slow]
        assert not added, f"a fast test started {', '.join(added)}"


@pytest.fixture(scope="session")
def lakes(request: pytest.FixtureRequest) -> Iterator[LakesInBuckets | None]:
    """With ``--lake=s3``, the buckets of the lakes of deployments."""
    if request.config.getoption("lake") == "folder":
        yield None
        return
    from tests import lakes_in_buckets

    with (
        pytest.MonkeyPatch.context() as patch,
        lakes_in_buckets.serving(request.getfixturevalue("s3_server"), patch) as serving,
    ):
        yield serving


@pytest.fixture(scope="session")
def spark(lakes: LakesInBuckets | None) -> Iterator[SparkSession]:
    """The session of this process; applications that tests start use the settings of users."""
    from tidegate.testing.session import session

    with pytest.MonkeyPatch.context() as patch:
        _unset_settings(patch)
        if lakes is not None:
            patch.setenv("TIDEGATE_LAKE", "s3://any/lake")
            patch.setenv("AWS_ENDPOINT_URL_S3", lakes.proxy.endpoint)
        started = session()
    yield started
    started.stop()
    if lakes is not None:
        assert lakes.proxy.refused == []


@pytest.fixture
def several_tasks(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Rows of a shuffle are in as many tasks as in a small job; in other tests they are in one (`tidegate.testing.session.ONE_TASK`)."""
    from tidegate.spark.driver import session

    name = "spark.sql.shuffle.partitions"
    # The runs of a test set the settings of the session again.
    monkeypatch.setitem(session._OVERRIDES, name, session.SETTINGS[name])
    before = str(spark.conf.get(name))
    spark.conf.set(name, session.SETTINGS[name])
    yield
    spark.conf.set(name, before)


@pytest.fixture(scope="session")
def _start_states(
    tmp_path_factory: pytest.TempPathFactory, spark: SparkSession, lakes: LakesInBuckets | None
) -> StartStates:
    return StartStates(tmp_path_factory.mktemp("start"), PROJECT, spark)


@pytest.fixture
def start_state(_start_states: StartStates, no_settings: None) -> Callable[[Callable[[Deployment], None]], Deployment]:
    """Restores a deployment that a function of the test module builds, for a state that several tests start with.

    The function is called once per worker: ``start_state(two_days_in_all_tables)``.
    """
    return _start_states.restore


@pytest.fixture
def no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unset all variables ``TIDEGATE_*`` of the shell that runs the tests."""
    _unset_settings(monkeypatch)


def _unset_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith("TIDEGATE_"):
            monkeypatch.delenv(name)


@pytest.fixture
def folder(tmp_path: Path) -> Address:
    """An empty folder of this test."""
    return Address.local(tmp_path)


@pytest.fixture
def deployment(tmp_path: Path, no_settings: None, lakes: LakesInBuckets | None) -> Deployment:
    """A lake and a landing zone of this test, with a copy of the suites that it may edit."""
    return Deployment.make(tmp_path, PROJECT)


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A real Kafka broker for all tests of this worker. Mark its tests ``kafka``; use names from the fixture ``topic``."""
    from devstack.broker import Broker
    from tidegate.runtime.jars import class_path

    with Broker(tmp_path_factory.mktemp("broker"), class_path=class_path(PROJECT, "broker")) as running:
        yield running


@pytest.fixture(scope="session")
def s3_server() -> Iterator[S3Process]:
    """A real S3 server for all tests of this worker, which use buckets of their own (`S3Process.new_bucket`)."""
    from tests.s3_server import s3_process

    with s3_process() as running:
        yield running


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built wheel of this tree."""
    from tests.wheel import build

    return build(tmp_path_factory.mktemp("wheel"))


@pytest.fixture
def proxy(s3_server: S3Process) -> Iterator[S3Proxy]:
    """Between a client and the S3 server: it counts requests, and fails those that the test names."""
    from tests.store.proxy import S3Proxy

    with S3Proxy(s3_server.endpoint).serving() as serving:
        yield serving


@pytest.fixture
def endpoint() -> Iterator[TokenEndpoint]:
    """Hands out credentials, which `identity_proxy` knows."""
    from tests.store.token_endpoint import TokenEndpoint

    with TokenEndpoint().serving() as serving:
        yield serving


@pytest.fixture
def identity_proxy(s3_server: S3Process, endpoint: TokenEndpoint) -> Iterator[IdentityProxy]:
    """Between a client and the S3 server: it accepts the credentials of `endpoint` alone."""
    from tests.store.identities import IdentityProxy

    proxy = IdentityProxy(s3_server, endpoint.keys)
    with proxy.serving():
        yield proxy


@pytest.fixture
def topic() -> str:
    """A unique name of a topic, which the test creates with the partitions that it needs."""
    return f"clicks-{secrets.token_hex(6)}"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A headless Chromium without a network; see `tests.browser`. Mark its tests ``browser``.

    One per module: while it runs, this thread has an event loop, which makes tests of other modules fail.
    """
    from tests.browser import launched

    with launched() as started:
        yield started
