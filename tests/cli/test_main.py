"""What every command has in common: exit codes, one line for an error, names that are nearly right."""

from __future__ import annotations

import os
import subprocess

import pytest

from tests.cli.project import COMMAND, Project, orders
from tidegate import __version__


@pytest.mark.parametrize("verb", ["status", "lag", "plan", "run", "checkpoint", "ledger", "quarantine list"])
def test_an_unknown_pipeline_is_a_wrong_call_and_the_nearest_is_named(project: Project, verb: str) -> None:
    project.declare(orders())
    told = project.run(*verb.split(), "ordres")
    assert told.code == 64
    assert told.err.count("\n") == 1
    assert "did you mean 'orders'?" in told.err


@pytest.mark.parametrize(
    "arguments", [["plan", "orders", "--flow"], ["run", "orders", "--flow"], ["quarantine", "list", "orders"]]
)
def test_an_unknown_flow_is_a_wrong_call_and_the_nearest_is_named(project: Project, arguments: list[str]) -> None:
    project.declare(orders())
    told = project.run(*arguments, "sliver")
    assert told.code == 64
    assert "did you mean 'silver'? It has: bronze, silver, gold." in told.err


@pytest.mark.parametrize(
    "arguments",
    [["statsu"], ["plan"], ["status", "--jsno"], ["ledger", "orders", "--last", "0"], ["new", "a", "--source", "ftp"]],
)
def test_a_wrong_call_ends_with_64(project: Project, arguments: list[str]) -> None:
    told = project.run(*arguments)
    assert told.code == 64
    assert "Error: " in told.err


def test_a_name_that_is_no_name_is_refused(project: Project) -> None:
    assert project.run("status", "../etc/passwd").code == 64


def test_a_declaration_that_is_wrong_is_one_line(project: Project) -> None:
    (project.folder / "pipelines" / "orders.py").write_text("def pipeline(:\n")
    told = project.run("plan", "orders")
    assert told.code == 78
    assert told.err.startswith("tidegate: pipelines/orders.py does not load (line 1): SyntaxError")
    assert told.err.count("\n") == 1


def test_a_folder_that_is_no_project_is_said(project: Project) -> None:
    told = project.run("status", TIDEGATE_PROJECT="/nowhere")
    assert told.code == 78
    assert "TIDEGATE_PROJECT" in told.err


def test_without_declarations_the_next_step_is_named(project: Project) -> None:
    told = project.run("status")
    assert (told.code, "tidegate new NAME" in told.out) == (0, True)


def test_the_named_project_comes_before_the_installed_one(project: Project) -> None:
    project.declare(orders())
    flows = project.run("status", "--json").json["flows"]
    assert {flow["pipeline"] for flow in flows} == {"orders"}


def test_version_tells_our_version_and_what_we_stand_on(project: Project) -> None:
    told = project.run("version")
    assert told.out.startswith(f"tidegate {__version__} ")
    assert "pyspark 4" in told.out


@pytest.mark.parametrize("arguments", [["status"], ["status", "--json"], ["version"]])
def test_a_reader_that_goes_away_early_hears_no_complaint(project: Project, arguments: list[str]) -> None:
    project.declare(orders())
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [COMMAND, *arguments],
        env=project.child_environment,
        stdout=writer,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (1, "")


def test_texts_of_others_cannot_steer_the_terminal(project: Project) -> None:
    from tidegate.cli.console import plain

    assert plain("a\x1b[2Jb\nc é [red]") == "a\\x1b[2Jb\\nc é [red]"
