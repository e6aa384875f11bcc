"""The JVM that commits holds the leases of a flow: all of them or none, for as long as it works."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tidegate.checkpoints import lease as outside
from tidegate.errors import LeaseHeldError
from tidegate.layout import Layout
from tidegate.spark.driver import lease

pytestmark = pytest.mark.jvm

CHECKPOINT, TABLE = "checkpoint:flights/silver", "table:silver.flights"
BOTH = (TABLE, CHECKPOINT)


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(tmp_path / "lake", tmp_path / "landing")


def holders(layout: Layout) -> list[str | None]:
    return [outside.holder(layout, resource) for resource in BOTH]


def test_all_resources_are_held_under_the_name_of_the_owner_and_free_afterwards(spark: Any, layout: Layout) -> None:
    pid = spark._jvm.java.lang.ProcessHandle.current().pid()

    with lease.hold(spark, layout, BOTH, what="attempt a1 of flights"):
        assert [str(told).split(" on ")[0] for told in holders(layout)] == [f"attempt a1 of flights (pid {pid}"] * 2

    assert holders(layout) == [None, None]
    assert [layout.lease_owner(resource).exists() for resource in BOTH] == [False, False]


def test_they_are_free_again_when_the_work_fails(spark: Any, layout: Layout) -> None:
    with pytest.raises(KeyError), lease.hold(spark, layout, BOTH, what="attempt a1 of flights"):
        raise KeyError("the work")

    assert holders(layout) == [None, None]
    with lease.hold(spark, layout, BOTH, what="attempt a2 of flights"):
        assert None not in holders(layout)


def test_a_second_run_of_the_same_jvm_is_turned_away_and_the_first_keeps_its_lease(spark: Any, layout: Layout) -> None:
    with lease.hold(spark, layout, (TABLE,), what="attempt a1 of flights"):
        with (
            pytest.raises(LeaseHeldError, match="another run in this same process") as refused,
            lease.hold(spark, layout, BOTH, what="attempt a2 of flights"),
        ):
            pytest.fail("two writers at once")
        assert refused.value.transient
        held, free = holders(layout)
        assert str(held).startswith("attempt a1 of flights"), "its lock and its name are its own"
        assert free is None, "none is kept where one is lacking"


def test_a_lease_of_another_process_is_not_taken_and_its_owner_is_named(spark: Any, layout: Layout) -> None:
    with (
        outside.hold(layout, (TABLE,), what="quarantine waive of flights/silver"),
        pytest.raises(LeaseHeldError, match="quarantine waive of flights/silver"),
        lease.hold(spark, layout, BOTH, what="attempt a1 of flights"),
    ):
        pytest.fail("two writers at once")

    assert holders(layout) == [None, None]


def test_other_flows_and_tables_are_free_meanwhile(spark: Any, layout: Layout) -> None:
    with (
        lease.hold(spark, layout, BOTH, what="attempt a1 of flights"),
        lease.hold(spark, layout, ("checkpoint:flights/gold", "table:gold.delays"), what="attempt b1 of flights"),
    ):
        assert None not in holders(layout)
