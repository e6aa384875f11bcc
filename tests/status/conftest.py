"""Fixtures of this folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.status.sample_project import SampleProject


@pytest.fixture
def project(tmp_path: Path) -> SampleProject:
    return SampleProject(tmp_path)
