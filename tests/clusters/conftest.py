"""A cluster of YARN for the tests of a module, and a pipeline with every kind of flow that runs on it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.clusters.kinds import Kinds, kinds_on
from tests.yarn import Yarn, yarn

if TYPE_CHECKING:
    from pathlib import Path

    from devstack.broker import Broker
    from tests.s3_server import S3Process


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Yarn]:
    with yarn(tmp_path_factory.mktemp("yarn") / "cluster") as running:
        yield running


@pytest.fixture
def kinds(
    cluster: Yarn,
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
