"""A flow works under the leases of its checkpoint and its target; afterwards its report says how long and up to where."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.spark import flow_context as orders
from tidegate.checkpoints.lease import holder
from tidegate.errors import LeaseHeldError, SpecError, UnexpectedError
from tidegate.spark.context import FlowContext
from tidegate.spark.driver.turn import turn
from tidegate.spark.lake import sinks

pytestmark = pytest.mark.jvm

RESOURCES = ("checkpoint:orders/silver", "table:silver.orders")


@pytest.fixture
def silver(spark: Any, tmp_path: Path) -> FlowContext:
    return orders.flow_context(spark, tmp_path, orders.SILVER)


def holders(context: FlowContext) -> list[str | None]:
    return [holder(context.layout, resource) for resource in RESOURCES]


def write(context: FlowContext, batch_id: int) -> None:
    rows = context.spark.createDataFrame([(1,)], "id int")
    sinks.append(rows, context.live, orders.transaction(context, batch_id))


def test_checkpoint_and_table_are_held_for_the_turn_and_the_report_tells_time_and_version(silver: FlowContext) -> None:
    with turn(silver, work="flow 'silver'", holder="attempt a1 of orders"):
        assert [str(told).split(" (")[0] for told in holders(silver)] == ["attempt a1 of orders"] * 2
        write(silver, 0)
        write(silver, 1)

    assert holders(silver) == [None, None]
    assert silver.report.seconds > 0
    assert silver.report.target_version == 1


def test_a_turn_that_writes_nothing_has_no_version(silver: FlowContext) -> None:
    with turn(silver, work="flow 'silver'", holder="attempt a1 of orders"):
        pass

    assert silver.report.target_version is None


def test_who_meets_the_leases_does_no_work(silver: FlowContext) -> None:
    for _ in range(2):
        with turn(silver, work="flow 'silver'", holder="attempt a1 of orders"), pytest.raises(LeaseHeldError):
            with turn(silver, work="flow 'silver'", holder="attempt a2 of orders"):
                pytest.fail("two writers at once")
            pytest.fail("the second was not turned away")


def test_an_error_of_ours_passes_and_any_other_becomes_one_that_keeps_its_cause(silver: FlowContext) -> None:
    with pytest.raises(SpecError, match="mend it"), turn(silver, work="flow 'silver'", holder="attempt a1"):
        raise SpecError("mend it")
    assert holders(silver) == [None, None]

    with (
        pytest.raises(UnexpectedError, match="flow 'silver'") as raised,
        turn(silver, work="flow 'silver'", holder="a1"),
    ):
        write(silver, 0)
        raise ValueError("secret@example.org")

    assert "secret" not in raised.value.message
    assert isinstance(raised.value.__cause__, ValueError)
    assert silver.report.target_version == 0, "what was written before stays"
    assert holders(silver) == [None, None]
