"""A Kubernetes for each test, whose drivers have the shipped account, with RBAC: see `tests.kubernetes` for what stands in for its nodes.

Where `make cluster-servers` has put no servers of Kubernetes into the cache, nothing is run.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.kubernetes import Kubernetes, kubernetes


@pytest.fixture
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubernetes]:
    with kubernetes(tmp_path_factory.mktemp("kubernetes") / "cluster") as running:
        yield running
