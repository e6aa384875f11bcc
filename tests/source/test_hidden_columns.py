"""The names of hidden columns are written in one module: others use its constants, in SQL text too."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from functools import cache
from pathlib import Path

from tests.source.trees import nodes, trees
from tidegate import hidden

_COLUMNS = {value: name for name, value in vars(hidden).items() if name.isupper()}
_IN_TEXT = re.compile(rf"(?<![\w/])({'|'.join(_COLUMNS)})(?![\w/])")
_SENTENCE = re.compile(r"[A-Za-z']+[,:]? [a-z']+[,:]? [a-z']+")
_SQL = re.compile(r"\b(AND|OR|AS|IS|NOT|IN|SELECT|FROM|WHERE|CAST|CASE|THEN|NULL|string|bigint)\b")
_OWN_NAME = re.compile(r"_[a-z][a-z_]*")
_NO_COLUMNS = {"_delta_log", "_ops"}
"""Folders."""


@cache
def texts(module: str) -> list[str]:
    """The texts of a module, without docstrings; of an f-string, its parts."""
    docstrings = {id(node.value) for node in nodes(module) if isinstance(node, ast.Expr)}
    constants = (node for node in nodes(module) if isinstance(node, ast.Constant) and id(node) not in docstrings)
    return [node.value for node in constants if isinstance(node.value, str)]


def is_sentence(text: str) -> bool:
    """Whether it is for people, whom it tells the name of a column."""
    return _SENTENCE.search(text) is not None and _SQL.search(text) is None


MODULES = trees().keys() - {"hidden.py"}


def test_no_other_module_spells_the_name_of_a_hidden_column() -> None:
    spelled = {
        f"{module}: {text}": f"hidden.{_COLUMNS[match[1]]}"
        for module in MODULES
        for text in texts(module)
        if (match := _IN_TEXT.search(text)) and not is_sentence(text)
    }
    assert spelled == {}


def test_a_column_of_three_modules_is_among_the_hidden_columns() -> None:
    modules = defaultdict[str, set[str]](set)
    for module in MODULES:
        for text in texts(module):
            if _OWN_NAME.fullmatch(text):
                modules[text].add(module)
    assert {name: paths for name, paths in modules.items() if len(paths) > 2 and name not in _NO_COLUMNS} == {}


def test_each_hidden_column_has_one_name_and_a_docstring() -> None:
    source = Path(hidden.__file__).read_text()
    assert all(column.startswith("_") for column in _COLUMNS)
    assert len(re.findall(r'^[A-Z_]+ = "_\w+"\n"""', source, re.MULTILINE)) == len(_COLUMNS) > 28
