"""`tidegate expectations propose` and `check` on real Delta tables."""

from __future__ import annotations

import dataclasses
import json
import shutil
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.cli.project import Project, orders
from tidegate.spec import ChangeFeed, Flow, KafkaSink

DELETED = "ADA"


@pytest.fixture
def filled(project: Project) -> Project:
    """A silver table with a hundred orders and a deleted one; the suite of its flow is missing."""
    project.declare(orders())
    shutil.rmtree(project.folder / "expectations")
    rows: list[dict[str, Any]] = [
        {
            "order_id": f"o{number:03d}",
            "amount": float(number),
            "state": "paid" if number % 3 else "open",
            "ordered_at": datetime(2026, 1, 5, 10, number % 60, tzinfo=UTC),
            "_deleted": False,
        }
        for number in range(1, 101)
    ]
    project.table("silver.orders", [*rows, {**rows[0], "order_id": "o", "state": DELETED, "_deleted": True}])
    return project


@pytest.mark.nightly
@pytest.mark.gx
def test_a_proposal_is_a_valid_suite(filled: Project) -> None:
    result = filled.run("expectations", "propose", "orders", "--flow", "silver")
    assert result.code == 0, result.err
    assert DELETED not in result.out
    rules = {(rule["type"], rule["kwargs"].get("column")): rule["kwargs"] for rule in result.json["expectations"]}
    assert rules["expect_column_values_to_be_in_set", "state"]["value_set"] == ["open", "paid"]
    assert rules["expect_column_value_lengths_to_equal", "order_id"]["value"] == 4
    assert rules["expect_column_values_to_be_between", "amount"]["max_value"] == 150.0
    assert not (filled.folder / "expectations").exists()

    assert filled.run("expectations", "propose", "orders", "--flow", "silver", "--write").code == 0
    checked = filled.run("expectations", "check", "--json")
    assert checked.code == 0, checked.err
    (suite,) = checked.json["suites"]
    assert (suite["suite"], suite["error"], suite["notes"]) == ("orders/silver", None, [])
    assert suite["row_rules"] + suite["batch_rules"] == len(result.json["expectations"])


@pytest.mark.gx
def test_a_flow_that_sends_a_table_has_nothing_to_propose(project: Project) -> None:
    sent = Flow(name="sent", source=ChangeFeed("silver.orders"), target=KafkaSink("orders"))
    project.declare(dataclasses.replace(orders(), flows=(*orders().flows, sent)))
    result = project.run("expectations", "propose", "orders", "--flow", "sent")
    assert (result.code, "it sends silver.orders to kafka.orders. Name the flow" in result.err) == (64, True)


@pytest.mark.gx
def test_an_existing_suite_is_not_overwritten_without_force(filled: Project) -> None:
    path = filled.folder / "expectations" / "orders" / "silver.json"
    path.parent.mkdir(parents=True)
    path.write_text("mine")
    result = filled.run("expectations", "propose", "orders", "--flow", "silver", "--write")
    assert result.code == 64
    assert "--force" in result.err
    assert path.read_text() == "mine"
    assert filled.run("expectations", "propose", "orders", "--flow", "silver", "--write", "--force").code == 0
    assert json.loads(path.read_text())["name"] == "orders/silver"


@pytest.mark.gx
def test_the_output_shows_how_to_add_a_gate_to_a_flow_without_one(filled: Project) -> None:
    filled.table("gold.orders", [{"day": "a", "orders": 1}])
    result = filled.run("expectations", "propose", "orders", "--flow", "gold", "--write")
    assert 'add gate=Gate("orders/gold")' in result.out


@pytest.mark.gx
def test_propose_needs_an_existing_table(project: Project) -> None:
    project.declare(orders())
    result = project.run("expectations", "propose", "orders", "--flow", "silver")
    assert result.code == 64
    assert "`tidegate run orders` creates it" in result.err


@pytest.mark.gx
def test_check_reports_errors_and_notes(filled: Project) -> None:
    folder = filled.folder / "expectations" / "orders"
    folder.mkdir(parents=True)
    airport = {"column": "airport", "table": "silver.airports", "table_column": "code"}
    odd = {"type": "expect_column_values_to_be_in_table", "kwargs": airport}
    (folder / "silver.json").write_text(json.dumps({"name": "orders/silver", "expectations": [odd]}))
    (folder / "old.json").write_text("{}")
    result = filled.run("expectations", "check", "orders")
    assert result.code == 0, result.err
    assert "orders/silver: in_table(airport): table 'silver.orders' has no column 'airport'" in result.out
    assert "orders/silver: in_table(airport): no declared flow writes 'silver.airports'" in result.out
    assert "orders/old: no flow uses it" in result.out

    odd["kwargs"] = {**airport, "table": "/etc/passwd"}
    (folder / "silver.json").write_text(json.dumps({"name": "orders/silver", "expectations": [odd]}))
    result = filled.run("expectations", "check", "orders")
    assert result.code == 78
    assert "allowed: '<layer>.<table>' with the layer bronze, silver or gold" in result.err
