"""The archive of what executors import: the same bytes for the same code, another name for any other."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from tidegate.runtime.project_archive import ON_DRIVER, ProjectArchive

FILES = {
    "pipelines/__init__.py": "",
    "pipelines/orders.py": "pipeline = None\n",
    "spark_jobs/__init__.py": "",
    "spark_jobs/orders.py": "FACTOR = 2\n",
    "spark_jobs/rates/euro.csv": "day,rate\n",
    "spark_jobs/.orders.py.swp": "an editor's",
    "spark_jobs/__pycache__/orders.cpython-311.pyc": "bytecode",
    "expectations/orders.json": "{}",
    "tests/test_orders.py": "",
}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project of one pipeline, with other files beside its code."""
    return _written(tmp_path / "project")


def _written(folder: Path) -> Path:
    for name, text in FILES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def test_an_archive_has_the_packages_of_the_project_and_the_modules_of_the_platform(project: Path) -> None:
    names = [name for name, _ in ProjectArchive.read(project).contents]
    assert [name for name in names if not name.startswith("tidegate/")] == sorted(
        name for name in FILES if name.startswith(("pipelines/", "spark_jobs/orders", "spark_jobs/rates", "spark_jobs/_"))
        if "__pycache__" not in name
    )  # fmt: skip
    assert {"tidegate/__init__.py", "tidegate/formats/reader.py", "tidegate/store/objects.py"} <= set(names)
    assert all(name.endswith(".py") for name in names if name.startswith("tidegate/"))
    assert not [name for name in names if name.startswith(("tidegate/airflow", "tidegate/cli", "tidegate/spark/gate"))]


def test_what_the_archive_leaves_out_is_what_a_contract_forbids_to_functions_of_executors() -> None:
    """`lint-imports` checks the contract."""
    config = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
    (contract,) = (each for each in config["tool"]["importlinter"]["contracts"] if each["id"] == "executors")
    assert contract["forbidden_modules"] == sorted(f"tidegate.{name.replace('/', '.')}" for name in ON_DRIVER)


def test_equal_code_is_the_same_file_wherever_and_whenever_it_was_written(project: Path, tmp_path: Path) -> None:
    other = _written(tmp_path / "other")
    os.utime(other / "spark_jobs/orders.py", (1, 1))
    (other / "spark_jobs/orders.py").chmod(0o600)
    first, second = (ProjectArchive.read(each).write(tmp_path / "other") for each in (project, other))
    content = first.read_bytes()
    assert second == first
    assert second.read_bytes() == content
    assert len(content) < 800_000, "for each executor of each run"
    assert zipfile.ZipFile(first).testzip() is None


@pytest.mark.parametrize("name", ["spark_jobs/orders.py", "pipelines/orders.py", "spark_jobs/rates/euro.csv"])
def test_other_code_has_another_name(project: Path, name: str) -> None:
    before = ProjectArchive.read(project)
    (project / name).write_text("FACTOR = 3\n")
    changed = ProjectArchive.read(project)
    assert changed != before
    assert changed.file_name != before.file_name
    (project / name).rename((project / name).with_name("renamed"))
    assert ProjectArchive.read(project) not in (before, changed)


def test_what_is_not_in_the_archive_does_not_change_its_name(project: Path) -> None:
    before = ProjectArchive.read(project)
    (project / "expectations/orders.json").write_text("[]")
    (project / "spark_jobs/.orders.py.swp").unlink()
    assert ProjectArchive.read(project) == before


@pytest.mark.slow
def test_the_unpacked_archive_is_all_that_an_executor_imports_of_the_code(project: Path, tmp_path: Path) -> None:
    archive = ProjectArchive.read(project).write(tmp_path)
    zipfile.ZipFile(archive).extractall(tmp_path / "unpacked")
    code = "import spark_jobs.orders, tidegate.formats.reader as r; print(spark_jobs.orders.FACTOR, r.__file__)"
    environment = {**os.environ, "PYTHONPATH": "unpacked", "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-P", "-c", code]
    output = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True).stdout
    assert output.split() == ["2", str(tmp_path / "unpacked" / "tidegate" / "formats" / "reader.py")]
