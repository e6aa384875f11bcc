"""Behaviour of all commands: exit codes, one-line errors, suggestions for misspelled names."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest
import typer

from tests.cli.project import COMMAND, Project, orders
from tidegate import __version__
from tidegate.cli import app
from tidegate.cli.console import escaped

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("verb", ["status", "lag", "plan", "run", "checkpoint", "ledger", "quarantine list"])
def test_an_unknown_pipeline_is_a_usage_error_that_suggests_the_closest_name(project: Project, verb: str) -> None:
    project.declare(orders())
    result = project.run(*verb.split(), "ordres")
    assert result.code == 64
    assert result.err.count("\n") == 1
    assert "did you mean 'orders'?" in result.err


@pytest.mark.parametrize(
    "arguments", [["plan", "orders", "--flow"], ["run", "orders", "--flow"], ["quarantine", "list", "orders"]]
)
def test_an_unknown_flow_is_a_usage_error_that_suggests_the_closest_name(
    project: Project, arguments: list[str]
) -> None:
    project.declare(orders())
    result = project.run(*arguments, "sliver")
    assert result.code == 64
    assert "did you mean 'silver'? It has: bronze, silver, gold." in result.err


@pytest.mark.parametrize(
    "arguments",
    [["statsu"], ["plan"], ["status", "--jsno"], ["ledger", "orders", "--last", "0"], ["new", "a", "--source", "ftp"]],
)
def test_a_usage_error_exits_with_64(project: Project, arguments: list[str]) -> None:
    result = project.run(*arguments)
    assert result.code == 64
    assert "Error: " in result.err


def test_an_invalid_pipeline_name_is_refused(project: Project) -> None:
    assert project.run("status", "../etc/passwd").code == 64


def test_a_broken_declaration_is_a_one_line_error(project: Project) -> None:
    (project.folder / "pipelines" / "orders.py").write_text("def pipeline(:\n")
    result = project.run("plan", "orders")
    assert result.code == 78
    assert result.err.startswith("tidegate: pipelines/orders.py does not load (line 1): SyntaxError")
    assert result.err.count("\n") == 1


def test_a_folder_without_a_project_is_an_error(project: Project) -> None:
    result = project.run("status", TIDEGATE_PROJECT="/nowhere")
    assert result.code == 78
    assert "TIDEGATE_PROJECT" in result.err


def test_without_declarations_status_suggests_the_next_step(project: Project) -> None:
    result = project.run("status")
    assert (result.code, "tidegate new NAME" in result.out) == (0, True)


def test_the_configured_project_takes_precedence_over_the_installed_one(project: Project) -> None:
    project.declare(orders())
    flows = project.run("status", "--json").json["flows"]
    assert {flow["pipeline"] for flow in flows} == {"orders"}


def test_version_lists_tidegate_and_its_dependencies(project: Project) -> None:
    result = project.run("version")
    assert result.out.startswith(f"tidegate {__version__} ")
    assert "pyspark 4" in result.out


def leaves(command: Any, name: str = "tidegate") -> list[tuple[str, Any, Any]]:
    """The path of each command that is no group, with what its group lists and the command itself."""
    real = command.make_context(name, [], resilient_parsing=True).command
    inner = getattr(real, "commands", {})
    return [leaf for each in inner for leaf in leaves(inner[each], f"{name} {each}")] or [(name, command, real)]


def test_a_list_of_commands_shows_the_beginning_of_their_help() -> None:
    commands = leaves(typer.main.get_command(app))
    assert {"tidegate status", "tidegate quarantine replay", "tidegate flow accept-gap"} <= {
        name for name, _, _ in commands
    }
    wrong = [name for name, listed, real in commands if not real.help.startswith(listed.help.removesuffix("."))]
    assert wrong == []


MODULES = """
import sys
from tidegate.cli import app
try:
    app()
except SystemExit:
    print(*[name for name in sys.modules if name.startswith("tidegate.cli.")])
"""


@pytest.mark.parametrize(
    ("arguments", "imported"),
    [
        (["--help"], set()),
        (["statsu"], set()),
        (["version"], {"version"}),
        (["lag", "--help"], {"lag", "status", "undeclared"}),
        (["quarantine", "--help"], {"decisions", "quarantine"}),
        (
            ["quarantine", "replay", "--help"],
            {"decisions", "driver_log", "plan", "quarantine", "replay", "run", "status", "undeclared"},
        ),
    ],
)
def test_only_the_modules_of_the_command_are_imported(
    project: Project, arguments: list[str], imported: set[str]
) -> None:
    done = subprocess.run(
        # Not `Project.run`: its process has imported the modules before.
        [sys.executable, "-c", MODULES, *arguments],
        env=project.child_environment,
        capture_output=True,
        text=True,
        check=True,
    )
    files = {name.removeprefix("tidegate.cli.") for name in done.stdout.splitlines()[-1].split()}
    assert files - {"arguments", "child", "console", "lazy", "progress_view", "project"} == imported


@pytest.mark.parametrize("arguments", [["status"], ["status", "--json"], ["version"]])
def test_a_closed_output_pipe_prints_no_error(project: Project, arguments: list[str]) -> None:
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


def test_control_characters_are_escaped(project: Project) -> None:
    assert escaped("a\x1b[2Jb\nc é [red]") == "a\\x1b[2Jb\\nc é [red]"
