"""``scripts/setup.sh`` on machines without Python or Java."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

PROJECT = Path(__file__).parents[2]


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """The part of a fresh clone that set-up reads before it writes anything."""
    clone = tmp_path / "a clone"
    (clone / "scripts").mkdir(parents=True)
    shutil.copy(PROJECT / "scripts" / "setup.sh", clone / "scripts")
    shutil.copytree(PROJECT / "tidegate", clone / "tidegate", ignore=shutil.ignore_patterns("__pycache__"))
    return clone


def _commands(folder: Path, **links: str) -> str:
    """A PATH with the few standard tools that set-up may use, and the given links."""
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


def test_without_python_one_sentence_says_what_to_install(clone: Path, tmp_path: Path) -> None:
    process = _run(clone, _commands(tmp_path / "bin"))
    assert process.returncode != 0
    assert process.stderr.startswith("setup: Tidegate needs Python 3.11 or newer")
    assert "apt-get install" in process.stderr
    assert process.stderr.count("\n") == 1


def test_an_old_python_counts_as_missing(clone: Path, tmp_path: Path) -> None:
    old = tmp_path / "old-python"
    old.write_text("#!/bin/sh\nexit 1\n")
    old.chmod(0o755)
    process = _run(clone, _commands(tmp_path / "bin", python3=str(old)), PYTHON=str(old))
    assert "needs Python 3.11" in process.stderr


def test_the_python_half_does_not_check_for_java(clone: Path, tmp_path: Path) -> None:
    # The fake Python stops at the creation of the environment, which would take long.
    wrapper = tmp_path / "python"
    wrapper.write_text(
        f'#!/bin/sh\ncase "$*" in "-m venv"*) echo stopped; exit 9;; esac\nexec "{sys.executable}" "$@"\n'
    )
    wrapper.chmod(0o755)
    process = _run(clone, _commands(tmp_path / "bin"), "python", PYTHON=str(wrapper))
    assert (process.returncode, process.stdout) == (9, "stopped\n")
    assert "Java" not in process.stderr


def test_an_unknown_argument_is_refused(clone: Path, tmp_path: Path) -> None:
    process = _run(clone, _commands(tmp_path / "bin"), "everything", PYTHON=sys.executable)
    assert process.returncode == 1
    assert process.stderr == "setup: unknown argument 'everything'; the only argument is 'python'.\n"
