"""Drift is classed before a row is written; each mode of a contract does with it what it says, and the history has it."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.deployment import Deployment
from tidegate import evolution, lag, progress, registry

pytestmark = pytest.mark.jvm

DECLARATION = """
from tidegate.spec import ChangeFeed, Contract, FileSource, Flow, Pipeline, Table

pipeline = Pipeline(
    name="orders",
    flows=(
        Flow(
            name="bronze",
            source=FileSource(path="orders", format="{format}", schema="{schema}", contract={contract}),
            target=Table("bronze.orders"),
        ),
        Flow(
            name="silver",
            source=ChangeFeed("bronze.orders"),
            transform="orders:clean",
            target=Table("silver.orders", keys=("id",), sequence_by=("at",)),
            checkpoint_version={version},
        ),
        Flow(
            name="gold", source=ChangeFeed("silver.orders"), transform="orders:daily", target=Table("gold.orders", keys=("at",))
        ),
    ),
)
"""
JOB = """
from pyspark.sql import functions as F

def clean(rows):
    return rows.select("_row_id", "_origin", "id", "at", {columns})

def daily(rows):
    return rows.groupBy("at").agg(F.count("*").alias("orders"))
"""
SCHEMA = "id INT NOT NULL, at DATE, amount DOUBLE"
Declare = Callable[..., None]


@pytest.fixture
def declare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Declare:
    """Writes the files of a pipeline `orders`, as a person edits them."""
    for package in ("pipelines", "spark_jobs"):
        folder = tmp_path / package
        folder.mkdir()
        module = importlib.import_module(package)
        monkeypatch.setattr(module, "__path__", [*module.__path__, str(folder)])

    def write(
        contract: str = "Contract()",
        *,
        schema: str = SCHEMA,
        version: int = 1,
        columns: str = '"amount"',
        format: str = "json",
    ) -> None:
        declared = DECLARATION.format(contract=contract, schema=schema, version=version, format=format)
        (tmp_path / "pipelines" / "orders.py").write_text(declared)
        (tmp_path / "spark_jobs" / "orders.py").write_text(JOB.format(columns=columns))
        for name in ("pipelines.orders", "spark_jobs.orders"):
            monkeypatch.delitem(sys.modules, name, raising=False)
        importlib.invalidate_caches()
        # Two versions written within one second would have the same time stamp.
        for cached in tmp_path.rglob("__pycache__/*.pyc"):
            cached.unlink()

    return write


class Orders:
    """The pipeline at work."""

    def __init__(self, deployment: Deployment) -> None:
        self.deployment = deployment
        self.landed = 0

    def land(self, *records: dict[str, Any]) -> None:
        self.landed += 1
        self.deployment.land(f"{self.landed}.json", "".join(f"{json.dumps(r)}\n" for r in records), "orders")

    def run(self, *flows: str) -> Any:
        return self.deployment.run("orders", flows or ("bronze", "silver"))

    def silver(self) -> list[dict[str, Any]]:
        rows = self.deployment.table("silver.orders").to_pylist()
        return sorted(
            (
                {name: value for name, value in row.items() if not name.startswith("_") or name == "_rescued"}
                for row in rows
            ),
            key=lambda row: row["id"],
        )

    def history(self) -> list[evolution.Line]:
        return evolution.read(self.deployment.layout, "orders")

    def quarantined(self) -> list[list[str]]:
        path = self.deployment.layout.quarantine("orders", "silver")
        return [row["rules"] for row in self.deployment.rows(path).to_pylist()] if path.exists() else []

    def plan(self) -> lag.Plan:
        pipeline = registry.load("orders")
        return lag.plan(self.deployment.environment, pipeline, pipeline.flows)


@pytest.fixture
def orders(deployment: Deployment, spark: Any, declare: Declare) -> Orders:
    return Orders(deployment)


def row(number: int, **more: Any) -> dict[str, Any]:
    return {"id": number, "at": "2026-01-01", "amount": 1.5, **more}


def test_unknown_fields_are_rescued(orders: Orders, declare: Declare) -> None:
    declare()
    orders.land(row(1, gate="B12", Amount=3), row(2))
    assert [flow.error for flow in orders.run().flows] == [None, None]
    assert [r["_rescued"] for r in orders.silver()] == ['{"gate":"B12","Amount":"3"}', None]
    assert {(line.event, line.change.kind, line.change.field, line.decision) for line in orders.history()} == {
        ("observed", "addition", "gate", "rescue"),
        ("observed", "case_clash", "Amount", "rescue"),
    }


def test_an_evolving_contract_adds_columns_and_keeps_the_checkpoint(orders: Orders, declare: Declare) -> None:
    declare("Contract(mode='evolve', columns={'noise': 'discard_value', 'amount': 'rescue'})")
    orders.land(row(1))
    orders.run()
    orders.land(row(2, gate="B12", noise="x"), {**row(3), "amount": "a lot"})

    report = orders.run()

    assert [flow.error for flow in report.flows] == [None, None]
    assert any("new field gate (evolve)" in note for note in report.flow("silver").notes)
    orders.land(row(4), row(5, gate="C1", Gate="c1"))
    assert orders.run().flow("silver").error is None
    assert [(r["id"], r["amount"], r["gate"], r["_rescued"]) for r in orders.silver()] == [
        (1, 1.5, None, None),
        (2, 1.5, "B12", None),
        (3, None, None, '{"amount":"a lot"}'),
        (4, 1.5, None, None),
        (5, 1.5, "C1", '{"Gate":"c1"}'),
    ]
    decided = {(line.change.field, line.decision) for line in orders.history()}
    assert decided == {("gate", "evolve"), ("noise", "discard_value"), ("Gate", "rescue")}, "each change once"


def test_a_frozen_contract_refuses_the_batch_until_it_is_answered(orders: Orders, declare: Declare) -> None:
    declare("Contract(mode='freeze')")
    orders.land(row(1))
    orders.run("bronze", "silver", "gold")
    orders.land(row(2), row(3, gate="B12"), {**row(4), "amount": "x"})

    silver = orders.run("bronze", "silver", "gold").flow("silver")

    assert silver.state == "refused"
    assert silver.error is not None
    assert silver.error["kind"] == "ContractRefusedError"
    assert "B12" not in json.dumps(silver.error), "names and types, never a value"
    assert silver.docs is not None
    page = orders.deployment.layout.lake / silver.docs
    assert page.name == "v1-0-batch-1.html"
    assert f"tidegate contract answer orders {silver.error['drift']} evolve" in page.read_text()
    assert [r["id"] for r in orders.silver()] == [1]
    assert orders.quarantined() == []
    state = progress.read(orders.deployment.layout.checkpoint("orders", "silver", 1, 0))
    assert (state.last_planned, state.last_committed) == (1, 0), "the offsets are not committed"
    plan = orders.plan()
    assert not plan.work
    drift = silver.error["drift"]
    assert any(f"drift {drift} needs an answer" in reason for reason in plan.reasons)

    evolution.answer(orders.deployment.layout, "orders", drift, "evolve", "ada")
    assert orders.plan().work
    assert [flow.state for flow in orders.run("bronze", "silver", "gold").flows] == ["idle", "done", "done"]

    assert "contract answer" not in page.read_text(), "the batch went on, and its page tells that"
    assert [(r["id"], r["gate"]) for r in orders.silver()] == [(1, None), (2, None), (3, "B12")]
    assert orders.quarantined() == [["wrong_type(amount)"]], "one value that does not fit is that row's fault"
    told = [(line.event, line.change.field, line.decision, line.decided_by) for line in orders.history()]
    assert told == [
        ("refused", "gate", "freeze", ""),
        ("answered", "gate", "evolve", "ada"),
        ("observed", "gate", "evolve", ""),
    ]


def test_an_answer_can_send_the_rows_with_the_drift_to_quarantine(orders: Orders, declare: Declare) -> None:
    declare("Contract(mode='freeze')")
    orders.land(row(1), row(2, gate="B12"))
    error = orders.run().flow("silver").error
    assert error is not None
    evolution.answer(orders.deployment.layout, "orders", error["drift"], "quarantine", "ada")

    assert orders.run().flow("silver").error is None

    assert [r["id"] for r in orders.silver()] == [1]
    assert orders.quarantined() == [["drift(gate)"]]
    orders.land({**row(3), "amount": "much"})
    retyped = orders.run().flow("silver").error
    assert retyped is not None, "another drift asks anew"
    assert retyped["changes"] == ("amount has another type: no value is double",)
    evolution.answer(orders.deployment.layout, "orders", retyped["drift"], "evolve", "ada")
    assert orders.run().flow("silver").error is None
    assert [(r["id"], r["amount"], r["_rescued"]) for r in orders.silver()][-1] == (3, None, '{"amount":"much"}')


def test_csv_headers_tell_what_is_gone_and_what_was_renamed(orders: Orders, declare: Declare) -> None:
    declare(format="csv")
    orders.deployment.land("a.csv", "id,at,amount\n1,2026-01-01,2\n", "orders")
    orders.deployment.land("b.csv", "id,at,Amounts\n2,2026-01-01,3\n", "orders")
    orders.deployment.land("c.csv", "id,at\n3,2026-01-01\n", "orders")

    assert [flow.error for flow in orders.run().flows] == [None, None]

    assert [(r["id"], r["amount"], r["_rescued"]) for r in orders.silver()] == [
        (1, 2.0, None),
        (2, None, '{"Amounts":"3"}'),
        (3, None, None),
    ]
    assert sorted((line.change.kind, line.change.field, line.breaks) for line in orders.history()) == [
        ("removal", "amount", ("orders/gold",)),
        ("rename_suspect", "Amounts", ("orders/gold",)),
    ]


def test_files_with_a_schema_of_their_own_are_judged_by_it(orders: Orders, declare: Declare) -> None:
    import io
    from datetime import date

    import fastavro
    import pyarrow as pa
    import pyarrow.parquet as pq

    declare("Contract(mode='evolve')", format="parquet")
    day = pa.array([date(2026, 1, 1)])
    small = {"id": pa.array([1], pa.int16()), "at": day, "amount": pa.array([1.5], pa.float32())}
    more = {"id": pa.array([2]), "at": day, "amount": pa.array(["2.5"]), "gate": pa.array([7], pa.int32())}
    for name, columns in (("a [1] 50%.parquet", small), ("b.parquet", more)):
        content = io.BytesIO()
        pq.write_table(pa.table(columns), content)
        orders.deployment.land(name, content.getvalue(), "orders")
    orders.deployment.land("c.parquet", b"PAR1 and nothing more", "orders")

    report = orders.run()

    assert [flow.error for flow in report.flows] == [None, None]
    assert report.flow("bronze").rules() == {"corrupt_file": 1}
    assert [(r["id"], r["amount"], r["gate"]) for r in orders.silver()] == [(1, 1.5, None), (2, 2.5, 7)]
    assert [(line.change.kind, line.change.field, line.change.after) for line in orders.history()] == [
        ("widening", "id", "bigint"),
        ("addition", "gate", "int"),
    ], "the column has the writer's type"

    declare("Contract(mode='evolve')", format="avro", version=2)
    (orders.deployment.environment.project.parent / "pipelines" / "orders.py").write_text(
        (orders.deployment.environment.project.parent / "pipelines" / "orders.py")
        .read_text()
        .replace('name="bronze",', 'name="bronze", checkpoint_version=2,')
    )
    fields = [
        {"name": "id", "type": "int"},
        {"name": "at", "type": {"type": "int", "logicalType": "date"}},
        {"name": "amount", "type": ["null", "boolean"]},
    ]
    content = io.BytesIO()
    schema = fastavro.parse_schema({"type": "record", "name": "Order", "fields": fields})
    fastavro.writer(content, schema, [{"id": 3, "at": date(2026, 1, 1), "amount": None}])
    orders.deployment.land("d.avro", content.getvalue(), "orders")

    assert [flow.error for flow in orders.run().flows] == [None, None]

    assert [(r["id"], r["gate"]) for r in orders.silver()] == [(1, None), (2, 7), (3, None)]
    (retyped,) = [line for line in orders.history() if line.change.kind == "type_change"]
    assert (retyped.change.before, retyped.change.after, retyped.breaks) == ("double", "boolean", ("orders/gold",))
