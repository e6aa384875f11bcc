"""What a test puts in the place of a function takes named arguments too: a call that gains one does not break the test.

Nightly tests would break unnoticed for up to a week.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

_MAY_REPLACE = re.compile(r"(?:def \w+\(|lambda )[^:]*\*\w+")
_CALLED_BY_LIBRARIES = ("log_message", "__exit__")
"""Methods whose callers pass arguments by position alone."""


def positional_alone(source: str) -> list[int]:
    """The lines of functions that take any arguments by position and none by name."""
    if not _MAY_REPLACE.search(source):
        return []
    return [
        node.lineno
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        and getattr(node, "name", "") not in _CALLED_BY_LIBRARIES
        and _takes_anything(node.args)
        and not (node.args.kwarg or node.args.kwonlyargs)
    ]


def _takes_anything(args: ast.arguments) -> bool:
    """Whether values of every type come by position; what has another name is a value of a helper."""
    if args.vararg is None or args.vararg.arg not in ("_", "args"):
        return False
    kind = args.vararg.annotation
    return kind is None or (isinstance(kind, ast.Name) and kind.id in ("Any", "object"))


def test_a_function_that_replaces_another_takes_named_arguments() -> None:
    tests = Path(__file__).parent
    stale = [
        f"{path.relative_to(tests)}:{line}"
        for path in sorted(tests.rglob("*.py"))
        for line in positional_alone(path.read_text())
    ]

    assert stale == [], "add **_, or use tests.crashes"


def test_a_function_without_named_arguments_is_detected() -> None:
    source = (
        "def crash(*_: Any): ...\n"
        "def crash(*_: Any, **__: Any): ...\n"
        "patch('x', lambda *_: 1)\n"
        "def rows(*ids: int): ...\n"
        "patch('x', lambda *_, **__: 1)\n"
        "def log_message(self, *_: Any): ...\n"
    )
    assert positional_alone(source) == [1, 3]
