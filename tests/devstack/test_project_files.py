"""The files in the root of the tree are consistent with each other."""

from __future__ import annotations

import itertools
import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

PROJECT = Path(__file__).parents[2]


def _read(name: str) -> str:
    return (PROJECT / name).read_text(encoding="utf-8")


def _requirements(text: str) -> list[Requirement]:
    lines = (line.partition(" #")[0].strip() for line in text.splitlines())
    return [Requirement(line) for line in lines if line and not line.startswith("#")]


def test_the_lock_pins_all_requirements() -> None:
    locked: dict[str, list[Version]] = {}
    for pin in _requirements(_read("requirements.txt")):
        (exact,) = pin.specifier
        assert exact.operator == "=="
        locked.setdefault(canonicalize_name(pin.name), []).append(Version(exact.version))
    declared = tomllib.loads(_read("pyproject.toml"))
    ranges = [declared["project"]["dependencies"], *declared["project"]["optional-dependencies"].values()]
    groups = declared["dependency-groups"].values()
    listed = [Requirement(each) for each in itertools.chain(*ranges, *groups)]
    for wanted in [*listed, *_requirements(_read("requirements.in"))]:
        versions = locked.get(canonicalize_name(wanted.name), [])
        assert versions, f"{wanted} is not in requirements.txt: run `make lock`"
        assert all(wanted.specifier.contains(version) for version in versions), f"{wanted}, but locked: {versions}"


def test_the_lock_contains_no_package_index() -> None:
    assert "://" not in _read("requirements.txt")
    assert "--" not in re.sub(r"^#.*$", "", _read("requirements.txt"), flags=re.MULTILINE)


def test_every_folder_with_code_is_a_root_package_of_the_import_linter() -> None:
    root_packages = set(tomllib.loads(_read("pyproject.toml"))["tool"]["importlinter"]["root_packages"])
    with_code = {path.parent.name for path in PROJECT.glob("[a-z]*/*.py")}
    assert with_code - {"tests", "docs", "benchmarks", "scripts", "expectations"} == root_packages


def test_every_make_target_has_a_description() -> None:
    targets = re.findall(r"^([a-z0-9-]+):(.*)$", _read("Makefile"), re.MULTILINE)
    without = [name for name, rest in targets if not re.search(r"## [A-Z].*\.$", rest)]
    assert without == ["setup-python"], "only other targets use it"
    (phony,) = re.findall(r"^\.PHONY: (.*)$", _read("Makefile"), re.MULTILINE)
    assert set(phony.split()) == {name for name, _ in targets}


@pytest.mark.parametrize("name", [".venv", "jars/spark/a.jar", ".airflow/airflow.db", ".cache/x", ".data/lake"])
def test_generated_files_are_ignored_by_git(name: str) -> None:
    patterns = [line.strip("/") for line in _read(".gitignore").splitlines() if line and not line.startswith("#")]
    assert name.split("/")[0] in patterns
