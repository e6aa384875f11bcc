"""Fixtures: the prepared lake of the pipeline `acts`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.acts import project
from tests.acts.lake import Prepared
from tests.deployment import Deployment


@pytest.fixture(scope="module")
def prepared(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prepared]:
    """The lake after each of its increments."""
    folder = tmp_path_factory.mktemp("acts")
    with project.loaded(folder / "code") as job:
        made = Prepared(Deployment.make(folder / "deployment", Path(__file__).parents[2]), job.SENT, folder / "copies")
        made.prepare()
        yield made
