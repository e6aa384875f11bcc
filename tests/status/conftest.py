"""Places for the tests of this folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.status.place import Place


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)
