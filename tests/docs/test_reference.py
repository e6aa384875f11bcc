"""The committed reference equals the output of the generator."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"

_spec = importlib.util.spec_from_file_location("generate_reference", DOCS / "generate_reference.py")
assert _spec is not None and _spec.loader is not None
_generator = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_generator)

COMMITTED = sorted(path.name for path in (DOCS / "reference").glob("*.md"))


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    generated: dict[str, str] = _generator.pages()
    return generated


@pytest.mark.parametrize("name", COMMITTED)
def test_a_page_is_up_to_date(pages: dict[str, str], name: str) -> None:
    committed = (DOCS / "reference" / name).read_text(encoding="utf-8")
    assert committed == pages[name], "run `python docs/generate_reference.py`"


def test_every_page_of_the_reference_is_generated(pages: dict[str, str]) -> None:
    assert set(COMMITTED) == set(pages)


def test_commands_and_options_are_in_the_reference(pages: dict[str, str]) -> None:
    for text in ("## tidegate run", "## tidegate quarantine show", "`--force`", "`--timeout SECONDS`"):
        assert text in pages["cli.md"]


def test_a_table_with_a_cell_wider_than_its_column_is_refused() -> None:
    table = "=====  =====\nname   value\n=====  =====\none    two\n{}\n=====  ====="
    _, rows, _ = _generator._split_table(table.format("three  four"))
    assert rows == [("name", "value"), ("one", "two"), ("three", "four")]
    with pytest.raises(ValueError, match="a cell is wider than its column: three four"):
        _generator._split_table(table.format("three four"))
