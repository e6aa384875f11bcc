"""Sentences of messages, checked in the source: a number and its noun agree, and no errors quote whole commands."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCES = sorted(path for folder in ("tidegate", "demo", "spark_jobs") for path in (ROOT / folder).rglob("*.py"))
COUNTED = re.compile(
    r" (?:(?:open|claimed|changed|earlier|new|more|other) )?(?:rows|files|batches|messages|keys|groups|entries|flows|versions|lines"
    r"|tries|offsets|columns|fields|records|tables|notifications|alerts|intervals|changes|partitions|values|pipelines)\b(?![/`])"
)
"""A plural right after a formatted value."""
TEXTS = {"format", "folder"}
"""Names and attributes that are text, such as in ``{source.format} files``."""


def plurals(source: str) -> Iterator[str]:
    """Formatted values before a plural that would be wrong for 1."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.JoinedStr):
            for value, after in zip(node.values, node.values[1:], strict=False):
                if (
                    isinstance(value, ast.FormattedValue)
                    and isinstance(after, ast.Constant)
                    and COUNTED.match(str(after.value))
                    and value.conversion != ord("r")
                    and ast.unparse(value.value).rpartition(".")[2] not in TEXTS
                ):
                    yield f"line {value.lineno}: {ast.unparse(value.value)}{str(after.value)[:30]}"


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_number_before_its_noun_is_formatted_by_count(path: Path) -> None:
    assert list(plurals(path.read_text(encoding="utf-8"))) == [], "use tidegate.formatting.count"


def test_the_check_finds_a_plural_and_no_other_text() -> None:
    assert len(list(plurals('f"lost {lost} rows"'))) == 1
    assert len(list(plurals('f"{n:,} open entries"'))) == 1
    for right in ("f\"{count(n, 'row')} lost\"", 'f"{rate} rows/s"', 'f"{source.format} files"', 'f"of {n:,}"'):
        assert list(plurals(right)) == []
