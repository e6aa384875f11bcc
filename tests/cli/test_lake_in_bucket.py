"""Commands that start no JVM print of a lake in a bucket what they print of the same lake in a folder."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from deltalake import DeltaTable

from tests.cli.project import Project, Result
from tests.cli.sample_lake import READING, fill
from tests.s3_server import S3Process
from tests.store.buckets import upload
from tidegate.environment import Environment
from tidegate.lake.layout import Layout
from tidegate.lake.place import PipelinePlace

MORE = {
    "proposal": ("expectations", "propose", "orders", "--flow", "silver"),
    "recovery": ("recover", "--plan"),
    "contract": ("contract", "show", "orders"),
}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A lake of which the ledger has a checkpoint of Delta."""
    project = Project.make(tmp_path_factory.mktemp("copied") / "project")
    fill(project)
    DeltaTable(str(PipelinePlace(project.layout, "orders").ops("ledger"))).create_checkpoint()
    return project


@pytest.fixture(scope="module")
def in_bucket(project: Project, s3_server: S3Process) -> dict[str, str]:
    """The variables of a copy of the lake in a bucket."""
    variables = {**s3_server.variables, "TIDEGATE_LAKE": f"s3://{s3_server.new_bucket()}/lake"}
    upload(Path(project.layout.root), Layout.of(Environment.read({**project.variables, **variables})).root)
    return variables


def printed(result: Result, root: str) -> str:
    text = f"{result.code}\n{result.out}\n{result.err}".replace(root, "<lake>")
    return re.sub(r"\b\d+ (s|min) ago", "<time> ago", text)


@pytest.mark.parametrize("name", [*READING, *MORE])
def test_a_command_prints_of_a_lake_in_a_bucket_what_it_prints_of_the_same_lake_in_a_folder(
    name: str, project: Project, in_bucket: dict[str, str]
) -> None:
    arguments = [each.format(table="silver.orders") for each in (READING | MORE)[name]]
    local = project.run(*arguments, JAVA_HOME="/nowhere")
    assert local.code == 0, local.err
    other = project.run(*arguments, JAVA_HOME="/nowhere", **in_bucket)
    assert printed(other, in_bucket["TIDEGATE_LAKE"]) == printed(local, str(project.layout.root))
