"""A standalone cluster for each test, all on loopback. `tests/airflow/test_cluster.py` has what executors lack."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.standalone import Cluster, standalone_cluster


@pytest.fixture
def cluster(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """Two workers, and a master that remembers applications when it is started again, unless the parameter is ``NONE``."""
    (tmp_path / "cluster").mkdir()
    mode = getattr(request, "param", "FILESYSTEM")
    recovery = f"-Dspark.deploy.recoveryMode={mode} -Dspark.deploy.recoveryDirectory={tmp_path}/cluster/recovery"
    with standalone_cluster(tmp_path / "cluster", SPARK_DAEMON_JAVA_OPTS=recovery) as made:
        yield made
