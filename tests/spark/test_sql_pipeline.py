"""A pipeline whose transforms are SQL: filtered and refused rows, replay, a join without `on`, corrections, plans and verification."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.deployment import Deployment
from tidegate.checkpoints import derivation
from tidegate.errors import SpecError
from tidegate.project import resolution
from tidegate.status.plan import decide

pytestmark = [pytest.mark.jvm, pytest.mark.gx, pytest.mark.usefixtures("spark")]

DECLARATION = """
from tidegate.spec import ChangeFeed, FileSource, Flow, Gate, Pipeline, Table

def landed(name, schema):
    return Flow(name=f"bronze_{name}", source=FileSource(path=name, format="csv", schema=schema), target=Table(f"bronze.{name}"))

pipeline = Pipeline(
    name="shop",
    flows=(
        landed("orders", "order_id STRING NOT NULL, customer STRING, amount STRING, at TIMESTAMP NOT NULL"),
        landed("customers", "id STRING NOT NULL, name STRING, at TIMESTAMP NOT NULL"),
        Flow(
            name="orders",
            source=ChangeFeed("bronze.orders"),
            transform="orders.sql",
            target=Table("silver.orders", keys=("order_id",), sequence_by=("at",)),
            gate=Gate("shop/orders"),
        ),
        Flow(
            name="customers",
            source=ChangeFeed("bronze.customers"),
            target=Table("silver.customers", keys=("id",), sequence_by=("at",)),
        ),
        Flow(
            name="totals",
            sources=(ChangeFeed("silver.orders"), ChangeFeed("silver.customers")),
            transform="totals.sql",
            target=Table("gold.totals", keys=("customer",)),
        ),
    ),
)
"""
ORDERS = """
SELECT
  order_id,
  customer,
  CAST(amount AS DECIMAL(9, 2)) AS amount,
  at
FROM orders
WHERE customer NOT LIKE 'test%' -- rule: test_customer
  AND amount <> '-'
"""
TOTALS = """
SELECT o.customer, max(c.name) AS name, count(*) AS orders, sum(o.amount) AS amount
FROM orders o
LEFT JOIN customers c ON o.customer = c.id
GROUP BY o.customer
"""
POSITIVE = {
    "type": "expect_column_values_to_be_between",
    "kwargs": {"column": "amount", "min_value": 0},
    "severity": "warning",
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of the transforms, of the pipeline `shop`."""
    for package, files in (
        ("pipelines", {"shop.py": DECLARATION}),
        ("spark_jobs", {"orders.sql": ORDERS, "totals.sql": TOTALS}),
    ):
        (tmp_path / package).mkdir()
        for name, text in files.items():
            (tmp_path / package / name).write_text(text)
        module = importlib.import_module(package)
        monkeypatch.setattr(module, "__path__", [*module.__path__, str(tmp_path / package)])
    importlib.invalidate_caches()
    # Other tests have a pipeline of this name, too.
    sys.modules.pop("pipelines.shop", None)
    yield tmp_path / "spark_jobs"
    sys.modules.pop("pipelines.shop", None)


def silver(deployment: Deployment) -> dict[str, Any]:
    return {row["order_id"]: row["amount"] for row in deployment.table("silver.orders").to_pylist()}


def gold(deployment: Deployment) -> set[tuple[Any, ...]]:
    rows = deployment.table("gold.totals").to_pylist()
    return {(row["customer"], row["name"], row["orders"], row["amount"]) for row in rows}


def test_a_pipeline_in_sql_conserves_every_row(deployment: Deployment, folder: Path) -> None:
    (deployment.environment.project / "expectations" / "shop").mkdir()
    deployment.edit_suite("shop/orders", [POSITIVE])
    lines = [
        *(
            "A-1,ada,5.00,2026-01-01T00:00:00Z",
            "A-2,ada,4.00,2026-01-01T00:00:00Z",
            "A-3,ada,-1.00,2026-01-01T00:00:00Z",
        ),
        *("A-4,test1,2.00,2026-01-01T00:00:00Z", "A-5,bob,-,2026-01-01T00:00:00Z", "A-6,,3.00,2026-01-01T00:00:00Z"),
        *(f"B-{number},cleo,1.00,2026-01-01T00:00:00Z" for number in range(4)),
    ]
    deployment.land("1.csv", "order_id,customer,amount,at\n" + "\n".join(lines) + "\n", "orders")
    deployment.land("1.csv", "id,name,at\nada,Ada,2026-01-01T00:00:00Z\nbob,Bob,2026-01-01T00:00:00Z\n", "customers")
    report = deployment.run("shop")
    assert [(flow.state, flow.error) for flow in report.flows] == [("done", None)] * 5

    (line,) = [each for each in deployment.ledger("shop") if each["flow"] == "orders"]
    assert (line["read"], line["written"], line["quarantined"]) == (10, 6, 1)
    assert dict(line["filtered"]) == {"test_customer": 2, "where_2": 1}
    # The amount of A-5 is no number: what is filtered is not cast.
    assert deployment.quarantined("orders", "shop")["rules"].to_pylist() == [["between(amount)"]]
    assert silver(deployment) == {
        "A-1": Decimal("5.00"),
        "A-2": Decimal("4.00"),
        **{f"B-{n}": Decimal("1.00") for n in range(4)},
    }
    assert gold(deployment) == {("ada", "Ada", 2, Decimal("9.00")), ("cleo", None, 4, Decimal("4.00"))}
    deployment.expect_a_balanced_ledger("shop")

    resolved = resolution.load("shop", deployment.environment.project)
    assert resolved.flow("totals").flow.feeds[1].on == {"customer": "id"}
    assert "follow every change" in derivation.summary(deployment.layout, resolved.flow("totals"))
    before = resolved.flow("orders").code_fingerprint()

    # The same file, corrected: the plan sees other code, and a replay writes what it now accepts.
    (folder / "orders.sql").write_text(
        ORDERS.replace("CAST(amount AS DECIMAL(9, 2))", "abs(CAST(amount AS DECIMAL(9, 2)))")
    )
    (folder / "totals.sql").write_text(TOTALS.replace("max(c.name)", "upper(max(c.name))"))
    resolved = resolution.load("shop", deployment.environment.project)
    assert resolved.flow("orders").code_fingerprint() != before
    assert derivation.summary(deployment.layout, resolved.flow("totals")) == derivation.NOT_CHECKED
    replayed = deployment.replay("orders", "shop")
    assert (replayed.error, silver(deployment)["A-3"]) == (None, Decimal("1.00"))
    deployment.land("2.csv", "id,name,at\nbob,Bob,2026-01-02T00:00:00Z\nada,Ada L.,2026-01-02T00:00:00Z\n", "customers")
    plan = decide(deployment.environment, resolved, resolved.pipeline.flows)
    assert [each.flow for each in plan.readings if each.has_work] == ["bronze_customers", "customers", "totals"]
    report = deployment.run("shop", ["bronze_customers", "customers", "totals"])
    assert [flow.error for flow in report.flows] == [None] * 3
    assert gold(deployment) == {("ada", "ADA L.", 3, Decimal("10.00")), ("cleo", None, 4, Decimal("4.00"))}

    # What is wrong is an error of its flow, before Spark; others run.
    (folder / "totals.sql").write_text(TOTALS.replace("customers c", "clients c"))
    resolved = resolution.load("shop", deployment.environment.project)
    assert [each.flow.name for each in resolved.flows if each.error] == ["totals"]
    error = resolved.flow("totals").error
    assert isinstance(error, SpecError)
    assert "spark_jobs/totals.sql line 4, column 11: it reads clients, which is not declared" in error.message
    plan = decide(deployment.environment, resolved, resolved.pipeline.flows)
    assert [each.flow for each in plan.readings if each.has_work] == []
