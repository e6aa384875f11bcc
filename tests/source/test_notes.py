"""The table of notes names every kind that the platform has."""

from __future__ import annotations

import ast

import pytest

from tests.source.trees import nodes, trees
from tidegate.status.notes import ALL_NOTES

pytestmark = pytest.mark.slow


def test_the_table_names_each_kind_once() -> None:
    declared = []
    for module in trees():
        for node in nodes(module):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in ("Note", "NumberedNotes", "NoteLines"):
                declared += [ast.literal_eval(each.value) for each in node.keywords if each.arg == "name"]
    assert sorted(declared) == sorted(each.name for each in ALL_NOTES)
    assert len({each.file for each in ALL_NOTES}) == len(ALL_NOTES)
