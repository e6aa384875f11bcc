"""The public interface is listed, documented and typed, the project of this repository uses nothing else, and no deprecation is overdue."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

import tidegate
from tests.source.trees import PROJECT, nodes, trees
from tidegate import interface

pytestmark = pytest.mark.slow

OF_PROJECT = ("pipelines", "spark_jobs", "expectations", "dags", "plugins", "tests/spark_jobs")
"""Folders of this repository that a project has, too."""
PLACEHOLDER = re.compile(r"\$(\w+)")


def used(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """What a module imports of the platform: module and name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names if alias.name.split(".")[0] == "tidegate")
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "tidegate":
            yield from ((node.module or "", alias.name) for alias in node.names)


def sources() -> Iterator[tuple[str, str]]:
    """The code of the project, of the templates of new ones, and of the guides: where it is, and its text."""
    for folder in OF_PROJECT:
        for path in sorted((PROJECT / folder).rglob("*.py")):
            yield str(path.relative_to(PROJECT)), path.read_text(encoding="utf-8")
    for path in sorted((PROJECT / "tidegate/scaffolding/templates").rglob("*.py.txt")):
        text = PLACEHOLDER.sub("X", path.read_text(encoding="utf-8"))
        if "draft" not in path.parts:  # their placeholders stand for lines
            yield str(path.relative_to(PROJECT)), text
    for path in sorted((PROJECT / "docs").rglob("*.md")):
        for number, block in enumerate(re.findall(r"^```python.*?\n(.*?)^```", path.read_text(), re.M | re.S)):
            yield f"{path.relative_to(PROJECT)}, block {number}", block


def listed(module: str) -> list[str]:
    """The `__all__` of a module of the platform, which is not imported for it."""
    path = module.removeprefix("tidegate.").replace(".", "/")
    tree = trees().get(f"{path}.py") or trees()[f"{path}/__init__.py"]
    (names,) = (
        ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
    )
    return list(names)


def offered(module: ModuleType) -> set[str]:
    """What a public package imports to be imported from it."""
    names = (name for name in dir(module) if not name.startswith("_"))
    return {name for name in names if not inspect.ismodule(getattr(module, name))} - {
        "Any",
        "annotations",
        "TYPE_CHECKING",
    }


def test_the_project_templates_and_guides_use_public_parts_only() -> None:
    uses, parsed = set[tuple[str, str]](), 0
    public = {name: listed(name) for name in interface.PUBLIC}
    wrong = []
    for where, text in sources():
        try:
            imported = set(used(ast.parse(text)))
        except SyntaxError:
            continue  # a fragment in a document
        parsed += 1
        uses |= imported
        wrong += [f"{where}: {module} {name}" for module, name in imported if name not in public.get(module, ())]
    assert wrong == []
    assert parsed > 40 and {module for module, _ in uses} >= {"tidegate.spec", "tidegate.airflow", "tidegate.testing"}


@pytest.mark.airflow
@pytest.mark.parametrize("name", interface.PUBLIC)
def test_a_public_name_is_documented_and_typed(name: str) -> None:
    module = importlib.import_module(name)
    public = module.__all__
    assert len(set(public)) == len(public)
    if not name.startswith("tidegate.airflow.") and name != "tidegate.testing.fixtures":
        assert offered(module) == set(public)
    for each in public:
        value = getattr(module, each)
        value = getattr(value, "__wrapped__", value)
        if inspect.isclass(value) or inspect.isfunction(value):
            assert inspect.getdoc(value), each
        if inspect.isfunction(value):
            signature = inspect.signature(value)
            assert signature.return_annotation is not signature.empty, each
            assert all(parameter.annotation is not signature.empty for parameter in signature.parameters.values()), each


def removals(code: ast.Module) -> Iterator[str | None]:
    """The version of each call of `deprecated`; None where it is no text in the call."""
    for node in ast.walk(code):
        if isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] == "deprecated":
            given = {keyword.arg: keyword.value for keyword in node.keywords}
            version = given.get("removal", node.args[2] if len(node.args) > 2 else None)
            yield str(version.value) if isinstance(version, ast.Constant) else None


def overdue(code: ast.Module, version: str) -> list[str | None]:
    """The removals that a version should have."""
    now = tuple(map(int, re.findall(r"\d+", version)[:3]))
    return [each for each in removals(code) if each is None or tuple(map(int, each.split("."))) <= now]


def test_what_a_version_removes_is_gone() -> None:
    assert {path: late for path, tree in trees().items() if (late := overdue(tree, tidegate.__version__))} == {}
    code = ast.parse('interface.deprecated("a", "use b", removal="0.3")\ndeprecated("c", "use d", VERSION)')
    assert overdue(code, "0.2.9") == [None]
    assert overdue(code, "0.3.0") == ["0.3", None]


def old(value: int) -> int:
    interface.deprecated("old", "use new", removal="99.0")
    return value


def test_a_deprecation_names_the_line_that_uses_it_and_what_to_use() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert old(1) == 1
    (warning,) = caught
    assert (Path(warning.filename), warning.category) == (Path(__file__), FutureWarning)
    assert str(warning.message) == "old is deprecated, and Tidegate 99.0 removes it: use new."
    assert (
        warning.lineno == inspect.getsourcelines(test_a_deprecation_names_the_line_that_uses_it_and_what_to_use)[1] + 3
    )


def test_the_helper_is_used_by_its_name() -> None:
    assert [
        name
        for name in trees()
        for node in nodes(name)
        if isinstance(node, ast.FunctionDef) and node.name == "deprecated"
    ] == ["interface.py"]
