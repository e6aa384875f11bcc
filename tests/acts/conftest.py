"""Fixtures: the prepared lake of the pipeline `acts`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.acts import project
from tests.acts.lake import Prepared
from tests.deployment import Deployment


@pytest.fixture(scope="session")
def _made(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    folder = tmp_path_factory.mktemp("acts")
    return Prepared(Deployment.make(folder / "deployment", Path(__file__).parents[2]), [], folder / "copies")


@pytest.fixture(scope="module")
def prepared(spark: Any, _made: Prepared) -> Iterator[Prepared]:
    """The lake after each of its increments, which run once per worker; the pipeline can be imported in each module that has it."""
    with project.loaded(_made.copies.with_name("code")) as job:
        _made.sent = job.SENT
        if not _made.worlds:
            _made.prepare()
        yield _made
