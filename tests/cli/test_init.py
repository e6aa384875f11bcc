"""`tidegate init`: a project that runs, in a new folder or in one that has files."""

from __future__ import annotations

import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pytest

import tidegate
from tests.cli.project import ROOT, Project, Result

pytestmark = pytest.mark.slow

ELSEWHERE = {"TIDEGATE_LAKE": "", "TIDEGATE_LANDING": ""}


def init(project: Project, *arguments: str) -> Result:
    """The command, from the folder that has the one of the project."""
    return project.run("init", *arguments, TIDEGATE_PROJECT="", **ELSEWHERE)


def shop(project: Project, command: str, *arguments: str) -> Result:
    """A command in the new project."""
    return project.run(command, *arguments, TIDEGATE_PROJECT=str(project.folder.parent / "shop"), **ELSEWHERE)


def test_a_new_project_has_work_at_once_and_a_new_pipeline_needs_no_dag_file(project: Project) -> None:
    result = init(project, "shop")
    assert result.code == 0, result.err
    assert "tidegate run orders" in result.out and "cd shop" in result.out
    assert shop(project, "plan", "orders", "--json").json["flows"][0]["has_work"] is True
    added = shop(project, "new", "returns")
    assert (added.code, "dags/" in added.out) == (0, False), added.err
    assert added.row("test it", "python -m pytest tests/spark_jobs/test_returns.py")
    other = project.run(
        "new",
        "claims",
        TIDEGATE_PROJECT=str(project.folder.parent / "shop"),
        TIDEGATE_JOB_PYTHON="/jobs/python",
        **ELSEWHERE,
    )
    assert other.row("test it", "/jobs/python -m pytest tests/spark_jobs/test_claims.py")
    flows = shop(project, "status", "--json").json["flows"]
    assert {flow["pipeline"] for flow in flows} == {"orders", "returns", "claims"}


def test_the_code_of_a_new_project_passes_ruff_and_strict_mypy(project: Project) -> None:
    assert init(project, "shop").code == 0
    folder = project.folder.parent / "shop"
    (folder / "tidegate").symlink_to(ROOT / "tidegate")  # so that imports are sorted as in the real tree
    shutil.copy(ROOT / "pyproject.toml", folder / "pyproject.toml")
    python = [sys.executable, "-m"]
    code = ["pipelines", "spark_jobs", "dags", "tests", "expectations", "conftest.py"]
    checks = [
        [*python, "ruff", "check", "--no-cache", *code],
        [*python, "ruff", "format", "--no-cache", "--check", *code],
        [*python, "mypy", "--cache-dir", str(ROOT / ".cache" / "mypy-scaffold"), "-p", "pipelines", "-p", "spark_jobs"],
    ]
    for check in checks:
        done = subprocess.run(check, cwd=folder, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


def test_existing_files_are_named_and_left(project: Project) -> None:
    (project.folder / "README.md").write_text("mine")
    result = init(project, str(project.folder))
    assert result.code == 0, result.err
    assert result.row("left", "README.md")
    assert (project.folder / "README.md").read_text() == "mine"
    assert (project.folder / "pipelines" / "orders.py").exists()


def test_a_command_without_a_project_names_init(project: Project, tmp_path: Path) -> None:
    result = project.run("status", TIDEGATE_PROJECT=str(tmp_path))
    assert (result.code, "tidegate init" in result.err) == (78, True), result.err


@pytest.fixture
def bare(tmp_path: Path) -> str:
    """The Python of an environment without packages."""
    venv.create(tmp_path / "bare", with_pip=False)
    return str(tmp_path / "bare" / "bin" / "python")


def test_a_python_that_cannot_run_jobs_is_refused_and_nothing_is_written(project: Project, bare: str) -> None:
    refused = {
        ("--job-python", bare): (78, "install it there with"),
        ("--job-python", "/nowhere/python"): (78, "/nowhere/python, the Python of the jobs, does not say what it has"),
        ("--job-python", bare, "--job-env"): (64, "exclude each other"),
    }
    for arguments, (code, words) in refused.items():
        result = init(project, "shop", *arguments)
        assert (result.code, words in result.err) == (code, True), result.err
    assert f"`uv pip install --python {bare} " in init(project, "shop", "--job-python", bare).err
    assert not (project.folder.parent / "shop").exists()


def test_a_run_that_cannot_start_leaves_no_attempt(project: Project, bare: str) -> None:
    assert init(project, "shop").code == 0
    folder = project.folder.parent / "shop"
    result = project.run("run", "orders", TIDEGATE_PROJECT=str(folder), TIDEGATE_JOB_PYTHON=bare, **ELSEWHERE)
    assert (result.code, f"`uv pip install --python {bare} " in result.err) == (78, True), result.err
    assert [path.name for path in (folder / ".data/lake").rglob("*") if path.is_file()] == ["plans.jsonl"]


def test_the_settings_name_a_python_that_can_run_jobs(project: Project) -> None:
    result = init(project, "shop", "--job-python", sys.executable)
    assert result.code == 0, result.err
    assert "pyspark" in result.row("jobs", sys.executable)
    settings = project.folder.parent / "shop" / "tidegate.toml"
    assert f'job.python = "{sys.executable}"' in settings.read_text()
    settings.write_text('project = "mine"\n')
    again = init(project, "shop", "--job-python", sys.executable)
    assert again.row("add", f'job.python = "{sys.executable}"')
    assert settings.read_text() == 'project = "mine"\n'
    assert tidegate.__version__ in (settings.parent / "requirements.txt").read_text()


def test_an_environment_that_was_not_completed_is_made_again(project: Project, tmp_path: Path) -> None:
    uv = tmp_path / "bin" / "uv"
    uv.parent.mkdir()
    uv.write_text("#!/bin/sh\necho the index does not answer >&2\nexit 2\n")
    uv.chmod(0o755)

    def attempt() -> Result:
        path = f"{uv.parent}:/usr/bin:/bin"
        return project.run("init", "shop", "--job-env", TIDEGATE_PROJECT="", PATH=path, **ELSEWHERE)

    result = attempt()
    assert result.code == 78
    assert "the index does not answer" in result.err
    shop = project.folder.parent / "shop"
    says = f"`uv venv` ended with 2; see its lines above, then run `tidegate init {shop} --job-env` again"
    assert result.err.strip().endswith(says)
    assert (shop / "pipelines" / "orders.py").exists()
    (shop / ".venv-job" / "bin").mkdir()
    (shop / ".venv-job" / "bin" / "python").touch()
    assert attempt().code == 78
    assert not (shop / ".venv-job" / "bin").exists()
