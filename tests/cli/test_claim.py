"""A lake belongs to a project and an environment: others are refused, and a person says when that changes."""

from __future__ import annotations

import json

import pytest

from tests.cli.project import Project, orders
from tidegate.environment.settings import FILE

pytestmark = pytest.mark.slow


def name(project: Project, text: str) -> Project:
    (project.folder / FILE).write_text(text)
    return project


SHOP = 'project = "shop"\ndefault = "dev"\n[environments.dev]\n[environments.prod]\nlake = "prod"\n'


def test_the_lake_of_another_project_is_refused_until_it_is_claimed(project: Project) -> None:
    name(project, SHOP).declare(orders())
    project.layout.open()
    assert project.run("status").code == 0
    name(project, SHOP.replace("shop", "flights"))
    decisions = (
        ["flow", "off", "orders", "silver", "--reason", "x"],
        ["quarantine", "waive", "orders", "silver", "--reason", "x"],
        ["contract", "answer", "orders", "1", "evolve"],
        ["plan", "orders"],
        ["run", "orders"],
        ["status"],
    )
    for arguments in decisions:
        refused = project.run(*arguments)
        assert refused.code == 78, arguments
        assert (
            "is that of environment 'dev' of project 'shop', and this is environment 'dev' of project 'flights'"
            in refused.err
        )
        assert 'tidegate claim --reason "…"' in refused.err
    assert "is that of environment 'dev' of project 'shop'" in project.run("doctor").row("lake ", "failed")
    assert not [path for path in (project.folder / "lake").rglob("*") if path.is_file() and path.name != "lake.json"]
    claimed = project.run("claim", "--reason", "the shop became the flights")
    assert (claimed.code, "before, of environment 'dev' of project 'shop'" in claimed.out) == (0, True)
    assert project.run("status").code == 0
    (claim,) = json.loads((project.folder / "lake" / "lake.json").read_text())["claims"]
    assert claim["reason"] == "the shop became the flights" and claim["by"] and claim["at"]


def test_an_environment_cannot_write_into_the_lake_of_another_one_by_a_variable(project: Project) -> None:
    name(project, SHOP).declare(orders())
    project.layout.open()
    refused = project.run("plan", "orders", "--env", "prod")
    assert refused.code == 78 and "select environment 'dev' of project 'shop', or set another lake" in refused.err
    assert project.run("plan", "orders", "--env", "dev").code == 0


def test_a_moved_folder_is_the_same_project(project: Project) -> None:
    name(project, SHOP).declare(orders())
    project.layout.open()
    moved = project.folder.rename(project.folder.with_name("elsewhere"))
    assert Project(moved, project.kafka).run("status").code == 0


@pytest.mark.parametrize("arguments", [["claim"], ["claim", "--reason", "x"]])
def test_a_project_without_a_name_claims_nothing(project: Project, arguments: list[str]) -> None:
    refused = project.run(*arguments)
    assert refused.code == 64
    assert not (project.folder / "lake").exists()
