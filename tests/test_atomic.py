"""Files and folders change as a whole."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from tidegate import atomic


def test_an_interrupted_removal_leaves_nothing_of_the_folder_and_goes_on_with_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "silver"

    def fill() -> None:
        for name in ("a", "b"):
            (folder / "v2-0").mkdir(parents=True, exist_ok=True)
            (folder / "v2-0" / name).touch()

    def die(path: Path, **_: Any) -> None:
        if path.exists():
            (path / "v2-0" / "a").unlink()
            raise KeyboardInterrupt

    fill()
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(shutil, "rmtree", die)
        atomic.remove_folder(folder)
    assert not folder.exists()

    fill()
    atomic.remove_folder(folder)

    assert list(tmp_path.iterdir()) == []
