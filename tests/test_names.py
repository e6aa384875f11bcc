"""One name has one meaning: no two public classes of the platform share a name."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

import tidegate

_ROOT = Path(tidegate.__file__).parent


def test_no_two_public_classes_have_the_same_name() -> None:
    files = defaultdict[str, list[str]](list)
    for path in _ROOT.rglob("*.py"):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                files[node.name].append(str(path.relative_to(_ROOT)))

    assert len(files) > 300, "it reads the classes"
    assert {name: paths for name, paths in files.items() if len(paths) > 1} == {}
