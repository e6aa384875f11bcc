"""The DAG `schema_approval` asks about a schema change once, and records the answer with its author."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from tests.airflow.in_process import InProcessRun
from tests.airflow.lake import Lake
from tests.spark_files import write_refused_schema_change
from tidegate.airflow.approval import question
from tidegate.errors import ContractRefusedError
from tidegate.lake.layout import Layout
from tidegate.lake.place import PipelinePlace
from tidegate.ops import evolution
from tidegate.reports.report import ErrorReport, FlowReport
from tidegate.schema.changes import SchemaChange

pytestmark = pytest.mark.airflow

SCHEMA_CHANGE_ID = "0a1b2c3d4e5f"
REFUSE = f"""
from tidegate.errors import ContractRefusedError
from tidegate.reports.report import ErrorReport

error = ContractRefusedError(
    "flights", "silver", 3, schema_change_id="{SCHEMA_CHANGE_ID}", changes=["new field gate"], declared="x"
)
silver = report.flow("silver")
silver.state, silver.error = "refused", ErrorReport.of(error)
report.flow("gold").state = "skipped"
report.ended_at = now()
report.write(path)
"""


@pytest.fixture
def refused(project_dir: Path) -> Layout:
    """A lake in which a refused batch of the flow silver waits."""
    landing = project_dir / ".data/landing"
    (landing / "flights").mkdir(parents=True)
    (landing / "flights" / "2013-01-01.csv").write_text("year,month,day\n2013,1,1\n")
    layout = Layout.local(project_dir / ".data/lake", landing)
    line = evolution.SchemaHistoryLine(
        flow="silver",
        event="refused",
        change=SchemaChange(kind="addition", field="gate"),
        decision="freeze",
        schema_change_id=SCHEMA_CHANGE_ID,
        version_before=1,
        version_after=1,
    )
    evolution.record(PipelinePlace(layout, "flights"), [line])
    return layout


def test_without_a_schema_approval_run_the_flow_fails_with_the_command_that_answers(
    refused: Layout, capsys: pytest.CaptureFixture[str]
) -> None:
    from dags.flights import dag

    # A task that is executed in this process has no supervisor that could trigger a run.
    run = InProcessRun(dag)
    run.xcoms["run", "attempt"] = "a1"
    error = ContractRefusedError(
        "flights", "silver", 3, schema_change_id=SCHEMA_CHANGE_ID, changes=["new field gate"], declared="x"
    )
    silver = FlowReport(
        flow="silver", target="silver.flights", checkpoint_version=1, state="refused", error=ErrorReport.of(error)
    )
    Lake(refused).report(run.run_id, "a1", flows=[silver])

    assert run.execute("silver") == "failed"

    assert "check that a file in dags/ builds it" in capsys.readouterr().out
    assert f"tidegate contract answer flights {SCHEMA_CHANGE_ID} evolve" in run.message


def test_a_refused_schema_change_triggers_one_run_that_a_person_answers(
    runs: Any, refused: Layout, spark_submit: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    from dags.flights import dag
    from dags.schema_approval import dag as approval

    spark_submit(REFUSE)
    run = runs.start(dag)
    assert runs.states(run)["silver"] == "failed", "the pipeline's own run does not wait"
    approvals = runs.call_api("GET", "dags/schema_approval/dagRuns")["dag_runs"]
    assert [each["dag_run_id"] for each in approvals] == [f"flights__silver__{SCHEMA_CHANGE_ID}"]
    capsys.readouterr()
    runs.start(dag)
    assert f"a run of schema_approval asks about schema change {SCHEMA_CHANGE_ID}" in capsys.readouterr().out
    assert runs.call_api("GET", "dags/schema_approval/dagRuns")["total_entries"] == 1, "one run per schema change"

    question = runs.resume(approval, runs.find(approval, approvals[0]["dag_run_id"]))
    assert runs.states(question)["ask"] == "awaiting_input"
    path = f"dags/schema_approval/dagRuns/{question.run_id}/taskInstances/ask/-1/hitlDetails"
    details = runs.call_api("GET", path)
    assert details["options"] == ["evolve", "quarantine"]
    assert "new field gate" in details["body"]
    runs.call_api("PATCH", path, {"chosen_options": ["evolve"], "params_input": {}})

    finished = runs.resume(approval, question)

    assert runs.states(finished) == {"ask": "success", "record": "success"}
    assert finished.state == "success"
    (line,) = [line for line in evolution.read(PipelinePlace(refused, "flights")) if line.event == "answered"]
    assert (line.schema_change_id, line.decision, line.decided_by) == (SCHEMA_CHANGE_ID, "evolve", "admin")
    assert evolution.is_answered(PipelinePlace(refused, "flights"), SCHEMA_CHANGE_ID)


def test_plan_asks_about_a_schema_change_that_another_run_has_found(
    runs: Any, refused: Layout, spark_submit: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    from dags.flights import dag
    from pipelines.flights import pipeline

    other_id = "5d4c3b2a1f0e"
    (line,) = evolution.read(PipelinePlace(refused, "flights"))
    evolution.record(PipelinePlace(refused, "flights"), [dataclasses.replace(line, schema_change_id=other_id)])
    write_refused_schema_change(refused, pipeline, "silver", other_id)
    spark_submit("report.write(path)")
    runs.start(dag)
    assert f"a new run of schema_approval asks about schema change {other_id}" in capsys.readouterr().out
    approvals = runs.call_api("GET", "dags/schema_approval/dagRuns")["dag_runs"]
    assert [each["conf"] for each in approvals if other_id in each["dag_run_id"]] == [
        {"pipeline": "flights", "flow": "silver", "schema_change_id": other_id}
    ]

    evolution.answer(PipelinePlace(refused, "flights"), other_id, "evolve", "ada")
    assert InProcessRun(dag).execute("plan") == "success"
    assert "about schema change" not in capsys.readouterr().out, "the batch no longer waits"


WAITS = {"pipeline": "flights", "flow": "silver", "schema_change_id": SCHEMA_CHANGE_ID}


@pytest.mark.parametrize(
    ("conf", "message"),
    [
        ({"schema_change_id": "ffffffffffff"}, "no batch of 'flights' was refused for schema change 'ffffffffffff'"),
        ({"pipeline": "clickstream"}, "no batch of 'clickstream' was refused for schema change"),
        ({"pipeline": "invented"}, "no batch of 'invented' was refused for schema change"),
        ({"flow": "gold"}, "is of flow 'silver' and not of 'gold'"),
        ({"changes": ["new field bonus"]}, "unknown key 'changes'; allowed: pipeline, flow, schema_change_id"),
    ],
)
def test_a_question_about_a_schema_change_that_no_batch_has_met_is_refused_and_nobody_is_asked(
    refused: Layout, conf: dict[str, Any], message: str
) -> None:
    from dags.schema_approval import dag as approval

    run = InProcessRun(approval, {**WAITS, **conf})
    assert run.execute("ask") == "failed"
    assert message in run.message


def test_a_schema_change_that_has_been_answered_is_not_asked_about_again(refused: Layout) -> None:
    from dags.schema_approval import dag as approval

    evolution.answer(PipelinePlace(refused, "flights"), SCHEMA_CHANGE_ID, "quarantine", "ada")
    run = InProcessRun(approval, WAITS)
    assert run.execute("ask") == "skipped"
    assert run.message == "ada answered 'quarantine'."


def test_the_question_lists_the_recorded_changes_and_is_not_a_template(refused: Layout) -> None:
    from dags.schema_approval import dag as approval

    (line,) = evolution.read(PipelinePlace(refused, "flights"))
    evolution.record(
        PipelinePlace(refused, "flights"),
        [
            dataclasses.replace(
                line, change=SchemaChange(kind="addition", field="{{ 7 * 7 }}"), breaks=("flights/gold",)
            )
        ],
    )
    text = question("flights", evolution.refusals(PipelinePlace(refused, "flights"), SCHEMA_CHANGE_ID))
    assert "Pipeline **flights**, flow **silver**: a batch waits" in text
    assert {"- new field gate", "- new field {{ 7 * 7 }}"} <= set(text.splitlines())
    assert "may break: flights/gold." in text
    assert approval.task_dict["ask"].template_fields == ()
