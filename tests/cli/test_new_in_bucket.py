"""`tidegate new` where the landing zone is in a bucket, which is read and written by requests."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.project import Project
from tests.s3_server import S3Process
from tidegate.environment import Environment
from tidegate.lake.layout import Layout
from tidegate.store import Address

ROWS = "order_id,amount\nA-1,1.5\nA-2,2.5\n"


@pytest.fixture
def variables(s3_server: S3Process) -> dict[str, str]:
    """Those of a landing zone in a new bucket."""
    return {**s3_server.variables, "TIDEGATE_LANDING": f"s3://{s3_server.new_bucket()}/landing"}


def landing(project: Project, variables: dict[str, str]) -> Address:
    return Layout.of(Environment.read({**project.variables, **variables})).landing_root


def test_the_sample_of_a_new_pipeline_is_landed_in_the_bucket(project: Project, variables: dict[str, str]) -> None:
    result = project.run("new", "sample", **variables)
    assert result.code == 0, result.err
    landed = landing(project, variables) / "sample" / "sample_sample.csv"
    assert f"made  {landed}" in result.out
    assert landed.read().data.startswith(b"order_id,")
    flows = project.run("status", "sample", "--json", **variables).json["flows"]
    assert flows[0]["lag"]["behind"] == 1
    again = project.run("new", "sample", **variables)
    assert (again.code, str(landed) in again.err) == (64, True), again.err


def test_a_file_in_the_bucket_is_sampled_where_it_is(project: Project, variables: dict[str, str]) -> None:
    file = landing(project, variables) / "my orders/day=2026-01-05" / "first file.csv"
    file.put(ROWS.encode())
    for name, named in (("one", str(file)), ("two", str(file).replace("s3://", "s3a://"))):
        result = project.run("new", name, "--from", named, **variables)
        assert result.code == 0, result.err
        declared = (project.folder / "pipelines" / f"{name}.py").read_text()
        assert 'path="my orders",' in declared and "order_id STRING NOT NULL" in declared
        assert "s3://" not in result.out
    flows = project.run("plan", "one", "--json", **variables).json["flows"]
    assert flows[0]["has_work"] is True


def test_a_file_of_this_machine_is_landed_in_the_bucket_and_one_of_another_folder_in_the_landing_zone(
    project: Project, variables: dict[str, str], s3_server: S3Process, tmp_path: Path
) -> None:
    (tmp_path / "mine.csv").write_text(ROWS)
    result = project.run("new", "mine", "--from", str(tmp_path / "mine.csv"), **variables)
    assert result.code == 0, result.err
    assert (landing(project, variables) / "mine" / "mine.csv").read().data == ROWS.encode()
    elsewhere = {**variables, "TIDEGATE_LANDING": f"s3://{s3_server.new_bucket()}"}
    (landing(project, elsewhere) / "drop" / "theirs.csv").put(ROWS.encode())
    for name, into in (("theirs", variables), ("local", {**s3_server.variables})):
        result = project.run("new", name, "--from", f"{elsewhere['TIDEGATE_LANDING']}/drop/theirs.csv", **into)
        assert result.code == 0, result.err
        assert (landing(project, into) / name / "theirs.csv").read().data == ROWS.encode()


@pytest.mark.parametrize(
    ("name", "code", "words"),
    [
        ("{landing}/orders/absent.csv", 64, "there is no such file"),
        ("s3://bucket", 64, "names no file"),
        ("{landing}/", 64, "names no file"),
        ("gs://bucket/orders.csv", 78, "Google's storage is not supported"),
    ],
)
def test_what_cannot_be_sampled_is_refused_and_nothing_is_written(
    name: str, code: int, words: str, project: Project, variables: dict[str, str]
) -> None:
    result = project.run("new", "shop", "--from", name.format(landing=variables["TIDEGATE_LANDING"]), **variables)
    assert (result.code, words in result.err) == (code, True), result.err
    assert list(landing(project, variables).walk()) == []
    assert not (project.folder / "pipelines" / "shop.py").exists()


def test_nothing_stays_of_a_pipeline_whose_sample_cannot_be_landed(
    project: Project, variables: dict[str, str], s3_server: S3Process
) -> None:
    result = project.run("new", "shop", **variables | {"TIDEGATE_LANDING": "s3://bucket-that-is-not-there/landing"})
    assert (result.code, "bucket-that-is-not-there" in result.err) == (78, True), result.err
    assert not [path for path in project.folder.rglob("*shop*") if path.suffix != ".pyc"]
