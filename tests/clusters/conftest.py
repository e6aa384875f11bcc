"""A pipeline with every kind of flow that runs on a cluster; each folder has a cluster of one kind."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol

import pytest

from tests.clusters.kinds import Kinds, kinds_on

if TYPE_CHECKING:
    from pathlib import Path

    from devstack.broker import Broker
    from tests.s3_server import S3Process


class HasDrivers(Protocol):
    """A cluster of any kind."""

    @property
    def variables(self) -> dict[str, str]:
        """The environment of drivers."""


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
    with kinds_on(tmp_path, s3_server, broker, topic, monkeypatch, **cluster.variables) as made:
        yield made
