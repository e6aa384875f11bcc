"""Every kind of flow, run and source is a folder with the same few modules, registered in one line, and nobody asks for its name."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest

import tidegate
from tidegate import spec
from tidegate.requests.runs import RUNS
from tidegate.spec import LandingSource
from tidegate.spec.kinds import KINDS, LANDED, READS, SOURCES, source_folder

ROOT = Path(tidegate.__file__).parent
ROLES = {"measure", "plan", "read", "run"}
NEEDED = {
    "kinds": {name: {"run"} for name in KINDS},
    "runs": {name: {"run"} | ({"plan"} if kind.plans else set()) for name, kind in RUNS.items()},
    "sources": {name: {"measure"} | ({"read"} if name in LANDED else set()) for name in SOURCES},
}


@pytest.mark.parametrize("package", NEEDED)
def test_every_folder_is_registered_and_has_the_modules_of_its_roles(package: str) -> None:
    existing = {
        folder.name: {module.stem for module in folder.glob("*.py")} & ROLES
        for folder in (ROOT / package).iterdir()
        if (folder / "__init__.py").exists()
    }
    assert existing == NEEDED[package]


def test_a_kind_of_flow_reads_a_kind_of_source_which_is_found_by_the_class_of_its_declaration() -> None:
    declared = {folder: getattr(spec, name) for folder, name in SOURCES.items()}
    assert {source_folder(each): folder for folder, each in declared.items()} == {folder: folder for folder in SOURCES}
    assert {declared[folder] for folder in LANDED} == set(get_args(LandingSource))
    assert set(READS.values()) == set(SOURCES)


def test_a_declaration_imports_the_kinds_that_it_declares_and_no_client_of_buckets() -> None:
    program = (
        "import json, sys, pipelines.flights\n"
        "print(json.dumps([name.removeprefix('tidegate.') for name in sys.modules if name.startswith('tidegate.')]))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT.parent)
    loaded = set(json.loads(done.stdout))
    kinds = {name for name in loaded if re.fullmatch(r"(kinds|sources)\.\w+", name)}
    assert kinds == {"kinds.files", "kinds.rows", "kinds.groups", "sources.files", "sources.tables"}
    assert loaded.isdisjoint({"spec.sinks", "spec.sources", "store.objects", "store.s3"})


def test_what_the_facade_of_declarations_imports_on_demand_is_what_it_declares_to_have() -> None:
    (block,) = (
        node.body
        for node in ast.parse((ROOT / "spec" / "__init__.py").read_text(encoding="utf-8")).body
        if isinstance(node, ast.If)
    )
    declared = {each.names[0].name: each.module for each in block if isinstance(each, ast.ImportFrom)}
    assert declared == vars(spec)["_ON_DEMAND"]
    assert all(getattr(spec, name) is not None for name in declared)
    with pytest.raises(AttributeError, match="Nothing"):
        spec.Nothing  # type: ignore[attr-defined]  # noqa: B018


def test_a_kind_has_the_name_of_its_folder() -> None:
    assert [kind.name for kind in KINDS.values()] == list(KINDS)
    assert [kind.name for kind in RUNS.values()] == list(RUNS)


NAMED = re.compile(r"""\bKINDS\[|\.kind\.name\b|\bkind\.name\s*[!=]=|\bRUNS\["(?!incremental)""")


@pytest.mark.slow
def test_no_module_asks_which_kind_a_flow_is() -> None:
    matches = [
        f"{path.relative_to(ROOT)}: {line.strip()}"
        for path in ROOT.rglob("*.py")
        for line in path.read_text(encoding="utf-8").splitlines()
        if NAMED.search(line)
    ]
    assert NAMED.search("if flow.kind.name == 'rows':")
    assert matches == []


OF_SNAPSHOTS = re.compile(r"""SnapshotFeed|["']snapshots?["']|(kinds|sources)\.snapshots""")


def test_outside_of_their_folders_snapshots_are_named_where_they_are_registered_and_in_the_ledger() -> None:
    named = {
        str(path.relative_to(ROOT))
        for path in ROOT.rglob("*.py")
        if path.parent.name not in ("snapshots", "snapshot_histories", "rows_with_snapshots")
        and OF_SNAPSHOTS.search(path.read_text(encoding="utf-8"))
    }
    registered = {"spec/__init__.py", "spec/kinds.py"}
    assert named - registered == {
        "airflow/assets.py",
        "cli/__init__.py",
        "cli/snapshots.py",
        "lake/identity.py",
        "reports/ledger_line.py",
        "reports/report_lines.py",
        "spark/batch/position.py",
        "spec/flow.py",
        "status/backlog.py",
    }
