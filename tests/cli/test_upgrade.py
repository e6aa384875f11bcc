"""`tidegate upgrade` shows what a version changes in lake and project before it changes it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.project import Project
from tidegate import __version__

pytestmark = pytest.mark.slow

REQUIREMENTS = "# Ours.\ntidegate[job]==0.0.9\npytest  # tidegate==0.0.9\n"


def test_the_requirement_of_a_project_names_this_version_after_an_upgrade(project: Project) -> None:
    file = Path(project.folder, "requirements.txt")
    file.write_text(REQUIREMENTS)
    shown = project.run("upgrade")
    assert shown.code == 0, shown.err
    shown.row("lake: there is none at")
    shown.row("requirements.txt: tidegate[job]==0.0.9")
    shown.row("nothing was changed; `tidegate upgrade --apply` makes these changes")
    assert file.read_text() == REQUIREMENTS
    assert project.run("upgrade", "--apply").row(f"lake and project are those of Tidegate {__version__}")
    assert file.read_text() == REQUIREMENTS.replace("[job]==0.0.9", f"[job]=={__version__}")
    assert not Path(project.folder, "lake").exists()


def test_a_lake_of_this_version_needs_nothing(project: Project) -> None:
    project.layout.open()
    for arguments in (["upgrade"], ["upgrade", "--apply"]):
        result = project.run(*arguments)
        assert result.code == 0 and result.row("has format 1, as this version,")
        assert "changed" not in result.out


def test_a_lake_of_a_newer_version_is_refused(project: Project) -> None:
    project.layout.open()
    marker = Path(project.folder, "lake", "lake.json")
    marker.write_text('{"format": 99, "tidegate": "9.1"}')
    for arguments in (["upgrade"], ["upgrade", "--apply"]):
        refused = project.run(*arguments)
        assert refused.code == 78 and 'pip install "tidegate>=9.1"' in refused.err
    assert marker.read_text() == '{"format": 99, "tidegate": "9.1"}'


def test_an_environment_of_jobs_with_another_version_is_named(project: Project) -> None:
    result = project.run("upgrade", TIDEGATE_JOB_PYTHON="/proc/no/python")
    assert result.code == 0
    result.row("environment of the jobs: /proc/no/python", "does not say what it has")
