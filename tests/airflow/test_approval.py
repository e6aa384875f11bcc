"""A drift is asked about once, in a DAG of its own, and the answer stands in the history with who gave it."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from tests.airflow.in_process import InProcessRun
from tests.airflow.lake import Lake
from tests.written import drift_waits
from tidegate.errors import ContractRefusedError
from tidegate.layout import Layout
from tidegate.ops import evolution
from tidegate.report import FlowReport, describe_error
from tidegate.schema.drift import Change

pytestmark = pytest.mark.airflow

DRIFT = "0a1b2c3d4e5f"
REFUSE = f"""
from tidegate.errors import ContractRefusedError
from tidegate.report import describe_error

error = ContractRefusedError(
    "flights", "silver", 3, drift="{DRIFT}", changes=["new field gate"], declared="x"
)
silver = report.flow("silver")
silver.state, silver.error = "refused", describe_error(error)
report.flow("gold").state = "skipped"
report.ended_at = now()
report.write(path)
"""


@pytest.fixture
def refused(places: Path) -> Layout:
    """A lake in which a batch of the flow silver waits."""
    landing = places / ".data/landing"
    (landing / "flights").mkdir(parents=True)
    (landing / "flights" / "2013-01-01.csv").write_text("year,month,day\n2013,1,1\n")
    layout = Layout(places / ".data/lake", landing)
    line = evolution.Line(
        flow="silver",
        event="refused",
        change=Change(kind="addition", field="gate"),
        decision="freeze",
        drift=DRIFT,
        version_before=1,
        version_after=1,
    )
    evolution.record(layout, "flights", [line])
    return layout


def test_where_airflow_opens_no_run_the_flow_is_red_and_names_the_command_that_answers(
    refused: Layout, capsys: pytest.CaptureFixture[str]
) -> None:
    from dags.flights import dag

    # Nobody who could open a run stands behind a task that is executed in process.
    run = InProcessRun(dag)
    run.xcoms["run", "attempt"] = "a1"
    error = ContractRefusedError("flights", "silver", 3, drift=DRIFT, changes=["new field gate"], declared="x")
    silver = FlowReport(
        flow="silver", target="silver.flights", checkpoint_version=1, state="refused", error=describe_error(error)
    )
    Lake(refused).report(run.run_id, "a1", flows=[silver])

    assert run.execute("silver") == "failed"

    assert "is dags/schema_approval.py there?" in capsys.readouterr().out
    assert f"tidegate contract answer flights {DRIFT} evolve" in run.message


def test_a_refused_drift_opens_one_run_that_a_person_answers(
    runs: Any, refused: Layout, spark_submit: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    from dags.flights import dag
    from dags.schema_approval import dag as approval

    spark_submit(REFUSE)
    run = runs.start(dag)
    assert runs.states(run)["silver"] == "failed", "the pipeline's own run does not wait"
    asked = runs.ask_api("GET", "dags/schema_approval/dagRuns")["dag_runs"]
    assert [each["dag_run_id"] for each in asked] == [f"flights__silver__{DRIFT}"]
    capsys.readouterr()
    runs.start(dag)
    assert f"a run of schema_approval asks about drift {DRIFT}" in capsys.readouterr().out
    assert runs.ask_api("GET", "dags/schema_approval/dagRuns")["total_entries"] == 1, "one run per drift"

    question = runs.go_on(approval, runs.find(approval, asked[0]["dag_run_id"]))
    assert runs.states(question)["ask"] == "awaiting_input"
    place = f"dags/schema_approval/dagRuns/{question.run_id}/taskInstances/ask/-1/hitlDetails"
    shown = runs.ask_api("GET", place)
    assert shown["options"] == ["evolve", "quarantine"]
    assert "new field gate" in shown["body"]
    runs.ask_api("PATCH", place, {"chosen_options": ["evolve"], "params_input": {}})

    done = runs.go_on(approval, question)

    assert runs.states(done) == {"ask": "success", "record": "success"}
    assert done.state == "success"
    (line,) = [line for line in evolution.read(refused, "flights") if line.event == "answered"]
    assert (line.drift, line.decision, line.decided_by) == (DRIFT, "evolve", "admin")
    assert evolution.is_answered(refused, "flights", DRIFT)


def test_plan_asks_about_a_drift_that_waits_whoever_met_it(
    runs: Any, refused: Layout, spark_submit: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    from dags.flights import dag
    from pipelines.flights import pipeline

    met = "5d4c3b2a1f0e"
    (line,) = evolution.read(refused, "flights")
    evolution.record(refused, "flights", [dataclasses.replace(line, drift=met)])
    drift_waits(refused, pipeline, "silver", met)
    spark_submit("report.write(path)")
    runs.start(dag)
    assert f"a new run of schema_approval asks about drift {met}" in capsys.readouterr().out
    asked = runs.ask_api("GET", "dags/schema_approval/dagRuns")["dag_runs"]
    assert [each["conf"] for each in asked if met in each["dag_run_id"]] == [
        {"pipeline": "flights", "flow": "silver", "drift": met, "changes": ["new field gate"], "breaks": []}
    ]

    evolution.answer(refused, "flights", met, "evolve", "ada")
    assert InProcessRun(dag).execute("plan") == "success"
    assert "about drift" not in capsys.readouterr().out, "it waits no more"
