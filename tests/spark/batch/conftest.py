"""Fixtures: the flow `latest`, which reads one keyed table and writes another, and an existing table of it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.spark.batch.splits import Open, split, write
from tests.spark.job import LATEST, job_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tidegate.spark.job import Job


@pytest.fixture
def latest(spark: SparkSession, tmp_path: Path) -> Open:
    """Factory of jobs of the flow `latest` in the lake of this test."""

    def make(transform: Callable[[DataFrame], DataFrame] | None = None, **more: Any) -> Job:
        return job_of(spark, tmp_path, more.pop("flow", LATEST), transform=transform, **more)

    return make


@pytest.fixture(scope="session")
def table_of_orders(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The target of `latest` with six orders of ``at`` 5 and version 3, and one of ``at`` 6."""
    job = job_of(spark, tmp_path_factory.mktemp("existing"), LATEST)
    write(job, split(job, *((number, 5, number * 10, "insert", 3) for number in range(1, 7)), (9, 6, 90)))
    return Path(job.target)


@pytest.fixture
def existing_table(table_of_orders: Path, tmp_path: Path) -> None:
    """A copy of `table_of_orders` in the lake of this test."""
    shutil.copytree(table_of_orders, tmp_path / "lake" / "tables" / "silver" / "latest")
