"""A flow runs under the leases of its checkpoint and target; its report gets duration and target version."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.spark import flow_context as orders
from tidegate.checkpoints.lease import holder
from tidegate.errors import LeaseHeldError, SpecError, UnexpectedError
from tidegate.spark.context import FlowContext
from tidegate.spark.driver.leased import leased_flow
from tidegate.spark.lake import writes

pytestmark = pytest.mark.jvm

RESOURCES = ("checkpoint:orders/silver", "table:silver.orders")


@pytest.fixture
def silver(spark: Any, tmp_path: Path) -> FlowContext:
    return orders.flow_context(spark, tmp_path, orders.SILVER)


def holders(context: FlowContext) -> list[str | None]:
    return [holder(context.layout, resource) for resource in RESOURCES]


def write(context: FlowContext, batch_id: int) -> None:
    rows = context.spark.createDataFrame([(1,)], "id int")
    writes.append(rows, context.live, orders.transaction(context, batch_id))


def test_both_leases_are_held_and_the_report_gets_duration_and_version(silver: FlowContext) -> None:
    with leased_flow(silver, work="flow 'silver'", holder="attempt a1 of orders"):
        assert [str(owner).split(" (")[0] for owner in holders(silver)] == ["attempt a1 of orders"] * 2
        write(silver, 0)
        write(silver, 1)

    assert holders(silver) == [None, None]
    assert silver.report.seconds > 0
    assert silver.report.target_version == 1


def test_a_flow_that_writes_nothing_has_no_target_version(silver: FlowContext) -> None:
    with leased_flow(silver, work="flow 'silver'", holder="attempt a1 of orders"):
        pass

    assert silver.report.target_version is None


def test_a_second_run_of_the_flow_raises_before_any_work(silver: FlowContext) -> None:
    for _ in range(2):
        with leased_flow(silver, work="flow 'silver'", holder="attempt a1 of orders"), pytest.raises(LeaseHeldError):
            with leased_flow(silver, work="flow 'silver'", holder="attempt a2 of orders"):
                pytest.fail("two writers at once")
            pytest.fail("the second run got the leases")


def test_a_tidegate_error_is_raised_unchanged_and_any_other_is_translated_with_its_cause(silver: FlowContext) -> None:
    with pytest.raises(SpecError, match="fix it"), leased_flow(silver, work="flow 'silver'", holder="attempt a1"):
        raise SpecError("fix it")
    assert holders(silver) == [None, None]

    with (
        pytest.raises(UnexpectedError, match="flow 'silver'") as raised,
        leased_flow(silver, work="flow 'silver'", holder="a1"),
    ):
        write(silver, 0)
        raise ValueError("secret@example.org")

    assert "secret" not in raised.value.message
    assert isinstance(raised.value.__cause__, ValueError)
    assert silver.report.target_version == 0, "the version written before the error is reported"
    assert holders(silver) == [None, None]
