"""`tidegate contract` on a real history: what changed, what waits, who answered, and how a field is promoted."""

from __future__ import annotations

import pytest

from tests.cli.project import Project, orders
from tests.written import drift_waits
from tidegate.ops import evolution
from tidegate.schema.drift import Change

DRIFT = "0a1b2c3d4e5f"


@pytest.fixture
def drifted(project: Project) -> Project:
    """A batch of the flow silver waits for two changes."""
    drift_waits(project.layout, project.declare(orders()), "silver", DRIFT)
    changes = [Change(kind="addition", field="gate"), Change(kind="case_clash", field="Amount", formerly="amount")]
    evolution.record(
        project.layout,
        "orders",
        [
            evolution.Line(
                flow="silver",
                event="refused",
                change=change,
                decision="freeze",
                drift=DRIFT,
                version_before=1,
                version_after=1,
                breaks=() if change.keeps_checkpoint else ("orders/gold",),
            )
            for change in changes
        ],
    )
    return project


def test_the_history_is_shown_with_what_waits(drifted: Project) -> None:
    told = drifted.run("contract", "show", "orders")
    assert told.code == 0
    assert "v1" in told.row("new field gate", "refused", "freeze")
    assert told.row("in case alone").endswith("orders/gold")
    assert f"silver waits for drift {DRIFT}" in told.out
    assert drifted.run("contract", "show", "orders", "--json").json["waiting"] == [DRIFT]


def test_an_answer_is_written_down_with_who_gave_it(drifted: Project) -> None:
    told = drifted.run("contract", "answer", "orders", DRIFT, "evolve", "--by", "ada")
    assert told.code == 0
    assert told.row("new field gate").endswith("evolve")
    assert "evolve by ada" in drifted.run("contract", "show", "orders").row("new field gate", "answered")
    assert "answer already" in drifted.run("contract", "answer", "orders", DRIFT, "evolve").out
    assert drifted.run("contract", "answer", "orders", DRIFT, "quarantine").code == 64
    assert drifted.run("contract", "answer", "orders", DRIFT, "maybe").code == 64


def test_promoting_prints_the_edits_and_makes_none(drifted: Project) -> None:
    before = {path: path.read_bytes() for path in (drifted.folder / "pipelines").rglob("*.py")}
    told = drifted.run("contract", "promote", "orders", "gate", "--type", "INT")
    assert told.code == 0
    assert "gate INT'" in told.row("1. pipelines/orders.py")
    assert told.row("checkpoint_version=2")
    assert {path: path.read_bytes() for path in before} == before


def test_what_no_record_brought_cannot_be_promoted(drifted: Project) -> None:
    unknown = drifted.run("contract", "promote", "orders", "colour")
    assert unknown.code == 64
    assert "Amount, gate" in unknown.err
    clash = drifted.run("contract", "promote", "orders", "Amount")
    assert clash.code == 64
