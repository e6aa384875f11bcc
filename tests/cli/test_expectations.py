"""`tidegate expectations propose` and `check` on real Delta tables; the command that starts Spark is tested with it."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.cli.project import Project, orders
from tests.docs.guides import QUICK_JAVA

ROOT = Path(__file__).parents[2]
DELETED = "ADA"


@pytest.fixture
def filled(project: Project) -> Project:
    """A silver table of a hundred orders and a tombstone."""
    project.declare(orders())
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


def test_a_proposal_is_a_suite_that_a_gate_takes(filled: Project) -> None:
    told = filled.run("expectations", "propose", "orders", "--flow", "silver")
    assert told.code == 0, told.err
    assert DELETED not in told.out
    rules = {(rule["type"], rule["kwargs"].get("column")): rule["kwargs"] for rule in told.json["expectations"]}
    assert rules["expect_column_values_to_be_in_set", "state"]["value_set"] == ["open", "paid"]
    assert rules["expect_column_value_lengths_to_equal", "order_id"]["value"] == 4
    assert rules["expect_column_values_to_be_between", "amount"]["max_value"] == 150.0
    assert not (filled.folder / "expectations").exists()

    assert filled.run("expectations", "propose", "orders", "--flow", "silver", "--write").code == 0
    checked = filled.run("expectations", "check", "--json")
    assert checked.code == 0, checked.err
    (suite,) = checked.json["suites"]
    assert (suite["suite"], suite["error"], suite["notes"]) == ("orders/silver", None, [])
    assert suite["row_rules"] + suite["batch_rules"] == len(told.json["expectations"])


def test_a_suite_that_is_there_is_not_replaced_by_accident(filled: Project) -> None:
    path = filled.folder / "expectations" / "orders" / "silver.json"
    path.parent.mkdir(parents=True)
    path.write_text("mine")
    told = filled.run("expectations", "propose", "orders", "--flow", "silver", "--write")
    assert told.code == 64
    assert "--force" in told.err
    assert path.read_text() == "mine"
    assert filled.run("expectations", "propose", "orders", "--flow", "silver", "--write", "--force").code == 0
    assert json.loads(path.read_text())["name"] == "orders/silver"


def test_a_flow_without_a_gate_is_told_how_to_get_one(filled: Project) -> None:
    filled.table("gold.orders", [{"day": "a", "orders": 1}])
    told = filled.run("expectations", "propose", "orders", "--flow", "gold", "--write")
    assert 'add gate=Gate("orders/gold")' in told.out
    assert filled.run("expectations", "coverage", "orders", "--flow", "gold").code == 64


def test_a_table_that_is_not_there_has_nothing_to_propose(project: Project) -> None:
    project.declare(orders())
    told = project.run("expectations", "propose", "orders", "--flow", "silver")
    assert told.code == 64
    assert "`tidegate run orders` makes it" in told.err


def test_a_check_names_what_is_wrong_and_what_is_odd(filled: Project) -> None:
    folder = filled.folder / "expectations" / "orders"
    folder.mkdir(parents=True)
    airport = {"column": "airport", "table": "silver.airports", "table_column": "code"}
    odd = {"type": "expect_column_values_to_be_in_table", "kwargs": airport}
    (folder / "silver.json").write_text(json.dumps({"name": "orders/silver", "expectations": [odd]}))
    (folder / "old.json").write_text("{}")
    told = filled.run("expectations", "check", "orders")
    assert told.code == 0, told.err
    assert "orders/silver: in_table(airport): table 'silver.orders' has no column 'airport'" in told.out
    assert "orders/silver: in_table(airport): no declared flow writes 'silver.airports'" in told.out
    assert "orders/old: no flow uses it" in told.out

    odd["kwargs"] = {**airport, "table": "/etc/passwd"}
    (folder / "silver.json").write_text(json.dumps({"name": "orders/silver", "expectations": [odd]}))
    told = filled.run("expectations", "check", "orders")
    assert told.code == 78
    assert "allowed: '<layer>.<table>' with the layer bronze, silver or gold" in told.err


@pytest.mark.jvm
def test_coverage_lists_what_no_rule_catches_and_who_catches_the_rest(filled: Project) -> None:
    for shared in ("jars", "jars.lock.json", ".cache"):
        (filled.folder / shared).symlink_to(ROOT / shared)
    folder = filled.folder / "expectations" / "orders"
    folder.mkdir(parents=True)
    rules = [
        ("expect_column_values_to_be_in_set", {"column": "state", "value_set": ["open", "paid"]}, "warning"),
        ("expect_column_values_to_be_between", {"column": "ordered_at", "min_value": "2026-01-01"}, "info"),
        ("expect_column_mean_to_be_between", {"column": "amount", "min_value": 0}, "critical"),
    ]
    plain = [{"type": kind, "kwargs": kwargs, "severity": severity} for kind, kwargs, severity in rules]
    (folder / "silver.json").write_text(json.dumps({"name": "orders/silver", "expectations": plain}))
    before = sorted(path.name for path in filled.layout.table("silver.orders").rglob("*"))

    asked = ("expectations", "coverage", "orders", "--flow", "silver", "--rows", "20", "--json")
    told = filled.run(*asked, JAVA_TOOL_OPTIONS=QUICK_JAVA)

    assert told.code == 0, told.err
    found = {(line["column"], line["change"]): line["caught_by"] for line in told.json["mutants"]}
    assert found["order_id", "null"] == ["null_key(order_id)"]
    assert found["amount", "null"] == ["null_sequence(amount)", "mean_between(amount)"]
    assert found["state", "same key, another value"] == []
    assert found["amount", "a text of another type"] == ["wrong_type(amount)"]
    assert found["amount", "too small"] == ["mean_between(amount)"]
    assert found["amount", "too large"] == []
    assert found["state", "truncated"] == found["state", "a number"] == ["in_set(state)"]
    assert found["ordered_at", "late"] == ["between(ordered_at) (recorded only)"]
    assert found["*", "doubled rows"] == ["deduplicated by its keys"]
    assert sorted(path.name for path in filled.layout.table("silver.orders").rglob("*")) == before
