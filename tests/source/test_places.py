"""Places are passed as one value."""

from __future__ import annotations

import ast

import pytest

from tests.source.trees import nodes, trees

pytestmark = pytest.mark.slow

COORDINATES = {"layout", "pipeline", "flow", "version", "refresh"}


def test_no_function_takes_the_coordinates_of_a_place_one_by_one() -> None:
    taking = []
    for module in trees():
        for node in nodes(module):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                arguments = node.args.posonlyargs + node.args.args + node.args.kwonlyargs
                if len(COORDINATES & {each.arg for each in arguments}) > 2:
                    taking.append(f"{module}:{node.name}")
    assert taking == []
