"""Fixtures: a history of files, and one of a topic."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.deployment import Deployment
from tests.hunt.history import Faults, History
from tests.hunt.kills import Kills
from tests.hunt.project import Project
from tests.hunt.sources import FORMATS, Files, Source, Topic

if TYPE_CHECKING:
    from devstack.broker import Broker

Begin = Callable[..., History]


@pytest.fixture
def begin(deployment: Deployment, spark: Any, tmp_path: Path) -> Iterator[Begin]:
    """A function that begins the history of a seed: of files, or of a topic of the broker that it is given."""
    projects: list[Project] = []

    def history(
        seed: int,
        *,
        broker: Broker | None = None,
        faults: Faults | None = None,
        kills: Kills | None = None,
    ) -> History:
        source: Source
        place = deployment
        if broker is None:
            source = Files(deployment.environment.landing / "hunt", FORMATS[seed % 4], at_once=(2, 100)[seed % 3 == 0])
        else:
            source = topic = Topic(broker, f"hunt-{tmp_path.name}", at_once=(7, 1000)[seed % 2])
            topic.create()
            place = deployment.at(broker.bootstrap)
        project = Project(tmp_path / "code", place.environment.project / "expectations", source.declaration)
        projects.append(project)
        return History(seed, place, project, source, spark, faults or Faults(), kills or Kills())

    yield history
    for project in projects:
        project.unload()
