"""What `tidegate init` writes into a folder, what it leaves there, and what a second command completes."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

import tidegate
from tidegate.environment import Environment
from tidegate.errors import RequestError
from tidegate.scaffolding import pipeline_files
from tidegate.scaffolding.project_files import SETTINGS, NewProject
from tidegate.store import Address


def new(folder: Path, job_python: str = "") -> NewProject:
    return NewProject.of(folder, Environment.read({"TIDEGATE_PROJECT": str(folder)}), job_python)


def tree(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def whole(tmp_path: Path) -> dict[str, str]:
    """The files of a project that was laid out at once."""
    folder = tmp_path / "whole" / "shop"
    new(folder).write()
    return tree(folder)


def test_a_project_has_each_part_and_one_dag_file_of_three_lines(whole: dict[str, str]) -> None:
    assert {name.split("/")[0] for name in whole} >= {
        *("pipelines", "spark_jobs", "expectations", "tests", "dags", "conftest.py", "README.md"),
        *(".github", ".gitignore", ".airflowignore", "tidegate.toml", "requirements.txt", ".data"),
    }
    dags = [name for name in whole if name.startswith("dags/")]
    assert dags == ["dags/tidegate_dags.py"]
    assert len([line for line in whole[dags[0]].splitlines() if line]) == 3
    assert tomllib.loads(whole[SETTINGS])["project"] == "shop"
    assert f"tidegate[job]=={tidegate.__version__}\n" in whole["requirements.txt"]
    assert not [name for name, text in whole.items() if "$" in text]


def test_a_second_command_writes_nothing(tmp_path: Path) -> None:
    new(tmp_path / "shop").write()
    again = new(tmp_path / "shop")
    assert (list(again.paths()), again.left) == ([], ())


@pytest.mark.slow
def test_a_command_that_was_killed_after_any_file_is_completed_by_another(
    tmp_path: Path, whole: dict[str, str]
) -> None:
    for number in range(len(whole)):
        folder = tmp_path / str(number) / "shop"
        written = dict(list(new(folder).files.items())[:number])
        pipeline_files.write(written)
        new(folder).write()
        assert tree(folder) == whole, f"after {number} files"


def test_existing_files_stay_as_they_are_and_are_named(tmp_path: Path, whole: dict[str, str]) -> None:
    folder = tmp_path / "shop"
    (folder / "tests").mkdir(parents=True)
    (folder / "README.md").write_text("mine")
    (folder / ".gitignore").write_bytes(b"\xff")
    (folder / "conftest.py").mkdir()
    existing = new(folder)
    assert existing.left == ("conftest.py", ".gitignore", "README.md")
    existing.write()
    assert ((folder / "README.md").read_text(), (folder / ".gitignore").read_bytes()) == ("mine", b"\xff")
    (folder / ".gitignore").unlink()
    assert tree(folder).keys() == whole.keys() - {"conftest.py", ".gitignore"}


def test_a_project_with_pipelines_gets_no_sample(tmp_path: Path) -> None:
    (tmp_path / "pipelines").mkdir()
    (tmp_path / "pipelines" / "mine.py").touch()
    new(tmp_path).write()
    assert not [name for name in tree(tmp_path) if "orders" in name]
    assert (tmp_path / "spark_jobs" / "__init__.py").exists()


def test_the_python_of_jobs_is_added_to_the_settings_as_an_earlier_command_wrote_them(tmp_path: Path) -> None:
    new(tmp_path).write()
    later = new(tmp_path, ".venv-job/bin/python")
    assert (SETTINGS in later.paths(), SETTINGS in later.left) == (True, False)
    later.write()
    assert tomllib.loads((tmp_path / SETTINGS).read_text())["common"] == {"job": {"python": ".venv-job/bin/python"}}
    (tmp_path / SETTINGS).write_text('project = "mine"\n')
    assert SETTINGS in new(tmp_path, "/other/python").left


@pytest.mark.parametrize(("name", "project"), [("my shop!", "my-shop"), ("..", "project"), ("läden", "l-den")])
def test_the_project_gets_a_valid_name_of_its_folder(tmp_path: Path, name: str, project: str) -> None:
    text = new(tmp_path / name).files[Address.local(tmp_path / name / SETTINGS)]
    assert tomllib.loads(str(text))["project"] == project


def test_nothing_stays_where_a_file_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "tests").write_text("a file where a folder should be")
    with pytest.raises(RequestError, match="nothing was written"):
        new(tmp_path).write()
    assert tree(tmp_path) == {"tests": "a file where a folder should be"}
