"""The JVM that commits holds all leases of a flow or none of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tidegate.checkpoints import lease as lease_probe
from tidegate.errors import LeaseHeldError
from tidegate.lake.layout import Layout
from tidegate.spark.driver import lease

pytestmark = pytest.mark.jvm

CHECKPOINT, TABLE = "checkpoint:flights/silver", "table:silver.flights"
BOTH = (TABLE, CHECKPOINT)


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout.local(tmp_path / "lake", tmp_path / "landing")


def holders(layout: Layout) -> list[str | None]:
    return [lease_probe.holder(layout, resource) for resource in BOTH]


def test_all_leases_are_held_with_the_owners_name_and_released_afterwards(spark: Any, layout: Layout) -> None:
    pid = spark._jvm.java.lang.ProcessHandle.current().pid()

    with lease.hold(spark, layout, BOTH, what="attempt a1 of flights"):
        assert [str(owner).split(" on ")[0] for owner in holders(layout)] == [f"attempt a1 of flights (pid {pid}"] * 2

    assert holders(layout) == [None, None]
    assert [layout.lease_owner(resource).exists() for resource in BOTH] == [False, False]


def test_the_leases_are_released_when_the_work_fails(spark: Any, layout: Layout) -> None:
    with pytest.raises(KeyError), lease.hold(spark, layout, BOTH, what="attempt a1 of flights"):
        raise KeyError("the work")

    assert holders(layout) == [None, None]
    with lease.hold(spark, layout, BOTH, what="attempt a2 of flights"):
        assert None not in holders(layout)


def test_no_lease_stays_held_when_the_name_of_the_holder_cannot_be_written(
    spark: Any, layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise OSError("no space left on device")

    with monkeypatch.context() as patched, pytest.raises(OSError, match="no space") as failed:
        patched.setattr(lease, "write_owner", fail)
        with lease.hold(spark, layout, BOTH, what="attempt a1 of flights"):
            pytest.fail("a holder without a name")

    assert holders(layout) == [None, None], f"held as long as a traceback lives: {failed.traceback}"
    with lease.hold(spark, layout, BOTH, what="attempt a2 of flights"):
        assert None not in holders(layout)


def test_a_second_run_in_the_same_jvm_gets_no_lease_and_the_first_keeps_its_own(spark: Any, layout: Layout) -> None:
    with lease.hold(spark, layout, (TABLE,), what="attempt a1 of flights"):
        with (
            pytest.raises(LeaseHeldError, match="another run in this same process") as refused,
            lease.hold(spark, layout, BOTH, what="attempt a2 of flights"),
        ):
            pytest.fail("two writers at once")
        assert refused.value.transient
        table_owner, checkpoint_owner = holders(layout)
        assert str(table_owner).startswith("attempt a1 of flights"), "the first run keeps its lease"
        assert checkpoint_owner is None, "the second run holds no lease if one is not free"


def test_a_lease_of_another_process_is_an_error_that_names_the_owner(spark: Any, layout: Layout) -> None:
    with (
        lease_probe.hold(layout, (TABLE,), what="quarantine waive of flights/silver"),
        pytest.raises(LeaseHeldError, match="quarantine waive of flights/silver"),
        lease.hold(spark, layout, BOTH, what="attempt a1 of flights"),
    ):
        pytest.fail("two writers at once")

    assert holders(layout) == [None, None]


def test_leases_of_other_flows_and_tables_are_independent(spark: Any, layout: Layout) -> None:
    with (
        lease.hold(spark, layout, BOTH, what="attempt a1 of flights"),
        lease.hold(spark, layout, ("checkpoint:flights/gold", "table:gold.delays"), what="attempt b1 of flights"),
    ):
        assert None not in holders(layout)
