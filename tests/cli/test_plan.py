"""`tidegate plan`, and `tidegate run` up to the start of the JVM."""

from __future__ import annotations

import json
import os
from dataclasses import replace

import pytest

import spark_jobs
from tests.cli.project import Project, orders
from tests.resolved import resolved_flow
from tidegate.checkpoints import derivation
from tidegate.checkpoints.derivation import Finding
from tidegate.lake.place import PipelinePlace
from tidegate.spec import ChangeFeed, FileSource, Flow, Pipeline, Resources, Table

pytestmark = pytest.mark.slow

NO_JAVA = {"JAVA_HOME": "/nowhere"}
"""A command that looks for Java exits with 78; any other exit code proves that it did not."""


@pytest.fixture
def up_to_date(project: Project) -> Project:
    """All flows are up to date: one landed file is read, silver and gold have read everything."""
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


def test_plan_shows_that_nothing_is_new(up_to_date: Project) -> None:
    result = up_to_date.run("plan", "orders")
    assert result.code == 0
    assert "nothing is new" in result.out
    assert result.row("silver ").endswith("nothing new in bronze.orders")


def test_plan_shows_what_is_new_and_that_downstream_flows_have_work(up_to_date: Project) -> None:
    up_to_date.land("1.csv", "order_id,amount\nA-2,2.0\n")
    result = up_to_date.run("plan", "orders", "--json").json
    assert result["work"] is True
    assert [flow["has_work"] for flow in result["flows"]] == [True, True, True]
    assert result["flows"][0]["reason"] == "1 new file in orders"


def test_plan_shows_what_the_application_will_ask_for_and_what_does_not_apply_to_the_master(project: Project) -> None:
    project.declare(replace(orders(), resources=Resources(driver_memory="3g", executors=2)))
    project.land("0.csv", "order_id,amount\nA-1,1.0\n")
    local = project.run("plan", "orders")
    assert "requests driver.memory 3g from local[2]; not applicable there: executors" in local.out
    values = project.run("plan", "orders", "--json", TIDEGATE_EXECUTOR_MEMORY="5g", TIDEGATE_MASTER="yarn").json
    assert values["resources"] == {
        "master": "yarn",
        "conf": {"spark.driver.memory": "3g", "spark.executor.instances": "2", "spark.executor.memory": "5g"},
        "not_applicable": [],
    }


@pytest.mark.jvm
def test_a_run_of_the_command_line_asks_for_what_the_pipeline_declares(project: Project) -> None:
    project.declare(replace(orders(), resources=Resources(driver_memory="3g", executors=2)))
    project.land("0.csv", "order_id,amount\nA-1,1.0\n")
    program = project.folder / "spark" / "bin" / "spark-submit"
    program.parent.mkdir(parents=True)
    program.write_text(f'#!/bin/sh\necho "$@" > {project.folder}/words\n')
    program.chmod(0o755)
    spark = {"SPARK_HOME": str(program.parents[1]), "TIDEGATE_MASTER": "yarn"}
    project.run("run", "orders", **spark)
    words = (project.folder / "words").read_text().split()
    assert {"spark.driver.memory=3g", "spark.executor.instances=2"} <= set(words)


def test_plan_of_one_flow_only_measures_that_flow(up_to_date: Project) -> None:
    up_to_date.land("1.csv", "order_id,amount\nA-2,2.0\n")
    result = up_to_date.run("plan", "orders", "--flow", "silver", "--json").json
    assert [flow["flow"] for flow in result["flows"]] == ["silver"]
    assert result["work"] is False


def test_an_unavailable_source_does_not_hide_the_other_flows_of_the_plan(project: Project) -> None:
    pipeline = project.declare(orders(topic="clicks"))
    project.table("bronze.clicks", [{"order_id": "A-1"}])
    result = project.run("plan", pipeline.name)
    assert result.code == 75
    assert "error" in result.row("no Kafka broker")
    assert "no" in result.row("silver ", "waits for bronze: unreachable")
    assert "clicks: a run would end with the error of flow bronze" in result.out
    output = project.run("plan", pipeline.name, "--json")
    assert (output.code, output.json["work"], output.json["flows"][0]["error"]["transient"]) == (75, False, True)


@pytest.fixture
def mixed(project: Project) -> Project:
    """A landing folder with a file, a file in place of a landing folder, and a topic whose broker is unavailable."""
    (files, *_), (topic, *_) = orders().flows, orders(topic="clicks").flows
    source = FileSource(path="lost", format="csv", schema="order_id STRING NOT NULL, amount DOUBLE")
    lost = replace(files, name="lost", source=source, target=Table("bronze.lost"))
    below = Flow(name="below", source=ChangeFeed("bronze.lost"), transform="orders:clean", target=Table("silver.lost"))
    project.declare(Pipeline(name="mixed", flows=(lost, below, replace(topic, name="clicks"), files)))
    project.land("1.csv", "order_id,amount\nA-1,1.0\n")
    (project.folder / "landing" / "lost").write_text("a file in place of the folder")
    return project


def test_plan_lists_failing_flows_with_the_others_and_exits_with_their_code(mixed: Project) -> None:
    result = mixed.run("plan", "mixed")
    assert result.code == 78, "a permanent error comes before a transient one"
    assert "error" in result.row("lost ", "landing folder")
    assert result.row("below ").endswith("waits for lost: error")
    assert "error" in result.row("clicks ", "no Kafka broker")
    assert "yes" in result.row("bronze ", "1 new file in orders")
    assert "mixed: a run would find work, and fail in flows lost, clicks" in result.out
    assert result.row("bronze: reads 1 new file")
    output = mixed.run("plan", "mixed", "--json")
    assert (output.code, output.json["work"]) == (78, True)
    errors = {flow["flow"]: flow["error"] and flow["error"]["kind"] for flow in output.json["flows"]}
    assert errors == {"lost": "SourceError", "below": None, "clicks": "SourceUnavailableError", "bronze": None}


def test_a_run_starts_the_application_if_any_flow_has_work(mixed: Project) -> None:
    result = mixed.run("run", "mixed", **NO_JAVA)
    assert result.code == 78
    assert "JAVA_HOME" in result.err


@pytest.mark.parametrize(("flows", "code"), [(("lost", "clicks"), 78), (("clicks",), 75)])
def test_a_run_with_only_failing_flows_exits_with_their_error_and_starts_no_jvm(
    mixed: Project, flows: tuple[str, ...], code: int
) -> None:
    result = mixed.run("run", "mixed", *(word for flow in flows for word in ("--flow", flow)), **NO_JAVA)
    assert result.code == code
    assert "JAVA_HOME" not in result.err
    assert ("landing folder" if code == 78 else "no Kafka broker") in result.err
    assert not PipelinePlace(mixed.layout, "mixed").reports.exists()


def test_a_run_with_nothing_new_starts_no_jvm(up_to_date: Project) -> None:
    result = up_to_date.run("run", "orders", **NO_JAVA)
    assert result.code == 0, result.err
    assert "nothing is new; no JVM was started" in result.out
    assert not PipelinePlace(up_to_date.layout, "orders").reports.exists()


def test_a_forced_run_starts_a_jvm(up_to_date: Project) -> None:
    result = up_to_date.run("run", "orders", "--force", **NO_JAVA)
    assert result.code == 78
    assert "JAVA_HOME" in result.err


def test_an_incompatible_declaration_is_refused_before_a_jvm_starts(up_to_date: Project) -> None:
    path = up_to_date.folder / "pipelines" / "orders.py"
    path.write_text(
        path.read_text()
        .replace("('order_id',)", "('amount',)")
        .replace("sequence_by=('amount',)", "sequence_by=('day',)")
    )
    up_to_date.land("1.csv", "order_id,amount\nA-2,2.0\n")
    result = up_to_date.run("run", "orders", **NO_JAVA)
    assert result.code == 78
    assert "keys: ['order_id'] -> ['amount']" in result.err
    assert "checkpoint_version=2" in result.err


def test_a_run_of_one_flow_ignores_an_incompatible_declaration_of_another(up_to_date: Project) -> None:
    path = up_to_date.folder / "pipelines" / "orders.py"
    path.write_text(path.read_text().replace("orders:clean", "orders:tidy"))
    assert up_to_date.run("run", "orders", "--flow", "bronze", **NO_JAVA).code == 0


def test_a_long_error_does_not_draw_a_long_rule_below_the_headers(mixed: Project) -> None:
    lines = mixed.run("plan", "mixed").out.splitlines()
    assert max(len(line) for line in lines) > 120, "the errors of the sources"
    assert set(lines[1]) <= {"─", " "}
    assert len(lines[1]) <= 100


def written_by(project: Project, table: str, *app_ids: str) -> None:
    """Add the checksum file that Spark writes, with the writers of a table."""
    transactions = [{"appId": app_id, "version": 0, "lastUpdated": 1} for app_id in app_ids]
    log = project.layout.table(table) / "_delta_log"
    (log / f"{0:020d}.crc").put((json.dumps({"setTransactions": transactions})).encode())


def test_the_plan_of_a_renamed_pipeline_ends_with_the_error_that_its_run_would_have(project: Project) -> None:
    project.land("0.csv", "order_id,amount\nA-1,1.0\n")
    project.table("bronze.orders", [{"line": "A-1,1.0"}])
    written_by(project, "bronze.orders", "orders/bronze/v1/0")
    renamed = project.declare(replace(orders(), name="sales"))
    for verb in ("plan", "run"):
        result = project.run(verb, renamed.name, **NO_JAVA)
        assert result.code == 78
        assert "flow 'bronze': table 'bronze.orders' was written by orders/bronze" in result.out
    assert "a run would find work" not in result.out
    (project.folder / "pipelines" / "sales.py").unlink()
    assert project.run("plan", project.declare(orders()).name).code == 0, "under its old name"


def test_the_plan_of_a_new_version_of_a_table_without_keys_is_to_derive_it_again(project: Project) -> None:
    bronze, silver, _ = orders().flows
    history = replace(silver, target=Table("silver.orders"), gate=None, checkpoint_version=2)
    project.declare(replace(orders(), flows=(bronze, history)))
    project.land("0.csv", "order_id,amount\nA-1,1.0\n")
    for table, writer in (("bronze.orders", "orders/bronze/v1/0"), ("silver.orders", "orders/silver/v1/0")):
        project.table(table, [{"order_id": "A-1"}])
        written_by(project, table, writer)
    result = project.run("plan", "orders")
    assert "all of bronze.orders, version 0" in result.row("silver ", "yes")


def test_the_preview_lists_files_after_their_number_and_unfinished_work_first(up_to_date: Project) -> None:
    read = up_to_date.land("0.csv", "order_id,amount\nA-1,1.0\nA-9,9.0\n")
    os.utime(read, (2_000_000_000, 2_000_000_000))
    up_to_date.land("1.csv", "order_id,amount\nA-2,2.0\n")
    up_to_date.land("notes.txt", "not a table")
    pipeline = orders()
    up_to_date.checkpoint(pipeline, pipeline.flow("bronze")).plan(1, {"logOffset": 1})
    output = up_to_date.run("plan", "orders").out
    assert (
        "bronze: reads 1 new file in orders: 1.csv; not read: 1 file in the folder that does not fit *.{csv,csv.gz,csv.bz2}; "
        "1 file changed after being read and will not be read again: land the new content under a new name, or reingest"
        in output
    )
    assert "bronze: before that: batch 1 was planned and not committed" in output
    assert "silver: reads what flow bronze writes" in output
    assert "reads reads" not in output


@pytest.mark.parametrize(
    "arguments",
    [("run", "orders"), ("plan", "orders", "--mode", "reingest", "--from", "2026-01-01", "--to", "2026-01-01")],
)
def test_an_error_before_a_jvm_starts_names_the_flow(project: Project, arguments: tuple[str, ...]) -> None:
    project.declare(orders())
    (project.folder / "landing" / "orders").write_text("a file in place of the folder")
    result = project.run(*arguments, **NO_JAVA)
    assert result.code == 78
    assert result.err.startswith("tidegate: flow 'bronze': landing folder")


def test_plan_refuses_what_an_earlier_run_found_of_a_transform_until_it_is_edited(
    up_to_date: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    transform = up_to_date.folder / "spark_jobs" / "orders.py"
    monkeypatch.setattr(spark_jobs, "__path__", [*spark_jobs.__path__, str(transform.parent)])
    up_to_date.land("1.csv", "order_id,amount\nA-2,2.0\n")
    assert up_to_date.run("plan", "orders").row("gold: it is not checked yet whether its rows follow every change")
    gold = resolved_flow(orders().flow("gold"), orders())
    doubt = Finding(fingerprint=derivation.fingerprint_of(gold), doubts=("uses MapInPandas",))
    derivation.record(up_to_date.layout, gold, doubt)
    assert up_to_date.run("plan", "orders").row("gold: it cannot be checked", "the transform uses MapInPandas")
    derivation.record(
        up_to_date.layout, gold, replace(doubt, problem="flow 'gold': groups by nothing", declares="keys")
    )

    refused = up_to_date.run("plan", "orders")

    assert refused.code == 78
    assert refused.row("gold ", "error", "flow 'gold': groups by nothing")
    transform.write_text(transform.read_text() + "\n\n")
    assert up_to_date.run("plan", "orders").row("gold: it is not checked yet")
