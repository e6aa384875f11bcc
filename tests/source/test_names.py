"""One name has one meaning: no two public classes of the platform share a name."""

from __future__ import annotations

import ast
from collections import defaultdict

from tests.source.trees import trees


def test_no_two_public_classes_have_the_same_name() -> None:
    files = defaultdict[str, list[str]](list)
    for module, tree in trees().items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                files[node.name].append(module)

    assert len(files) > 300, "it reads the classes"
    assert {name: paths for name, paths in files.items() if len(paths) > 1} == {}
