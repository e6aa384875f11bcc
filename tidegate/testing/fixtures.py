"""Fixtures for pytest: ``pytest_plugins = ["tidegate.testing.fixtures"]`` in the ``conftest.py`` of a project."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidegate.testing.lake import Lake

__all__ = ["lake"]


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker of the tests that `tidegate new` writes; ``-m "not jvm"`` leaves them out."""
    config.addinivalue_line("markers", "jvm: starts a JVM")


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """An empty lake of the test."""
    return Lake.make(tmp_path / "lake_of_test")
