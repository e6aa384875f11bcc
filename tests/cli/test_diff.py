"""`tidegate diff` compares tables of two environments."""

from __future__ import annotations

import dataclasses
import json
import re
from typing import Any

import pytest

from tests import places
from tests.cli.project import Project, Result, append, orders
from tidegate.checkpoints import checkpoint
from tidegate.environment.settings import FILE
from tidegate.lake.layout import Layout
from tidegate.spec import Table

TWO = """project = "shop"
default = "dev"
[environments.dev]
lake = "dev"
[environments.prod]
lake = "prod"
"""
ROWS = [{"order_id": str(n), "amount": n * 1.5, "_batch_id": 0} for n in range(1, 9)]


class Environments:
    """A project with the environments dev and prod."""

    def __init__(self, project: Project) -> None:
        self.project = project
        (project.folder / FILE).write_text(TWO)

    def layout(self, name: str) -> Layout:
        return Layout.local(self.project.folder / name, self.project.folder / "landing")

    def table(self, environment: str, rows: list[dict[str, Any]], name: str = "silver.orders") -> None:
        append(self.layout(environment).table(name), rows)

    def diff(self, *arguments: str, **variables: str) -> Result:
        return self.project.run("diff", *arguments, **{"TIDEGATE_LAKE": "", "TIDEGATE_LANDING": "", **variables})


@pytest.fixture
def both(project: Project) -> Environments:
    project.declare(orders())
    return Environments(project)


def test_equal_tables_end_with_0_and_others_with_3(both: Environments) -> None:
    both.table("dev", [{**row, "_batch_id": 7} for row in ROWS])
    both.table("prod", ROWS)
    equal = both.diff("prod")
    assert (equal.code, equal.out) == (0, "silver.orders: equal, 8 rows, compared by order_id\n")

    both.table(
        "dev", [{"order_id": "10", "amount": 0.5, "_batch_id": 8}, {"order_id": "9", "amount": 2.0, "_batch_id": 8}]
    )
    both.table("prod", [{"order_id": "9", "amount": 1.0, "_batch_id": 1}])
    different = both.diff("prod", "silver.orders")
    assert different.code == 3
    assert different.out == (
        "silver.orders: differs, compared by order_id\n"
        "  rows: 10 in dev, 9 in prod\n"
        "  1 row only in dev\n"
        '    {"order_id": "10", "amount": 0.5}\n'
        "  1 row changed: amount 1\n"
        '    {"order_id": "9"}: {"amount": 2.0}, there {"amount": 1.0}\n'
    )
    [table] = both.diff("prod", "--json").json["tables"]
    assert (table["rows_here"], table["rows_there"], table["only_here"], table["only_there"]) == (10, 9, 1, 0)
    assert table["changed_columns"] == {"amount": 1} and table["keys"] == ["order_id"]
    assert both.diff("prod", "--samples", "0").out.count("{") == 0


def test_a_table_that_the_other_environment_lacks_is_a_difference(both: Environments) -> None:
    both.table("dev", ROWS)
    both.table("dev", ROWS, "gold.orders")
    both.table("prod", ROWS)
    result = both.diff("prod")
    assert result.code == 3
    assert result.out.splitlines()[0] == "gold.orders: not compared: environment 'prod' has no such table"
    document = both.diff("prod", "--json").json
    assert not document["equal"] and [each["equal"] for each in document["tables"]] == [False, True]


def test_a_table_with_other_keys_there_is_not_compared(both: Environments) -> None:
    pipeline = orders()
    silver = pipeline.flow("silver")
    for name, keys in (("dev", ("order_id",)), ("prod", ("order_id", "day"))):
        both.table(name, ROWS)
        flow = dataclasses.replace(silver, target=Table("silver.orders", keys=keys, sequence_by=("amount",)))
        checkpoint.write_sidecar(places.current(both.layout(name), pipeline, flow), flow)
    result = both.diff("prod")
    assert result.code == 3
    assert result.out == "silver.orders: not compared: rows have the keys order_id here, and order_id, day there\n"


def test_a_table_without_keys_is_compared_by_its_rows(both: Environments) -> None:
    both.table("dev", [*ROWS, ROWS[0]], "bronze.orders")
    both.table("prod", ROWS, "bronze.orders")
    result = both.diff("prod")
    assert result.code == 3
    assert result.out.startswith("bronze.orders: differs, compared by all columns\n  rows: 9 in dev, 8 in prod\n")
    both.table("prod", [ROWS[0]], "bronze.orders")
    assert both.diff("prod").code == 0


def test_a_table_that_no_flow_declares_is_compared_by_its_rows(both: Environments) -> None:
    for name in ("dev", "prod"):
        both.table(name, ROWS, "silver.old")
    assert "no flow declares it" in both.diff("prod").out


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("dev",), "'dev' is this environment; tidegate.toml has prod"),
        (("prd",), "there is no environment 'prd'; tidegate.toml has prod"),
        (("prod", "silver.other"), "the lake at .*/dev has no table 'silver.other'; it has silver.orders"),
        (("prod", "silver.orders"), "the lake at .*/prod has no table 'silver.orders'; it has no tables"),
    ],
)
def test_what_is_missing_is_an_error_of_usage(both: Environments, arguments: tuple[str, ...], says: str) -> None:
    both.table("dev", ROWS)
    result = both.diff(*arguments)
    assert result.code == 64 and re.search(says, result.err), result.err


def test_a_lake_without_tables_and_lakes_of_others_are_errors(both: Environments) -> None:
    empty = both.diff("prod")
    assert empty.code == 64 and "has no tables yet" in empty.err
    both.table("dev", ROWS)
    both.table("prod", ROWS)
    marker = both.layout("prod").marker
    marker.put(json.dumps({"format": 99, "tidegate": "9.0"}).encode())
    newer = both.diff("prod")
    assert newer.code == 78 and "has format 99" in newer.err and "9.0" in newer.err
    marker.put(json.dumps({"format": 1, "project": "garden", "environment": "prod"}).encode())
    other = both.diff("prod")
    assert other.code == 78 and "is that of environment 'prod' of project 'garden'" in other.err
    own = both.diff("prod", TIDEGATE_LAKE=str(both.project.folder / "prod"))
    assert own.code == 78 and "has the lake" in own.err
