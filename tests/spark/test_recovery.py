"""A damaged lake is recovered by one plan: its tables have what those of an undamaged twin have, and nothing is left to do."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.spark.orders import Declare, Orders, row
from tests.spark.test_doubts import cut, put_back, remove, restore, tear
from tidegate.checkpoints import overrides
from tidegate.lake.layout import Layout
from tidegate.lake.place import FlowPlace, Place
from tidegate.project import resolution
from tidegate.runs.recover import plan as recovery
from tidegate.runs.recover.plan import Recovery

pytestmark = [pytest.mark.jvm]

FLOWS = ("bronze", "silver", "gold")
Act = Callable[[Layout, Path, str], None]


def tear_offsets(layout: Layout, older: Path, flow: str) -> None:
    """The newest offsets of a checkpoint end in the middle."""
    offsets = max(
        Path(Place(layout, "orders", flow, 1, 0).checkpoint / "offsets").glob("[0-9]*"), key=lambda path: int(path.name)
    )
    offsets.write_bytes(offsets.read_bytes()[:-9])


@dataclass(frozen=True)
class Case:
    acts: tuple[tuple[Act, str], ...]
    actions: tuple[str, ...]
    """What the plan does to bronze, silver and gold; fewer if the first ones are left alone."""


CASES = (
    Case(((restore, "bronze.orders"),), ("read again", "derive again", "follow")),
    Case(((restore, "silver.orders"),), ("derive again", "follow")),
    Case(((remove, "tables/silver"),), ("derive again", "derive again")),
    Case(((tear, "bronze.orders"),), ("read again", "derive again", "follow")),
    Case(((cut, "gold.orders"),), ("derive again",)),
    Case(((put_back, "tables"),), ("read again", "derive again", "derive again")),
    Case(((tear_offsets, "silver"),), ("derive again", "follow")),
    Case(((put_back, "checkpoints/orders/bronze/v1"),), ("read again", "follow", "follow")),
    Case(((remove, "checkpoints/orders/silver"),), ("derive again", "follow")),
    Case(
        ((remove, "tables/bronze/orders/_delta_log"), (tear, "gold.orders")),
        ("read again", "derive again", "derive again"),
    ),
)


def planned(orders: Orders) -> Recovery:
    environment = orders.deployment.environment
    return recovery.make(environment, {"orders": resolution.load("orders", environment.project)})


def contents(orders: Orders) -> dict[str, Any]:
    ignored = ("_batch_id", "_ingested_at")
    return {
        name: sorted(
            repr({column: value for column, value in each.items() if column not in ignored})
            for each in orders.deployment.table(name).to_pylist()
        )
        for name in ("bronze.orders", "silver.orders", "gold.orders")
    }


@pytest.mark.nightly
@pytest.mark.timeout(900)
def test_a_damaged_lake_is_recovered_in_the_order_of_its_graph(
    orders: Orders, declare: Declare, spark: Any, tmp_path: Path
) -> None:
    declare()
    layout, older, newer = orders.deployment.layout, tmp_path / "older", tmp_path / "newer"
    for number, copy in enumerate((older, newer), 1):
        orders.land(row(number), row(number + 10))
        assert {flow.state for flow in orders.run(*FLOWS).flows} == {"done"}
        shutil.copytree(Path(layout.root), copy)
    whole = contents(orders)
    assert planned(orders).lines() == []
    for case in CASES:
        what = [(act.__name__, part) for act, part in case.acts]
        for act, part in case.acts:
            act(layout, older, part)
        made = planned(orders)
        steps = {each.step.key[1]: each.step.action for each in made.steps}
        assert steps == dict(zip(FLOWS[-len(case.actions) :], case.actions, strict=True)), (what, made.lines())
        # As in a job of its own, Delta knows no log from before.
        spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
        report = orders.deployment.run("orders", steps, mode="recover")
        assert [flow.error for flow in report.flows] == [None] * len(steps), what
        assert contents(orders) == whole, what
        assert planned(orders).lines() == [], what
        decided = orders.plan()
        assert (decided.work, decided.errors) == (False, ()), (what, decided.reasons)
        shutil.rmtree(Path(layout.root))
        shutil.copytree(newer, Path(layout.root))

    shutil.rmtree(layout.table("bronze.orders"))
    (orders.deployment.environment.landing / "orders" / "2.json").unlink()
    ((_, loss),) = planned(orders).losses
    assert loss.acceptance == "bronze:lost=1"
    for accept, state, rows in (((), "failed", 0), (("bronze:lost=1",), "done", 2)):
        spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
        report = orders.deployment.run("orders", FLOWS, mode="recover", accept=accept)
        assert report.flow("bronze").state == state, report.flow("bronze").error
        assert layout.table("bronze.orders").exists() == bool(rows)
    assert planned(orders).lines() == []
    assert [row["id"] for row in orders.silver()] == [1, 11]
    (decision,) = overrides.history(FlowPlace(layout, "orders", "bronze"))
    assert decision.summary().startswith("the loss of 1 file of orders, removed or changed since: 2.json accepted by ")
    assert [line["read"] for line in orders.deployment.ledger("orders") if line["kind"] == "gap"] == [1]
    orders.deployment.expect_a_balanced_ledger("orders")
