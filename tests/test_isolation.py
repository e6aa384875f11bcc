"""A test that changes what child processes inherit fails, and later tests do not notice."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.isolation import Inherited


def test_changed_variables_and_another_working_folder_are_undone_and_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PYTHONPATH", "a")
    monkeypatch.setenv("TIDEGATE_LAKE", "a")
    before = Inherited.read()
    monkeypatch.setenv("PYTHONPATH", "b")
    monkeypatch.delenv("TIDEGATE_LAKE")
    monkeypatch.setenv("TIDEGATE_PROJECT", "b")
    monkeypatch.chdir(tmp_path)

    assert before.restore() == ["PYTHONPATH", "TIDEGATE_LAKE", "TIDEGATE_PROJECT", "the working folder"]
    assert Inherited.read() == before
    assert (os.environ["PYTHONPATH"], "TIDEGATE_PROJECT" in os.environ) == ("a", False)


def test_without_a_change_nothing_is_named() -> None:
    assert Inherited.read().restore() == []
