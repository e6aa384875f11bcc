"""`tidegate plan`, and `tidegate run` up to where a JVM would start."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.cli.project import Project, orders
from tidegate.spec import ChangeFeed, FileSource, Flow, Pipeline, Table

NO_JAVA = {"JAVA_HOME": "/nowhere"}
"""Whatever asks for Java ends with 78: proof that nothing did, where it ends otherwise."""


@pytest.fixture
def drained(project: Project) -> Project:
    """One file, read; and silver and gold that read all there is."""
    pipeline = project.declare(orders())
    read = project.land("0.csv", "order_id,amount\nA-1,1.0\n")
    project.checkpoint(pipeline, pipeline.flow("bronze")).listed(0, read).plan(0, {"logOffset": 0}).commit(0)
    for flow, source in (("silver", "bronze.orders"), ("gold", "silver.orders")):
        offset = {
            "sourceVersion": 1,
            "reservoirId": project.table(source, [{"order_id": "A-1"}]),
            "reservoirVersion": 1,
            "index": -1,
            "isStartingVersion": False,
        }
        project.checkpoint(pipeline, pipeline.flow(flow)).plan(0, offset).commit(0)
    return project


def test_plan_says_that_nothing_is_new(drained: Project) -> None:
    told = drained.run("plan", "orders")
    assert told.code == 0
    assert "nothing is new" in told.out
    assert told.row("silver ").endswith("nothing new in bronze.orders")


def test_plan_says_what_is_new_and_that_flows_below_will_have_work(drained: Project) -> None:
    drained.land("1.csv", "order_id,amount\nA-2,2.0\n")
    told = drained.run("plan", "orders", "--json").json
    assert told["work"] is True
    assert [flow["has_work"] for flow in told["flows"]] == [True, True, True]
    assert told["flows"][0]["reason"] == "1 new file in orders"


def test_plan_of_one_flow_asks_for_that_flow_only(drained: Project) -> None:
    drained.land("1.csv", "order_id,amount\nA-2,2.0\n")
    told = drained.run("plan", "orders", "--flow", "silver", "--json").json
    assert [flow["flow"] for flow in told["flows"]] == ["silver"]
    assert told["work"] is False


def test_a_source_that_is_away_does_not_hide_the_other_flows_of_the_plan(project: Project) -> None:
    pipeline = project.declare(orders(topic="clicks"))
    project.table("bronze.clicks", [{"order_id": "A-1"}])
    told = project.run("plan", pipeline.name)
    assert told.code == 75
    assert "error" in told.row("no Kafka broker")
    assert "no" in told.row("silver ", "waits: flow bronze does not get through")
    assert "clicks: a run would end with the error of flow bronze" in told.out
    found = project.run("plan", pipeline.name, "--json")
    assert (found.code, found.json["work"], found.json["flows"][0]["error"]["transient"]) == (75, False, True)


@pytest.fixture
def mixed(project: Project) -> Project:
    """A landing folder with a file, beside one that is missing and a topic whose broker is away."""
    (files, *_), (topic, *_) = orders().flows, orders(topic="clicks").flows
    source = FileSource(path="lost", format="csv", schema="order_id STRING NOT NULL, amount DOUBLE")
    lost = replace(files, name="lost", source=source, target=Table("bronze.lost"))
    below = Flow(name="below", source=ChangeFeed("bronze.lost"), transform="orders:clean", target=Table("silver.lost"))
    project.declare(Pipeline(name="mixed", flows=(lost, below, replace(topic, name="clicks"), files)))
    project.land("1.csv", "order_id,amount\nA-1,1.0\n")
    return project


def test_plan_lists_flows_that_fail_beside_those_with_work_and_ends_with_their_code(mixed: Project) -> None:
    told = mixed.run("plan", "mixed")
    assert told.code == 78, "a person's before one that heals by waiting"
    assert "error" in told.row("lost ", "landing folder")
    assert told.row("below ").endswith("waits: flow lost does not get through")
    assert "error" in told.row("clicks ", "no Kafka broker")
    assert "yes" in told.row("bronze ", "1 new file in orders")
    assert "mixed: a run would find work, and fail in flows lost, clicks" in told.out
    assert told.row("bronze: reads 1 new file")
    found = mixed.run("plan", "mixed", "--json")
    assert (found.code, found.json["work"]) == (78, True)
    errors = {flow["flow"]: flow["error"] and flow["error"]["kind"] for flow in found.json["flows"]}
    assert errors == {"lost": "SourceError", "below": None, "clicks": "SourceUnavailableError", "bronze": None}


def test_a_run_goes_on_to_the_application_for_the_flows_that_have_work(mixed: Project) -> None:
    told = mixed.run("run", "mixed", **NO_JAVA)
    assert told.code == 78
    assert "JAVA_HOME" in told.err


@pytest.mark.parametrize(("flows", "code"), [(("lost", "clicks"), 78), (("clicks",), 75)])
def test_a_run_in_which_only_failing_flows_have_something_to_do_ends_with_their_error_and_starts_no_jvm(
    mixed: Project, flows: tuple[str, ...], code: int
) -> None:
    told = mixed.run("run", "mixed", *(word for flow in flows for word in ("--flow", flow)), **NO_JAVA)
    assert told.code == code
    assert "JAVA_HOME" not in told.err
    assert ("landing folder" if code == 78 else "no Kafka broker") in told.err
    assert not mixed.layout.reports("mixed").exists()


def test_a_run_without_news_says_so_and_starts_no_jvm(drained: Project) -> None:
    told = drained.run("run", "orders", **NO_JAVA)
    assert told.code == 0, told.err
    assert "nothing is new; no JVM was started" in told.out
    assert not drained.layout.reports("orders").exists()


def test_a_forced_run_would_start_one(drained: Project) -> None:
    told = drained.run("run", "orders", "--force", **NO_JAVA)
    assert told.code == 78
    assert "JAVA_HOME" in told.err


def test_an_incompatible_declaration_is_refused_before_any_jvm(drained: Project) -> None:
    path = drained.folder / "pipelines" / "orders.py"
    path.write_text(
        path.read_text()
        .replace("('order_id',)", "('amount',)")
        .replace("sequence_by=('amount',)", "sequence_by=('day',)")
    )
    drained.land("1.csv", "order_id,amount\nA-2,2.0\n")
    told = drained.run("run", "orders", **NO_JAVA)
    assert told.code == 78
    assert "keys: ['order_id'] -> ['amount']" in told.err
    assert "checkpoint_version=2" in told.err


def test_a_run_of_another_flow_does_not_ask_about_the_incompatible_one(drained: Project) -> None:
    path = drained.folder / "pipelines" / "orders.py"
    path.write_text(path.read_text().replace("orders:clean", "orders:tidy"))
    assert drained.run("run", "orders", "--flow", "bronze", **NO_JAVA).code == 0
