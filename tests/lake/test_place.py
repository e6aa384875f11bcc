"""Places are passed as one value."""

from __future__ import annotations

import ast
from pathlib import Path

import tidegate

COORDINATES = {"layout", "pipeline", "flow", "version", "refresh"}
PACKAGE = Path(tidegate.__file__).parent


def test_no_function_takes_the_coordinates_of_a_place_one_by_one() -> None:
    taking = []
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                arguments = node.args.posonlyargs + node.args.args + node.args.kwonlyargs
                if len(COORDINATES & {each.arg for each in arguments}) > 2:
                    taking.append(f"{path.relative_to(PACKAGE)}:{node.name}")
    assert taking == []
