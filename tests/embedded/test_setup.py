"""``scripts/setup.sh`` on machines where something is missing."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A fresh clone, as far as set-up reads it before it makes anything."""
    clone = tmp_path / "a clone"
    (clone / "scripts").mkdir(parents=True)
    shutil.copy(PROJECT / "scripts" / "setup.sh", clone / "scripts")
    shutil.copytree(PROJECT / "tidegate", clone / "tidegate", ignore=shutil.ignore_patterns("__pycache__"))
    return clone


def _commands(folder: Path, **links: str) -> str:
    """A PATH that holds the few plain tools that set-up may count on, and what is given."""
    folder.mkdir()
    for name in ("dirname", "cksum", "cat", "sed", "mkdir", "rm"):
        (folder / name).symlink_to(str(shutil.which(name)))
    for name, target in links.items():
        (folder / name).symlink_to(target)
    return str(folder)


def _run(clone: Path, path: str, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["/bin/sh", str(clone / "scripts" / "setup.sh"), *arguments],
        env={"PATH": path, **environ},
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
    )


def test_without_python_it_says_in_one_sentence_what_to_install(clone: Path, tmp_path: Path) -> None:
    done = _run(clone, _commands(tmp_path / "bin"))
    assert done.returncode != 0
    assert done.stderr.startswith("setup: Tidegate needs Python 3.11 or newer")
    assert "apt-get install" in done.stderr
    assert done.stderr.count("\n") == 1


def test_an_old_python_counts_as_none(clone: Path, tmp_path: Path) -> None:
    old = tmp_path / "old-python"
    old.write_text("#!/bin/sh\nexit 1\n")
    old.chmod(0o755)
    done = _run(clone, _commands(tmp_path / "bin", python3=str(old)), PYTHON=str(old))
    assert "needs Python 3.11" in done.stderr


def test_without_java_it_says_so_before_it_makes_anything(clone: Path, tmp_path: Path) -> None:
    done = _run(clone, _commands(tmp_path / "bin"), PYTHON=sys.executable)
    assert done.returncode == os.EX_CONFIG
    assert done.stderr.startswith("setup: Tidegate needs Java 17 or newer and found none: install one")
    assert done.stderr.count("\n") == 1
    assert not (clone / ".venv").exists()


def test_the_python_half_does_not_ask_for_java(clone: Path, tmp_path: Path) -> None:
    # It stops where it would make the environment, which would take its time.
    wrapper = tmp_path / "python"
    wrapper.write_text(
        f'#!/bin/sh\ncase "$*" in "-m venv"*) echo stopped; exit 9;; esac\nexec "{sys.executable}" "$@"\n'
    )
    wrapper.chmod(0o755)
    done = _run(clone, _commands(tmp_path / "bin"), "python", PYTHON=str(wrapper))
    assert (done.returncode, done.stdout) == (9, "stopped\n")
    assert "Java" not in done.stderr


def test_an_unknown_argument_is_refused(clone: Path, tmp_path: Path) -> None:
    done = _run(clone, _commands(tmp_path / "bin"), "everything", PYTHON=sys.executable)
    assert (done.returncode, done.stderr) == (1, "setup: 'everything' is neither nothing nor 'python'.\n")
