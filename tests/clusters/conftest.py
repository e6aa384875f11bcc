"""A cluster for the tests of a module, by default of YARN, and a pipeline with every kind of flow that runs on it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol

import pytest

from tests.clusters.kinds import Kinds, kinds_on
from tests.yarn import Yarn, yarn

if TYPE_CHECKING:
    from pathlib import Path

    from devstack.broker import Broker
    from tests.s3_server import S3Process


class HasDrivers(Protocol):
    """A cluster of any kind."""

    @property
    def variables(self) -> dict[str, str]:
        """The environment of drivers."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Yarn]:
    with yarn(tmp_path_factory.mktemp("yarn") / "cluster") as running:
        yield running


@pytest.fixture
def kinds(
    cluster: HasDrivers,
    s3_server: S3Process,
    broker: Broker,
    topic: str,
    tmp_path: Path,
    no_settings: None,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Kinds]:
    made = kinds_on(tmp_path, s3_server, broker, topic, monkeypatch, **cluster.variables)
    yield made
    made.close()
