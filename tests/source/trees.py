"""The parsed source of the platform, once per process: rules about it share the trees."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import tidegate

PROJECT = Path(tidegate.__file__).parents[1]


@cache
def trees(folder: str = "tidegate") -> dict[str, ast.Module]:
    """The modules of a folder of the project by their paths in it, for example ``spec/flow.py``."""
    root = PROJECT / folder
    return {
        str(path.relative_to(root)): ast.parse(path.read_text(encoding="utf-8")) for path in sorted(root.rglob("*.py"))
    }


@cache
def nodes(module: str, folder: str = "tidegate") -> tuple[ast.AST, ...]:
    """All nodes of one of `trees`."""
    return tuple(ast.walk(trees(folder)[module]))
