"""`tidegate contract` on a real history: changes, waiting batches, answers, and promoting a field."""

from __future__ import annotations

import pytest

from tests.cli.project import Project, orders
from tests.spark_files import write_refused_schema_change
from tidegate.lake.place import PipelinePlace
from tidegate.ops import evolution
from tidegate.schema.changes import SchemaChange
from tidegate.schema.names import hashed_name

pytestmark = pytest.mark.slow

SCHEMA_CHANGE_ID = "0a1b2c3d4e5f"


@pytest.fixture
def refused(project: Project) -> Project:
    """A batch of the flow silver waits for an answer about two changes."""
    write_refused_schema_change(project.layout, project.declare(orders()), "silver", SCHEMA_CHANGE_ID)
    changes = [
        SchemaChange(kind="addition", field="gate"),
        SchemaChange(kind="case_clash", field="Amount", formerly="amount"),
    ]
    evolution.record(
        PipelinePlace(project.layout, "orders"),
        [
            evolution.SchemaHistoryLine(
                flow="silver",
                event="refused",
                change=change,
                decision="freeze",
                schema_change_id=SCHEMA_CHANGE_ID,
                version_before=1,
                version_after=1,
                breaks=() if change.keeps_checkpoint else ("orders/gold",),
            )
            for change in changes
        ],
    )
    return project


def test_the_history_shows_the_schema_change_that_waits(refused: Project) -> None:
    result = refused.run("contract", "show", "orders")
    assert result.code == 0
    assert "v1" in result.row("new field gate", "refused", "freeze")
    assert result.row("only in case").endswith("orders/gold")
    assert f"silver waits for schema change {SCHEMA_CHANGE_ID}" in result.out
    assert refused.run("contract", "show", "orders", "--json").json["waiting"] == [SCHEMA_CHANGE_ID]


def test_an_answer_is_recorded_with_the_person_who_decided(refused: Project) -> None:
    result = refused.run("contract", "answer", "orders", SCHEMA_CHANGE_ID, "evolve", "--by", "ada")
    assert result.code == 0
    assert result.row("new field gate").endswith("evolve")
    assert "evolve by ada" in refused.run("contract", "show", "orders").row("new field gate", "answered")
    assert "already has that answer" in refused.run("contract", "answer", "orders", SCHEMA_CHANGE_ID, "evolve").out
    assert refused.run("contract", "answer", "orders", SCHEMA_CHANGE_ID, "quarantine").code == 64
    assert refused.run("contract", "answer", "orders", SCHEMA_CHANGE_ID, "maybe").code == 64


def test_promote_prints_edits_and_changes_no_file(refused: Project) -> None:
    before = {path: path.read_bytes() for path in (refused.folder / "pipelines").rglob("*.py")}
    result = refused.run("contract", "promote", "orders", "gate", "--type", "INT")
    assert result.code == 0
    assert "gate INT'" in result.row("1. pipelines/orders.py")
    assert result.row("checkpoint_version=2")
    assert {path: path.read_bytes() for path in before} == before


def test_a_field_whose_name_no_column_can_have_is_promoted_with_a_rename(refused: Project) -> None:
    line = evolution.SchemaHistoryLine(
        flow="silver",
        event="observed",
        change=SchemaChange(kind="addition", field=hashed_name("Größe (cm)")),
        decision="rescue",
        version_before=1,
        version_after=1,
    )
    evolution.record(PipelinePlace(refused.layout, "orders"), [line])
    result = refused.run("contract", "promote", "orders", "Größe (cm)", "--type", "INT")
    assert result.code == 0, result.err
    assert "groesse_cm INT'" in result.row("1. pipelines/orders.py")
    assert "fields={'Größe (cm)': 'groesse_cm'}" in result.out
    assert "must return the column groesse_cm" in result.out


def test_a_field_that_no_record_had_cannot_be_promoted(refused: Project) -> None:
    unknown = refused.run("contract", "promote", "orders", "colour")
    assert unknown.code == 64
    assert "Amount, gate" in unknown.err
    clash = refused.run("contract", "promote", "orders", "Amount")
    assert clash.code == 0
    assert "fields={'Amount': 'amount_2'}" in clash.out
    assert "must return the column amount_2" in clash.out
