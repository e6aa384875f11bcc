"""A table of a list that is not valid stops itself alone, and a table whose line was removed is named until a person decides."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.project import Project
from tests.spec.test_tables import TABLES
from tidegate.lake.place import PipelinePlace
from tidegate.project import registry
from tidegate.spec import Pipeline

pytestmark = pytest.mark.slow

DECLARATION = """
from tidegate.spec import ChangeFeed, FileSource, Flow, Pipeline, Table, Tables


def copied(name: str, path: str, keys: tuple[str, ...], format: str = "csv", target: str | None = None) -> tuple[Flow, ...]:
    source = FileSource(path=path, format=format, schema="id INT NOT NULL, at TIMESTAMP")
    return (
        Flow(name=f"{name}_bronze", source=source, target=Table(f"bronze.{name}")),
        Flow(
            name=f"{name}_silver",
            source=ChangeFeed(f"bronze.{name}"),
            target=Table(target or f"silver.{name}", keys=keys, sequence_by="at"),
        ),
    )


pipeline = Pipeline(name="shop", tables=Tables("shop.csv", copied))
"""
HEADER = "name,path,keys,format,target\n"
CUSTOMERS, ORDERS, TILLS = (f"{name},{name},id,,\n" for name in ("customers", "orders", "tills"))
KEEP = 'keep it as it is: `tidegate flow keep shop orders_bronze orders_silver --reason "…"`'


def write(project: Project, *lines: str) -> None:
    """The list of tables."""
    (project.folder / "pipelines" / "shop.csv").write_text("".join((HEADER, *lines)))


@pytest.fixture
def shop(project: Project) -> Project:
    """A pipeline of a list of tables; those of customers and orders have files, and orders was run."""
    (project.folder / "pipelines" / "shop.py").write_text(DECLARATION)
    write(project, CUSTOMERS, ORDERS)
    for name in ("customers", "orders", "tills"):
        project.land("1.csv", "id,at\n1,2026-01-05T10:00:00Z\n", folder=name)
    return project


def loaded(project: Project, monkeypatch: pytest.MonkeyPatch) -> Pipeline:
    """The declaration, in this process."""
    import pipelines

    monkeypatch.setattr(pipelines, "__path__", [str(project.folder / "pipelines")])
    return registry.reload("shop")


@pytest.fixture
def ran(shop: Project, monkeypatch: pytest.MonkeyPatch) -> Project:
    """What runs of the table of orders left."""
    pipeline = loaded(shop, monkeypatch)
    shop.table("bronze.orders", [{"line": "1"}])
    shop.table("silver.orders", [{"id": number} for number in range(3)])
    bronze = shop.checkpoint(pipeline, pipeline.flow("orders_bronze"))
    bronze.listed(0, shop.folder / "landing/orders/1.csv").plan(0, {"logOffset": 0}).commit(0)
    shop.checkpoint(pipeline, pipeline.flow("orders_silver"))
    return shop


def test_a_table_that_is_not_valid_fails_by_its_name_and_the_others_are_planned(shop: Project) -> None:
    write(shop, CUSTOMERS, "orders,orders,id,xlsx,\n", TILLS)
    message = (
        "table orders cannot run: pipelines/shop.csv line 3, table 'orders': FileSource: format='xlsx' is not allowed"
    )

    plan = shop.run("plan", "shop")

    assert plan.code == 78
    assert plan.row("customers_bronze  ", "yes") and plan.row("tills_silver  ", "yes")
    assert plan.row(f"shop: {message}")
    assert "orders_bronze" not in plan.out
    assert shop.run("plan", "shop", "--flow", "tills_bronze").code == 0
    assert (
        "tills_silver; pipelines/shop.csv line 3 is not valid"
        in shop.run("plan", "shop", "--flow", "orders_silver").err
    )
    assert shop.run("plan", "shop", "--mode", "full_refresh").code == 78
    [invalid] = shop.run("plan", "shop", "--json").json["invalid_tables"]
    assert (invalid["name"], invalid["where"]) == ("orders", "pipelines/shop.csv line 3")
    status = shop.run("status")
    assert status.code == 78
    assert status.row("shop/orders ", "error") and status.row("shop/tills_bronze", "behind")
    assert "shop/orders: pipelines/shop.csv line 3, table 'orders'" in status.out
    assert shop.run("alerts", "shop").row("shop ", "unreadable", "pipelines/shop.csv line 3, table 'orders'")


def test_a_run_without_work_ends_with_the_error_of_the_table_that_is_not_valid(shop: Project) -> None:
    write(shop, "empty,empty,id,,\n", "orders,orders,,,\n")
    (shop.folder / "landing/empty").mkdir()

    result = shop.run("run", "shop")

    assert result.code == 78
    assert "table orders cannot run: pipelines/shop.csv line 3, table 'orders': keys is missing" in result.out
    assert "no JVM was started" in result.out
    assert not list(Path(PipelinePlace(shop.layout, "shop").reports).glob("*/*"))


@pytest.mark.jvm
@pytest.mark.nightly
def test_a_run_with_work_runs_the_other_tables_and_ends_with_the_error_of_the_one_that_is_not_valid(
    shop: Project,
) -> None:
    write(shop, CUSTOMERS, "orders,orders,,,\n")

    result = shop.run("run", "shop")

    assert result.code == 78, result.err
    assert "table orders cannot run: pipelines/shop.csv line 3, table 'orders': keys is missing" in result.out
    assert "customers_silver -> silver.customers: done, 1 batch" in result.out
    assert shop.run("run", "shop", "--flow", "customers_bronze", "--flow", "customers_silver").code == 0


def test_a_table_that_writes_what_a_declared_flow_writes_stops_alone_and_so_does_one_without_source(
    shop: Project,
) -> None:
    (shop.folder / "pipelines" / "own.py").write_text(
        DECLARATION.replace(
            'name="shop", tables=Tables("shop.csv", copied)', 'name="own", flows=copied("own", "own", ("id",))'
        )
    )
    (shop.folder / "landing/own").mkdir()
    write(shop, CUSTOMERS, "orders,orders,id,,silver.own\n")

    plan = shop.run("plan", "shop")

    assert plan.code == 78
    assert plan.row("customers_silver  ", "yes") and plan.row("orders_bronze  ", "yes")
    assert "flow 'own_silver' in pipelines/own.py writes 'silver.own' too" in plan.row("orders_silver  ", "error")
    assert shop.run("plan", "own").code == 0


def test_a_table_whose_line_no_longer_fits_its_checkpoint_stops_itself_alone(ran: Project) -> None:
    write(ran, CUSTOMERS, "orders,orders,at,,\n")

    plan = ran.run("plan", "shop")

    assert plan.code == 78
    assert plan.row("customers_silver  ", "yes") and plan.row("orders_bronze  ", "no")
    assert "checkpoint v1 was made with another declaration (keys: ['id']" in plan.row("orders_silver  ", "error")
    assert ran.run("status", "shop").row("shop/orders_silver", "error")


def test_a_pipeline_that_reads_a_table_which_is_not_valid_names_its_line(shop: Project) -> None:
    reader = """from tidegate.spec import ChangeFeed, Flow, Pipeline, Table
pipeline = Pipeline(name="reader", flows=(
    Flow(name="copy", source=ChangeFeed("silver.orders"), target=Table("gold.orders", keys=("id",)), transform="reader:copy"),
))
"""
    (shop.folder / "pipelines" / "reader.py").write_text(reader)
    (shop.folder / "spark_jobs" / "reader.py").write_text("def copy(rows):\n    return rows\n")
    assert shop.run("plan", "reader").code == 0
    write(shop, CUSTOMERS, "orders,orders,,,\n")

    result = shop.run("plan", "reader")

    assert result.code == 78
    assert "or correct pipelines/shop.csv line 3" in result.out + result.err


def test_a_removed_table_is_named_until_it_is_kept_and_goes_on_when_it_is_declared_again(ran: Project) -> None:
    write(ran, CUSTOMERS)
    left = (
        "2 flows are not declared any more, and all that they wrote is still there",
        "  orders_bronze: bronze.orders with 1 row, checkpoint v1/0 after batch 0",
        "  orders_silver: silver.orders with 3 rows, checkpoint v1/0 before its first batch",
        f"Next: {KEEP}, or declare them again: they go on where they stopped.",
    )

    for command in (("plan", "shop"), ("status",), ("status", "shop"), ("plan", "shop", "--mode", "full_refresh")):
        result = ran.run(*command)
        assert result.code == 0, result.err
        assert all(f"shop: {line}\n" in result.out for line in left), result.out
    removed = ran.run("plan", "shop", "--json").json["removed_flows"]
    assert [(each["flow"], each["target"], each["rows"]) for each in removed] == [
        ("orders_bronze", "bronze.orders", 1),
        ("orders_silver", "silver.orders", 3),
    ]
    assert ran.run("status", "--json").json["removed_flows"] == removed
    keep = ran.run("flow", "keep", "shop", "orders_bronze", "orders_silver", "--reason", "the shop closed")
    assert (keep.code, keep.out.splitlines()[0].partition(" by ")[0]) == (
        0,
        "shop/orders_bronze: v1/0 after batch 0 kept",
    )
    assert "declared any more" not in ran.run("plan", "shop").out + ran.run("status").out
    assert ran.run("flow", "show", "shop").row("orders_silver", "kept by", "the shop closed")

    write(ran, CUSTOMERS, ORDERS)

    assert ran.run("plan", "shop").row("orders_bronze  ", "no", "nothing new in orders")
    assert ran.run("checkpoint", "shop").row("orders_bronze", "v1")


def test_a_removed_table_that_ran_again_since_it_was_kept_is_named_again(
    ran: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = loaded(ran, monkeypatch)
    write(ran, CUSTOMERS)
    ran.run("flow", "keep", "shop", "orders_bronze", "orders_silver", "--reason", "no need")
    ran.checkpoint(pipeline, pipeline.flow("orders_bronze")).plan(1, {"logOffset": 1}).commit(1)

    plan = ran.run("plan", "shop")

    assert "1 flow is not declared any more" in plan.out
    assert plan.row("orders_bronze: bronze.orders with 1 row, checkpoint v1/0 after batch 1")
    assert "orders_silver" not in plan.out


def test_only_what_a_removed_flow_left_is_kept(ran: Project) -> None:
    declared = ran.run("flow", "keep", "shop", "orders_bronze", "--reason", "no need")
    write(ran, CUSTOMERS)
    unknown = ran.run("flow", "keep", "shop", "orders_bronze", "order_bronze", "--reason", "no need")
    without = ran.run("flow", "keep", "shop", "orders_bronze", "--reason", " ")

    assert (declared.code, unknown.code, without.code) == (64, 64, 64)
    assert "flow 'orders_bronze' of 'shop' is declared; removed flows: none" in declared.err
    assert (
        "flow 'order_bronze' of 'shop' has left nothing in the lake; removed flows: orders_bronze, orders_silver"
        in unknown.err
    )
    assert "2 flows are not declared any more" in ran.run("plan", "shop").out


def test_nothing_is_said_of_removed_tables_while_the_list_has_one_that_is_not_valid(ran: Project) -> None:
    write(ran, CUSTOMERS, "orders,orders,,,\n")

    plan = ran.run("plan", "shop")

    assert plan.row("table orders cannot run", "keys is missing")
    assert "declared any more" not in plan.out


def test_what_a_removed_flow_left_damaged_does_not_stop_the_others(ran: Project) -> None:
    write(ran, CUSTOMERS)
    (Path(ran.layout.root) / "checkpoints/shop/orders_silver/v1.json").write_text("{")

    plan = ran.run("plan", "shop")

    assert plan.code == 0
    assert plan.row("orders_silver: a table that cannot be read")


def test_many_tables_are_planned_and_read_in_one_call(shop: Project) -> None:
    write(shop, *(f"t{number},orders,id,,\n" for number in range(TABLES)))

    plan = shop.run("plan", "shop", "--json")

    assert plan.code == 0, plan.err
    assert len(plan.json["flows"]) == 2 * TABLES
    assert all(flow["has_work"] for flow in plan.json["flows"])
