"""Files are read whatever their modification time; only regular files are opened."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.deployment import Deployment
from tidegate.project import resolution
from tidegate.status import lag

pytestmark = pytest.mark.jvm

HEADER = "flight_id,published_on\n"


def land(deployment: Deployment, name: str, year: int) -> None:
    """Land a file with one record, modified at the beginning of a year."""
    path = deployment.environment.landing / "flights" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{name}")
    draft.write_text(f"{HEADER}{name},2013-01-01T00:00:00Z\n")
    os.utime(draft, (0, datetime(year, 1, 2, tzinfo=UTC).timestamp()))
    draft.rename(path)


def names_in_bronze(deployment: Deployment) -> set[str]:
    return {path.rpartition("/")[2] for path in deployment.table("bronze.flights")["_path"].to_pylist()}


def test_files_with_old_and_future_modification_times_are_read_in_any_order(deployment: Deployment, spark: Any) -> None:
    land(deployment, "now.csv", 2026)
    land(deployment, "future.csv", 2040)
    assert deployment.run(flows=["bronze"]).flow("bronze").total("written") == 2

    land(deployment, "later.csv", 2026)
    land(deployment, "epoch.csv", 1970)
    os.mkfifo(deployment.environment.landing / "flights" / "pipe.csv")
    bronze = deployment.run(flows=["bronze"]).flow("bronze")

    assert bronze.error is None
    assert names_in_bronze(deployment) == {"now.csv", "future.csv", "later.csv", "epoch.csv"}
    (batch,) = bronze.batches
    assert (batch.files_listed, batch.files_opened, batch.rules) == (3, 2, {"not_a_file": 1})
    resolved = resolution.load("flights", deployment.environment.project)
    assert lag.measure(deployment.environment, resolved.flow("bronze")).has_work is False
