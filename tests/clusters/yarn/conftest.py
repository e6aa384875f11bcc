"""A YARN for the tests of a module: a resource manager and two node managers, all on loopback.

Where `make cluster-servers` has put no servers of YARN into the cache, nothing is run.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.yarn import Yarn, yarn


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Yarn]:
    with yarn(tmp_path_factory.mktemp("yarn") / "cluster") as running:
        yield running
