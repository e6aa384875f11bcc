"""Set-up compiles installed packages to bytecode, and again where the bytecode is missing."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from tidegate.runtime import bytecode


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


def test_removed_bytecode_is_compiled_again(packages: Path) -> None:
    bytecode.ensure(packages, workers=1)
    shutil.rmtree(packages / "shop" / "__pycache__")
    assert bytecode.share(packages) == 0
    assert bytecode.ensure(packages, workers=1) is True


def test_a_file_that_is_not_python_does_not_stop_the_compilation(packages: Path) -> None:
    (packages / "shop" / "template.py").write_text("{{ name }} = \n")
    bytecode.ensure(packages, workers=1)
    assert bytecode.share(packages) == 3 / 4


@pytest.mark.parametrize("compiled", [True, False])
def test_a_module_loaded_from_bytecode_is_recognised(packages: Path, compiled: bool) -> None:
    if compiled:
        bytecode.ensure(packages, workers=1)
    program = "import shop; from tidegate.runtime import bytecode; print(bytecode.is_compiled(shop))"
    process = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": str(packages), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert process.stdout == f"{compiled}\n"


def test_an_empty_folder_has_nothing_to_compile(tmp_path: Path) -> None:
    assert bytecode.ensure(tmp_path, workers=1) is False
