"""A separate project for every test of the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.project import Project


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """An empty project; its Kafka address has no broker."""
    return Project.make(tmp_path / "project")
