"""Installed packages are compiled; where the bytecode is gone, set-up makes it again and a job says so."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from tidegate.embedded import bytecode


@pytest.fixture
def packages(tmp_path: Path) -> Path:
    folder = tmp_path / "site-packages" / "shop"
    folder.mkdir(parents=True)
    for name in ("__init__", "orders", "carts"):
        (folder / f"{name}.py").write_text("TOTAL = 1\n")
    return folder.parent


def test_the_environment_of_these_tests_is_compiled() -> None:
    assert bytecode.share(Path(sysconfig.get_paths()["purelib"])) >= bytecode.COMPLETE, "run `make setup`"


def test_packages_without_bytecode_are_compiled_once(packages: Path) -> None:
    assert bytecode.share(packages) == 0
    assert bytecode.ensure(packages, workers=1) is True
    assert bytecode.share(packages) == 1
    assert bytecode.ensure(packages, workers=1) is False


def test_bytecode_that_was_removed_is_made_again(packages: Path) -> None:
    bytecode.ensure(packages, workers=1)
    shutil.rmtree(packages / "shop" / "__pycache__")
    assert bytecode.share(packages) == 0
    assert bytecode.ensure(packages, workers=1) is True


def test_a_template_that_is_no_python_does_not_stop_the_others(packages: Path) -> None:
    (packages / "shop" / "template.py").write_text("{{ name }} = \n")
    bytecode.ensure(packages, workers=1)
    assert bytecode.share(packages) == 3 / 4


@pytest.mark.parametrize("compiled", [True, False])
def test_a_module_knows_whether_it_was_loaded_from_bytecode(packages: Path, compiled: bool) -> None:
    if compiled:
        bytecode.ensure(packages, workers=1)
    program = "import shop; from tidegate.embedded import bytecode; print(bytecode.is_compiled(shop))"
    answer = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": str(packages), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert answer.stdout == f"{compiled}\n"


def test_an_empty_folder_has_nothing_to_compile(tmp_path: Path) -> None:
    assert bytecode.ensure(tmp_path, workers=1) is False
