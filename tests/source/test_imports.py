"""Modules of `tidegate` import each other in one direction, also for types, only some parts know a job, and long ones say why they are.

The root is small: a module that belongs to a package is in it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import tidegate
from tests.source.trees import trees

pytestmark = pytest.mark.slow

_ROOT = Path(tidegate.__file__).parent
_KNOW_A_JOB = ("application", "batch", "flow", "job", "kind", "reprocessing", "runs")
"""Parts of `tidegate.spark` that are given a job. The others are given a place, a flow, a session, or what else they need of it."""


@cache
def modules() -> dict[str, ast.Module]:
    """The modules of `tidegate`, by name."""
    names = {path: ".".join(("tidegate", *Path(path).with_suffix("").parts)) for path in trees()}
    return {names[path].removesuffix(".__init__"): tree for path, tree in trees().items()}


def imported(module: ast.Module) -> Iterator[str]:
    """The modules and names that a module imports anywhere, each with the module that has it."""
    for node in ast.walk(module):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def test_no_modules_import_each_other_in_a_circle() -> None:
    trees = modules()
    graph = {
        name: {each if each in trees else each.rpartition(".")[0] for each in imported(tree)} & trees.keys() - {name}
        for name, tree in trees.items()
    }
    assert sum(map(len, graph.values())) > 1500, "it reads the imports"
    # Raises CycleError, with the circle.
    assert len(list(TopologicalSorter(graph).static_order())) == len(trees)


def test_the_root_has_at_most_eight_modules() -> None:
    assert len([path for path in _ROOT.glob("*.py") if path.stem != "__init__"]) <= 8


def test_a_job_is_given_to_the_steps_and_to_what_starts_them_only() -> None:
    in_spark = {name: tree for name, tree in modules().items() if name.startswith("tidegate.spark.")}
    know = {name.split(".")[2] for name, tree in in_spark.items() if "tidegate.spark.job.Job" in imported(tree)}
    assert know == set(_KNOW_A_JOB) - {"job"}


def test_a_module_of_more_than_300_lines_says_why() -> None:
    lines = {
        name: max(getattr(node, "end_lineno", 0) or 0 for node in ast.walk(tree)) for name, tree in modules().items()
    }
    long = {name for name, number in lines.items() if number > 300}
    says = {name for name, tree in modules().items() if "\nLonger than 300 lines: " in (ast.get_docstring(tree) or "")}
    assert long - says == set()
