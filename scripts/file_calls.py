"""Refuses calls on files outside of `tidegate.store`, through which the platform reads and writes lake and landing zones.

``python scripts/file_calls.py`` checks the modules of the platform, lists the calls, and then exits with 1. It knows no types: `stat`,
`exists` and `open` are also operations of a store, and count as calls on files only where the module names ``Path``, and not of what is
called an address, a store or a root.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
ELSEWHERE = {
    "tidegate/store/": "the store itself",
    "tidegate/testing/": "tests of users, on local folders",
    "tidegate/runtime/": "the installation of Java, jars and archives",
    "tidegate/scaffolding/draft.py": "templates of the package",
    "tidegate/scaffolding/pipeline_files.py": "templates of the package, and DAG files of the project",
    "tidegate/scaffolding/project_files.py": "a new project",
    "tidegate/scaffolding/job_packages.py": "the environment of jobs",
    "tidegate/cli/init.py": "a new project",
    "tidegate/project/folder.py": "the project",
    "tidegate/cli/expectations.py": "suites of the project",
    "tidegate/cli/project.py": "the project",
    "tidegate/environment/": "the settings of the project",
    "tidegate/pages/site.py": "the style sheet of the package",
    "tidegate/airflow/pages/": "style sheets of the package",
    "tidegate/errors/classification.py": "why a folder cannot be written",
    "tidegate/project/suite_file.py": "suites of the project",
    "tidegate/project/fingerprints.py": "code and suites of the project",
    "tidegate/project/registry.py": "declarations of the project",
    "tidegate/project/statement.py": "transforms of the project",
    "tidegate/project/transform_code.py": "transforms of the project",
    "tidegate/spec/table_list.py": "lists of tables of the project",
    "tidegate/processes.py": "processes of this machine",
    "tidegate/airflow/submission.py": "programs of this machine",
    "tidegate/requests/launch.py": "the log of a child process",
    "tidegate/reports/run_result.py": "the log of a child process",
    "tidegate/trace/records.py": "a file that a person names",
    "tidegate/ops/compaction.py": "files in a temporary folder, for delta-rs",
    "tidegate/probes/delta_table.py": "tables in temporary folders, for delta-rs",
    "tidegate/probes/linked_table.py": "a table log in a temporary folder, for delta-rs",
    "tidegate/formats/reader.py": "executors, which read landed files by themselves",
    "tidegate/formats/records.py": "executors, which read landed files by themselves",
    "tidegate/formats/text_stream.py": "executors, which read landed files by themselves",
    "tidegate/checkpoints/lease.py": "a lock of the operating system",
    "tidegate/spark/driver/lease.py": "a lock of the operating system",
}
"""Files that are not in a lake or a landing zone, and locks: path or folder, and what its files are."""
_OF_PATHS = frozenset(
    [
        "read_text",
        "read_bytes",
        "write_text",
        "write_bytes",
        "mkdir",
        "unlink",
        "rmdir",
        "rename",
        "iterdir",
        "glob",
        "rglob",
        "touch",
        "hardlink_to",
        "symlink_to",
        "is_dir",
        "is_file",
        "is_symlink",
        "lstat",
        "samefile",
        "chmod",
    ]
)
_OF_BOTH = frozenset(("stat", "exists", "open"))
_OF_OS = frozenset(
    [
        "open",
        "listdir",
        "scandir",
        "walk",
        "stat",
        "lstat",
        "rename",
        "replace",
        "remove",
        "unlink",
        "mkdir",
        "makedirs",
        "rmdir",
        "link",
        "symlink",
        "truncate",
        "fsync",
        "statvfs",
    ]
)
_OF_STORES = re.compile(r"\b(?:address|store|root)\b|\blayout$")
"""What has the operations of a store, or the method `open` of a layout."""
_MODULES = frozenset(("shutil", "fcntl"))


def calls(source: str) -> list[tuple[int, str]]:
    """The calls on files in a module: line and call."""
    tree = ast.parse(source)
    imported = {alias.asname or alias.name.partition(".")[0] for alias in _imports(tree)}
    made_calls: list[tuple[int, str]] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _is_on_files(node.func, imported):
            made_calls.append((node.lineno, ast.unparse(node.func)))
    return sorted(made_calls)


def _imports(tree: ast.Module) -> Iterator[ast.alias]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield from node.names


def _is_on_files(function: ast.expr, imported: set[str]) -> bool:
    if isinstance(function, ast.Name):
        return function.id == "open"
    if not isinstance(function, ast.Attribute):
        return False
    name, receiver = function.attr, function.value
    if name in _OF_BOTH and _OF_STORES.search(ast.unparse(receiver)):
        return False
    if isinstance(receiver, ast.Name) and receiver.id in imported - {"Path"}:
        return receiver.id in _MODULES or (receiver.id == "os" and name in _OF_OS)
    return name in _OF_PATHS or (name in _OF_BOTH and "Path" in imported)


def problems() -> list[str]:
    """What is wrong, a line each."""
    lines = []
    for path in sorted((ROOT / "tidegate").rglob("*.py")):
        module = path.relative_to(ROOT).as_posix()
        if any(module == place or (place.endswith("/") and module.startswith(place)) for place in ELSEWHERE):
            continue
        made = calls(path.read_text(encoding="utf-8"))
        lines += [f"{module}:{line}: {call} is a call on files; use the store (tidegate/store)" for line, call in made]
    return lines


if __name__ == "__main__":
    print("\n".join(wrong := problems()), end="\n" if wrong else "")
    sys.exit(bool(wrong))
