"""``scripts/file_calls.py`` refuses calls on files outside of the store."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow

SCRIPT = Path(__file__).parents[2] / "scripts/file_calls.py"


@pytest.fixture(scope="module")
def script() -> Any:
    specification = importlib.util.spec_from_file_location("file_calls", SCRIPT)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    "call",
    [
        "open('a')",
        "path.read_text()",
        "(folder / 'a').write_bytes(b'')",
        "os.rename('a', 'b')",
        "shutil.rmtree('a')",
        "Path('a').exists()",
        "layout.table('a').mkdir()",
        "entry.path.stat()",
    ],
)
def test_a_call_on_files_is_named_with_its_line(script: Any, call: str) -> None:
    source = f"import os, shutil\nfrom pathlib import Path\n\n{call}\n"
    assert script.calls(source) == [(4, call[: call.rindex("(")])]


@pytest.mark.parametrize(
    "call",
    [
        "tables.exists(path)",
        "address.stat()",
        "address.open()",
        "layout.open()",
        "(self.layout.root / 'a').exists()",
        "self.layout.open()",
        "os.getpid()",
        "text.replace('a', 'b')",
    ],
)
def test_other_calls_are_not(script: Any, call: str) -> None:
    path = "from pathlib import Path\n" if "tables" in call or "layout" in call else ""
    assert script.calls(f"import os\nfrom tidegate.spark.lake import tables\n{path}{call}\n") == []


def test_every_exception_exists(script: Any) -> None:
    assert [place for place in script.ELSEWHERE if not (SCRIPT.parents[1] / place).exists()] == []
    assert script.problems() == []
