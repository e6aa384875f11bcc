"""The demo touches only what is its own, and says in one sentence what it misses."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from demo import stage
from tidegate.errors import SetupError

PROJECT = Path(__file__).parents[2]


def test_without_java_it_says_so_in_one_sentence(tmp_path: Path) -> None:
    variables = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"}
    told = subprocess.run(
        [sys.executable, "-m", "demo", "--folder", str(tmp_path)],
        env={**variables, "PATH": str(Path(sys.executable).parent)},
        cwd=PROJECT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert told.returncode == 78
    assert "Java" in told.stdout
    assert "Traceback" not in told.stdout + told.stderr
    assert len(told.stdout.strip().splitlines()) == 1


def test_without_dags_it_says_where_it_looked(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match="There are no DAGs"):
        stage.check_set_up(tmp_path)


def test_what_the_demo_did_not_make_is_left_alone(tmp_path: Path) -> None:
    folder = tmp_path
    (folder / "lake").mkdir()
    (folder / "lake" / "mine").touch()
    with pytest.raises(SetupError, match="was not made by the demo"), stage.set_up(PROJECT, tmp_path):
        pass
    assert (folder / "lake" / "mine").exists()


def test_what_an_earlier_demo_made_is_deleted_and_nothing_else(tmp_path: Path) -> None:
    folder = tmp_path
    (folder / "lake" / "tables").mkdir(parents=True)
    (folder / "notes.txt").touch()
    (folder / "made-by-the-demo").touch()
    stage._clean(folder)
    assert sorted(path.name for path in folder.iterdir()) == ["made-by-the-demo", "notes.txt"]


def test_a_link_in_place_of_the_lake_is_taken_away_and_not_followed(tmp_path: Path) -> None:
    folder, elsewhere = tmp_path / "demo", tmp_path / "elsewhere"
    folder.mkdir()
    elsewhere.mkdir()
    (elsewhere / "mine").touch()
    (folder / "lake").symlink_to(elsewhere)
    (folder / "made-by-the-demo").touch()
    stage._clean(folder)
    assert not (folder / "lake").exists()
    assert (elsewhere / "mine").exists()


def test_two_demos_at_once_are_one_too_many(tmp_path: Path) -> None:
    with (tmp_path / "running").open("a+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(SetupError, match="Another demo runs"), stage.set_up(PROJECT, tmp_path):
            pass
