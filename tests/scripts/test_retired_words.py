"""``scripts/retired_words.py`` refuses private language in identifiers."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

PROJECT = Path(__file__).parents[2]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A small project in git with the script."""
    (tmp_path / "scripts").mkdir()
    shutil.copy(PROJECT / "scripts/retired_words.py", tmp_path / "scripts")
    subprocess.run(["git", "init", "--quiet", tmp_path], check=True)
    return tmp_path


def _check(tree: Path) -> tuple[int, list[str]]:
    """The exit code, and the lines without the advice at their end."""
    process = subprocess.run(
        [sys.executable, "scripts/retired_words.py"], cwd=tree, capture_output=True, text=True, check=False
    )
    assert process.stderr == ""
    return process.returncode, [line.partition("; write: ")[0] for line in process.stdout.splitlines()]


def _write(tree: Path, path: str, source: str) -> None:
    (tree / path).parent.mkdir(parents=True, exist_ok=True)
    (tree / path).write_text(source)


@pytest.mark.parametrize(
    ("source", "name", "word"),
    [
        ("told = 1", "told", "told"),
        ("def rederive_rows(): ...", "rederive_rows", "rederive"),
        ("class SchemaDriftError: ...", "SchemaDriftError", "drift"),
        ("def close(whom): ...", "whom", "whom"),
        ("for found in (): ...", "found", "found"),
        ("order.fate = None", "fate", "fate"),
        ("import shop as told", "told", "told"),
        ("try: ...\nexcept OSError as told: ...", "told", "told"),
    ],
)
def test_every_kind_of_identifier_is_checked(tree: Path, source: str, name: str, word: str) -> None:
    _write(tree, "shop/orders.py", f"\n{source}\n")
    last_line = 2 + source.count("\n")
    assert _check(tree) == (1, [f"shop/orders.py:{last_line}: {name!r} has the retired word {word!r}"])


def test_the_name_of_a_module_is_checked(tree: Path) -> None:
    _write(tree, "shop/wording.py", "")
    assert _check(tree) == (1, ["shop/wording.py:1: 'wording' has the retired word 'wording'"])


@pytest.mark.parametrize(
    "source", ["class LeaseHeldError: ...", "not_found = 1", '"""Nobody told the drift."""', "def test_drift(): ..."]
)
def test_plain_names_and_sentences_are_accepted(tree: Path, source: str) -> None:
    _write(tree, "shop/orders.py", f"{source}\n")
    assert _check(tree) == (0, [])


def test_ignored_files_are_not_checked(tree: Path) -> None:
    _write(tree, ".venv/library.py", "told = 1\n")
    (tree / ".gitignore").write_text(".venv/\n")
    assert _check(tree) == (0, [])
