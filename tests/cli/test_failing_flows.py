"""A declaration that cannot be resolved is an error of the commands; no job starts that could not run a flow."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.cli.project import Project, orders
from tidegate.lake.place import PipelinePlace
from tidegate.spec import ChangeFeed, Flow, Pipeline, Table

pytestmark = pytest.mark.slow

COMMANDS = (
    ("plan", "orders"),
    ("run", "orders"),
    ("run", "orders", "--mode", "full_refresh"),
    ("checkpoint", "orders"),
    ("contract", "show", "orders"),
    ("quarantine", "replay", "orders", "silver"),
)


def without_suite(project: Project) -> str:
    (project.folder / "expectations/orders/silver.json").unlink()
    return "suite 'orders/silver' (orders/silver.json) does not exist"


def without_transform(project: Project) -> str:
    (project.folder / "spark_jobs/orders.py").write_text("def totals(rows):\n    return rows\n")
    return "transform 'orders:clean': spark_jobs/orders.py has no function 'clean'"


@pytest.fixture
def declared(project: Project) -> Project:
    """Silver has something to read, and its quarantine has an entry."""
    project.declare(orders())
    project.table("bronze.orders", [{"line": "A-1,1.0"}])
    (project.folder / "landing/orders").mkdir()
    return project


@pytest.mark.parametrize("command", COMMANDS)
def test_a_source_that_no_flow_writes_is_an_error_of_every_command_of_its_pipeline(
    project: Project, command: tuple[str, ...]
) -> None:
    bronze, silver, gold = orders().flows
    project.declare(Pipeline(name="orders", flows=(bronze, silver, replace(gold, source=ChangeFeed("silver.lost")))))

    result = project.run(*command)

    assert result.code == 78
    assert "pipelines/orders.py, flow 'gold': no declared flow writes its source table 'silver.lost'" in result.err


@pytest.mark.parametrize("command", COMMANDS)
def test_two_writers_of_a_table_are_an_error_of_every_command_of_both_pipelines(
    project: Project, command: tuple[str, ...]
) -> None:
    project.declare(orders())
    project.declare(Pipeline(name="copy", flows=(orders().flows[0],)))

    result = project.run(*command)

    assert result.code == 78
    assert "flow 'bronze': flow 'bronze' in pipelines/copy.py writes 'bronze.orders' too" in result.err
    states = {flow["pipeline"]: flow["state"] for flow in project.run("status", "--json").json["flows"]}
    assert states == {"orders": "error", "copy": "error"}


@pytest.mark.parametrize("breaks", [without_suite, without_transform])
def test_a_flow_without_its_suite_or_transform_fails_by_its_name_and_stops_only_the_flows_behind_it(
    declared: Project, breaks: Callable[[Project], str]
) -> None:
    message = breaks(declared)
    declared.land("1.csv", "order_id,amount\nA-1,1.0\n")

    plan = declared.run("plan", "orders")

    assert plan.code == 78
    assert plan.row("bronze ", "yes")
    assert message in plan.row("silver ", "error", "pipelines/orders.py, flow 'silver'")
    assert plan.row("gold ", "no", "waits for silver: error")
    assert "a run would find work, and fail in flow silver" in plan.out
    status = declared.run("status", "orders")
    assert (status.code, message in status.out) == (78, True)
    assert status.row("orders/bronze ", "behind")


@pytest.mark.parametrize("breaks", [without_suite, without_transform])
@pytest.mark.parametrize("mode", [(), ("--mode", "full_refresh")])
def test_a_run_in_which_no_flow_could_run_has_the_error_and_starts_no_jvm(
    declared: Project, breaks: Callable[[Project], str], mode: tuple[str, ...]
) -> None:
    message = breaks(declared)

    result = declared.run("run", "orders", *mode)

    assert (result.code, message in result.err) == (78, True), result.out + result.err
    assert not list(Path(PipelinePlace(declared.layout, "orders").reports).glob("*/*"))
    planned = declared.run("plan", "orders", *mode)
    assert (planned.code, message in planned.out) == (78, True)


def test_a_flow_reads_a_table_of_another_pipeline(project: Project) -> None:
    project.declare(orders())
    report = Flow(
        name="report",
        source=ChangeFeed("silver.orders"),
        transform="report:by_day",
        target=Table("gold.r", keys=("day",)),
    )
    project.declare(Pipeline(name="report", flows=(report,)))
    (project.folder / "landing/orders").mkdir()
    assert project.run("plan", "report").code == 0
    (project.folder / "pipelines/orders.py").write_text("pipeline = (")
    result = project.run("plan", "report")
    assert result.code == 78
    assert result.row("report ", "error", "or correct pipelines/orders.py")
