"""Sentences of messages, checked in the source: a number and its noun agree, and no errors quote whole commands."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator

import pytest

from tests.source.trees import nodes, trees

pytestmark = pytest.mark.slow

FOLDERS = ("tidegate", "demo", "spark_jobs")
COUNTED = re.compile(
    r" (?:(?:open|claimed|changed|earlier|new|more|other) )?(?:rows|files|batches|messages|keys|groups|entries|flows|versions|lines"
    r"|tries|offsets|columns|fields|records|tables|notifications|alerts|intervals|changes|partitions|values|pipelines)\b(?![/`])"
)
"""A plural right after a formatted value."""
TEXTS = {"format", "folder"}
"""Names and attributes that are text, such as in ``{source.format} files``."""


def plurals(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """Formatted values before a plural that would be wrong for 1."""
    for node in nodes:
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


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_number_before_its_noun_is_formatted_by_count(folder: str) -> None:
    wrong = {module: list(plurals(nodes(module, folder))) for module in trees(folder)}
    assert {module: lines for module, lines in wrong.items() if lines} == {}, "use tidegate.formatting.count"


def plurals_of(source: str) -> Iterator[str]:
    return plurals(ast.walk(ast.parse(source)))


def test_the_check_finds_a_plural_and_no_other_text() -> None:
    assert len(list(plurals_of('f"lost {lost} rows"'))) == 1
    assert len(list(plurals_of('f"{n:,} open entries"'))) == 1
    for right in ("f\"{count(n, 'row')} lost\"", 'f"{rate} rows/s"', 'f"{source.format} files"', 'f"of {n:,}"'):
        assert list(plurals_of(right)) == []
