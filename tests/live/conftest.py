"""One live Airflow for all tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.live_airflow import Live, make_project


@pytest.fixture(scope="session")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """A started Airflow that is healthy and lists the DAGs; stopped in the end."""
    started = Live(make_project(tmp_path_factory.mktemp("live") / "project"))
    try:
        started.up()
        yield started
    finally:
        started.server.stop()
