"""Fixtures of this folder."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from tests.cli.project import Project
from tests.status.sample_project import SampleProject


@pytest.fixture
def project(tmp_path: Path) -> SampleProject:
    return SampleProject(tmp_path)


@pytest.fixture
def imported_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Project]:
    """A project whose packages are imported in this process."""
    project = Project.make(tmp_path / "project")
    monkeypatch.syspath_prepend(str(project.folder))
    real = _unload()
    yield project
    _unload()
    sys.modules.update(real)


def _unload() -> dict[str, ModuleType]:
    """Forget the packages of the project that is imported."""
    names = [name for name in sys.modules if name.partition(".")[0] in ("pipelines", "spark_jobs")]
    return {name: sys.modules.pop(name) for name in names}
