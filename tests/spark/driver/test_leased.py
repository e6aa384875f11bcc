"""A flow runs under the leases of its checkpoint and target; its report gets duration and target version."""

from __future__ import annotations

import dataclasses
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from tests.spark import job as orders
from tidegate.checkpoints.lease import holder
from tidegate.errors import LeaseHeldError, SpecError, UnexpectedError
from tidegate.spark.driver.lease import leased_flow
from tidegate.spark.job import Job
from tidegate.spark.lake import writes

pytestmark = pytest.mark.jvm

RESOURCES = ("checkpoint:orders/silver", "table:silver.orders")


@pytest.fixture
def silver(spark: Any, tmp_path: Path) -> Job:
    return orders.job_of(spark, tmp_path, orders.SILVER)


def holders(job: Job) -> list[str | None]:
    return [holder(job.place.layout, resource) for resource in RESOURCES]


def write(job: Job, batch_id: int) -> None:
    rows = job.spark.createDataFrame([(1,)], "id int")
    writes.append(rows, job.live, orders.transaction(job, batch_id))


def of_attempt(job: Job, attempt: str = "a1") -> AbstractContextManager[None]:
    run = dataclasses.replace(job.run, place=dataclasses.replace(job.run.place, attempt=attempt))
    return leased_flow(job.spark, job.resolved, run, work="flow 'silver'")


def test_both_leases_are_held_and_the_report_gets_duration_and_version(silver: Job) -> None:
    with of_attempt(silver):
        assert [str(owner).split(" (")[0] for owner in holders(silver)] == ["attempt a1 of orders"] * 2
        write(silver, 0)
        write(silver, 1)

    assert holders(silver) == [None, None]
    assert silver.run.report.seconds > 0
    assert silver.run.report.target_version == 1


def test_a_flow_that_writes_nothing_has_no_target_version(silver: Job) -> None:
    with of_attempt(silver):
        pass

    assert silver.run.report.target_version is None


def test_a_second_run_of_the_flow_raises_before_any_work(silver: Job) -> None:
    for _ in range(2):
        with of_attempt(silver), pytest.raises(LeaseHeldError):
            with of_attempt(silver, "a2"):
                pytest.fail("two writers at once")
            pytest.fail("the second run got the leases")


def test_a_tidegate_error_is_raised_unchanged_and_any_other_is_translated_with_its_cause(silver: Job) -> None:
    with pytest.raises(SpecError, match="fix it"), of_attempt(silver):
        raise SpecError("fix it")
    assert holders(silver) == [None, None]

    with (
        pytest.raises(UnexpectedError, match="flow 'silver'") as raised,
        of_attempt(silver),
    ):
        write(silver, 0)
        raise ValueError("secret@example.org")

    assert "secret" not in raised.value.message
    assert isinstance(raised.value.__cause__, ValueError)
    assert silver.run.report.target_version == 0, "the version written before the error is reported"
    assert holders(silver) == [None, None]
