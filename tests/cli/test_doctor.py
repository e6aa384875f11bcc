"""`tidegate doctor`: each part of a deployment in a line, with what to do, and an exit code."""

from __future__ import annotations

import pytest

from tests.cli.project import Project, orders
from tidegate.spec import Flow, KafkaSource, Pipeline, Table

pytestmark = pytest.mark.slow


def states(project: Project, **variables: str) -> dict[str, str]:
    return {part["part"]: part["state"] for part in project.run("doctor", "--json", **variables).json["parts"]}


def test_a_deployment_without_faults_has_all_parts_that_its_pipelines_need(project: Project) -> None:
    project.declare(orders())
    result = project.run("doctor")
    assert result.code == 0, result.out
    assert "1 pipeline: orders" in result.row("pipelines", "ok")
    assert "no flow reads or writes a topic" in result.row("Kafka", "unused")
    assert "17." in result.row("Java", "ok") or "2" in result.row("Java", "ok")
    assert not list((project.folder / "lake").iterdir()), "nothing is left of the check"


def test_a_part_that_fails_hides_no_other_and_each_says_what_to_do(project: Project) -> None:
    (project.folder / "pipelines" / "broken.py").write_text("pipeline = 1 / 0\n")
    project.declare(orders())
    result = project.run(
        "doctor",
        TIDEGATE_LAK="/lake",
        TIDEGATE_CACHE=str(project.folder / "cache"),
        TIDEGATE_MASTER="spark://127.0.0.1:9",
    )
    assert result.code == 78
    assert "pipelines/broken.py" in result.row("pipelines", "failed")
    assert "rename it to TIDEGATE_LAKE" in result.row("settings", "failed")
    assert "run `tidegate setup`" in result.row("jars", "failed")
    assert "127.0.0.1:9 does not answer" in result.row("Spark master", "failed")
    assert " ok " in result.row("writable") and " ok " in result.row("landing zones ")
    assert result.err == "tidegate: 4 parts of 12 failed.\n"


def test_what_another_try_may_end_has_the_exit_code_of_a_retry(project: Project) -> None:
    clicks = Flow(
        name="bronze", source=KafkaSource(topic="clicks", format="json", schema="id INT"), target=Table("bronze.clicks")
    )
    project.declare(Pipeline(name="clicks", flows=(clicks,)))
    result = project.run("doctor", "--json")
    (failed,) = (part for part in result.json["parts"] if part["state"] == "failed")
    assert (result.code, failed["part"], failed["error"]["transient"]) == (75, "Kafka", True)


def test_a_folder_that_cannot_be_written_is_named(project: Project) -> None:
    (project.folder / "lake").write_text("no folder")
    assert states(project)["lake"] == "failed"
    assert str(project.folder / "lake") in project.run("doctor").row("lake", "failed")
