"""No test waits with a limit of its own, which a busy machine would exceed."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

WAITS = ("flush", "join", "poll", "result", "wait")
"""Methods whose first argument is a limit."""
_MAY_WAIT = re.compile(rf"\btimeout=\d|\.(?:{'|'.join(WAITS)})\(\d")
SHORT_SECONDS = 2
"""A shorter wait is a step of a loop, or waits for what must not happen."""


def limits(source: str) -> list[int]:
    """The lines of calls that wait for a number of seconds."""
    if not _MAY_WAIT.search(source):
        return []
    calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    return [call.lineno for call in calls if any(_is_long(value) for value in _limits_of(call))]


def _limits_of(call: ast.Call) -> list[ast.expr]:
    named = [keyword.value for keyword in call.keywords if keyword.arg == "timeout"]
    waits = isinstance(call.func, ast.Attribute) and call.func.attr in WAITS
    return named + (call.args[:1] if waits else [])


def _is_long(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and isinstance(value.value, int | float) and value.value >= SHORT_SECONDS


def test_a_wait_has_the_limit_of_all_tests() -> None:
    tests = Path(__file__).parent
    own = [f"{path.relative_to(tests)}:{line}" for path in tests.rglob("*.py") for line in limits(path.read_text())]

    assert own == [], "write tests.waiting.TIMEOUT_SECONDS"


def test_a_limit_in_seconds_is_detected() -> None:
    assert limits("future.result(20)\nproducer.flush(timeout=20)\nsubprocess.run(x, timeout=5)\nended.wait(0.3)") == [
        1,
        2,
        3,
    ]
