"""`tidegate new`: the files it writes, names it refuses, and that the files pass the linters."""

from __future__ import annotations

import ast
import json
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.cli.project import Project, orders
from tidegate.cli.new import message_command, topic_command

if TYPE_CHECKING:
    from devstack.broker import Broker

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


def files(project: Project) -> set[str]:
    written = (path for path in project.folder.rglob("*") if path.is_file() and path.suffix != ".pyc")
    return {str(path.relative_to(project.folder)) for path in written}


@pytest.mark.parametrize("source", ["files", "kafka"])
def test_a_new_pipeline_has_all_its_files_and_loads(project: Project, source: str) -> None:
    result = project.run("new", "sample", "--source", source)
    assert result.code == 0, result.err
    created = {
        "pipelines/sample.py",
        "spark_jobs/sample.py",
        "expectations/sample/__init__.py",
        "expectations/sample/silver.json",
        "dags/sample.py",
        "tests/spark_jobs/test_sample.py",
    }
    landed = {"landing/sample/sample_sample.csv"} if source == "files" else set()
    assert files(project) - {"pipelines/__init__.py", "spark_jobs/__init__.py"} == created | landed
    assert "tidegate run sample" in result.out
    flows = project.run("status", "sample", "--json").json["flows"]
    assert [flow["target"] for flow in flows] == ["bronze.sample", "silver.sample", "gold.sample"]
    if source == "files":
        assert flows[0]["lag"]["behind"] == 1


def test_the_generated_files_pass_ruff_and_strict_mypy(project: Project) -> None:
    for name, source in (("sample", "files"), ("sample_topic", "kafka")):
        assert project.run("new", name, "--source", source).code == 0
    for folder in ("pipelines", "spark_jobs"):
        shutil.copy(ROOT / folder / "__init__.py", project.folder / folder / "__init__.py")
    (project.folder / "tidegate").symlink_to(ROOT / "tidegate")  # so that imports are sorted as in the real tree
    shutil.copy(ROOT / "pyproject.toml", project.folder / "pyproject.toml")
    python = [sys.executable, "-m"]
    folders = ["pipelines", "spark_jobs", "dags", "tests", "expectations"]
    checks = [
        [*python, "ruff", "check", "--no-cache", *folders],
        [*python, "ruff", "format", "--no-cache", "--check", *folders],
        [*python, "mypy", "--cache-dir", str(ROOT / ".cache" / "mypy-scaffold"), "-p", "pipelines", "-p", "spark_jobs"],
    ]
    for check in checks:
        done = subprocess.run(check, cwd=project.folder, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


def test_the_dag_file_contains_the_word_airflow_which_safe_mode_looks_for(project: Project) -> None:
    project.run("new", "sample")
    dag = (project.folder / "dags" / "sample.py").read_text()
    assert "Airflow" in (ast.get_docstring(ast.parse(dag)) or "")
    assert "dag = build_dag(pipeline)" in dag


def test_the_suite_has_the_name_that_the_declaration_uses(project: Project) -> None:
    project.run("new", "sample")
    suite = json.loads((project.folder / "expectations" / "sample" / "silver.json").read_text())
    assert suite["name"] == "sample/silver"
    assert 'Gate("sample/silver")' in (project.folder / "pipelines" / "sample.py").read_text()


def test_existing_files_are_not_overwritten_but_listed(project: Project) -> None:
    mine = project.folder / "spark_jobs" / "sample.py"
    mine.write_text("mine")
    before = files(project)
    result = project.run("new", "sample")
    assert result.code == 64
    assert str(mine) in result.err
    assert "pipelines/sample.py" not in result.err
    assert (mine.read_text(), files(project)) == ("mine", before)


@pytest.mark.parametrize("name", ["Sample", "1st", "a-b", "../a", "_a", "a" * 64, "class"])
def test_an_invalid_name_is_refused(project: Project, name: str) -> None:
    before = files(project)
    result = project.run("new", name)
    assert result.code == 64
    assert result.err.count("\n") == 1
    assert files(project) == before


def test_the_longest_valid_name_is_accepted(project: Project) -> None:
    name = "a" * 63
    assert project.run("new", name).code == 0
    assert project.run("plan", name).code == 0


def test_a_name_whose_tables_another_pipeline_writes_is_refused(project: Project) -> None:
    pipeline = project.folder / "pipelines" / "shop.py"
    project.declare(orders())
    (project.folder / "pipelines" / "orders.py").rename(pipeline)
    (project.folder / "spark_jobs" / "orders.py").unlink()
    shutil.rmtree(project.folder / "expectations")
    pipeline.write_text(pipeline.read_text().replace("Pipeline(name='orders'", "Pipeline(name='shop'"))
    result = project.run("new", "orders")
    assert result.code == 64
    assert "bronze.orders by shop" in result.err


def test_if_one_file_cannot_be_written_no_file_remains(project: Project) -> None:
    (project.folder / "dags").write_text("a file where a folder should be")
    before = files(project)
    result = project.run("new", "sample")
    assert result.code == 64
    assert files(project) == before


@pytest.mark.parametrize(
    "command", [topic_command("127.0.0.1:9092", "sample"), message_command("127.0.0.1:9092", "sample")]
)
def test_the_commands_for_a_topic_are_valid_python_after_shell_quoting(command: str) -> None:
    python, flag, script = shlex.split(command)
    assert (python, flag) == ("python", "-c")
    ast.parse(script)


@pytest.mark.jvm
@pytest.mark.kafka
def test_the_printed_commands_for_a_topic_work(project: Project, broker: Broker, topic: str) -> None:
    project, name = Project(project.folder, broker.bootstrap), topic.replace("-", "_")
    printed = project.run("new", name, "--source", "kafka").out
    commands = [line.partition("python -c ")[2] for line in printed.splitlines() if "python -c " in line]
    assert len(commands) == 2
    for script in commands:
        subprocess.run([sys.executable, "-c", *shlex.split(script)], check=True)
    bronze = project.run("plan", name, "--flow", "bronze", "--json").json["flows"][0]
    assert (bronze["rows"], bronze["has_work"]) == (1, True)

    drafted = project.run("new", "drafted", "--topic", name)
    assert drafted.code == 0, drafted.err
    declaration = (project.folder / "pipelines" / "drafted.py").read_text()
    assert f'topic="{name}",' in declaration
    assert 'keys=("order_id",),\n                sequence_by=("updated_at",),' in declaration
    assert project.run("plan", "drafted", "--flow", "bronze", "--json").json["flows"][0]["rows"] == 1
