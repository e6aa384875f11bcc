"""The committed reference is what the code says."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"

_place = importlib.util.spec_from_file_location("generate_reference", DOCS / "generate_reference.py")
assert _place is not None and _place.loader is not None
_generator = importlib.util.module_from_spec(_place)
_place.loader.exec_module(_generator)

PAGES: dict[str, str] = _generator.pages()


@pytest.mark.parametrize("name", sorted(PAGES))
def test_a_page_is_up_to_date(name: str) -> None:
    told = (DOCS / "reference" / name).read_text(encoding="utf-8")
    assert told == PAGES[name], "run `python docs/generate_reference.py`"


def test_there_is_no_page_that_nobody_writes() -> None:
    assert {path.name for path in (DOCS / "reference").glob("*.md")} == set(PAGES)


def test_every_command_and_option_stands_in_the_reference() -> None:
    for told in ("## tidegate run", "## tidegate quarantine show", "`--force`", "`--timeout SECONDS`"):
        assert told in PAGES["cli.md"]


def test_a_table_whose_cells_run_over_their_columns_is_refused_and_not_cut_in_a_word() -> None:
    table = "=====  =====\nname   value\n=====  =====\none    two\n{}\n=====  ====="
    _, rows, _ = _generator._split_table(table.format("three  four"))
    assert rows == [("name", "value"), ("one", "two"), ("three", "four")]
    with pytest.raises(ValueError, match="runs over the edge of its column: three four"):
        _generator._split_table(table.format("three four"))
