"""A landing zone that was moved: nothing is read twice, nothing is lost."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

import pytest

import spark_jobs
from tests.deployment import Deployment
from tidegate.checkpoints import checkpoint, landing_folder
from tidegate.errors import MovedLandingFolderError
from tidegate.project import registry
from tidegate.project.resolution import resolve
from tidegate.requests.request import RunRequest, fresh_id
from tidegate.spec import ChangeFeed, FileSource, Flow, Pipeline, Table
from tidegate.status import lag

pytestmark = pytest.mark.jvm

PIPELINE = Pipeline(
    name="shop",
    flows=(
        Flow(
            name="bronze",
            source=FileSource(path="shop", format="csv", schema="id INT NOT NULL, amount INT"),
            target=Table("bronze.shop"),
        ),
        Flow(name="log", source=ChangeFeed("bronze.shop"), transform="moved_shop:rows", target=Table("silver.log")),
    ),
)


@pytest.fixture
def shop(deployment: Deployment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Deployment:
    (tmp_path / "moved_shop.py").write_text(
        "def rows(of):\n    return of.select('_row_id', '_origin', 'id', 'amount')\n"
    )
    monkeypatch.setattr(spark_jobs, "__path__", [*spark_jobs.__path__, str(tmp_path)])
    monkeypatch.setattr(registry, "load", lambda name: PIPELINE)
    for number in range(3):
        deployment.land(f"{number}.csv", f"id,amount\n{number},{number}\n", folder="shop")
    deployment.land("empty.csv", "", folder="shop")
    assert [flow.state for flow in deployment.run("shop").flows] == ["done", "done"]
    return deployment


def moved(shop: Deployment) -> Deployment:
    """The deployment after its landing zone was renamed."""
    landing = shop.environment.landing
    elsewhere = landing.with_name("elsewhere")
    landing.rename(elsewhere)
    return dataclasses.replace(shop, environment=dataclasses.replace(shop.environment, landing_at=elsewhere))


def ids(shop: Deployment, table: str) -> list[int]:
    return sorted(row["id"] for row in shop.table(table).to_pylist())


def lines(shop: Deployment) -> list[str]:
    return sorted(row["line"] for row in shop.table("bronze.shop").to_pylist())


def behind(shop: Deployment) -> int:
    """How many files a plan says are new."""
    return lag.measure(shop.environment, resolve(PIPELINE, shop.environment.project).flow("bronze")).backlog.behind


def test_a_moved_folder_stops_the_flow_until_it_is_accepted(shop: Deployment) -> None:
    before = shop.environment.landing / "shop"
    shop = moved(shop)
    shop.land("3.csv", "id,amount\n3,3\n", folder="shop")
    refused = shop.run("shop")
    error = refused.flow("bronze").error
    assert error is not None
    assert f"tidegate flow accept-move shop bronze --from {before} --reason " in error["message"]
    assert len(lines(shop)) == 3
    with pytest.raises(MovedLandingFolderError):
        behind(shop)

    place = checkpoint.current(shop.layout, PIPELINE, PIPELINE.flows[0])
    landing_folder.accept_move(place, PIPELINE.flows[0], str(before), by="ada", reason="a new disk")
    assert behind(shop) == 1

    report = shop.run("shop")
    assert [flow.state for flow in report.flows] == ["done", "done"], report
    assert lines(shop) == ["0,0", "1,1", "2,2", "3,3"]
    assert ids(shop, "silver.log") == [0, 1, 2, 3]
    assert len(shop.quarantined("bronze", "shop")) == 1, "the empty file is not judged again"
    assert behind(shop) == 0
    assert shop.run("shop").flow("bronze").batches == []
    shop.expect_a_balanced_ledger("shop")
    request = RunRequest.of_verification(PIPELINE, "bronze", fresh_id("v"), requested_by="ada", limit=5)
    verified = shop.try_run(request).flow("bronze").verification
    assert verified is not None and verified.equal == 1 and not verified.differs, verified
    assert "3 rows of files that were read before their folder was moved" in verified.summary()


def test_a_file_that_was_corrected_in_the_moved_folder_is_replayed(shop: Deployment) -> None:
    before = shop.environment.landing / "shop"
    shop = moved(shop)
    place = checkpoint.current(shop.layout, PIPELINE, PIPELINE.flows[0])
    landing_folder.accept_move(place, PIPELINE.flows[0], str(before), by="ada", reason="a new disk")
    corrected = shop.environment.landing / "shop" / "empty.csv"
    corrected.write_text("id,amount\n9,9\n")
    os.utime(corrected, (2_000_000_000, 2_000_000_000))

    replayed = shop.replay("bronze", "shop")

    assert replayed.error is None, replayed.error
    assert lines(shop) == ["0,0", "1,1", "2,2", "9,9"]
    assert [row["state"] for row in shop.quarantined("bronze", "shop").to_pylist()] == ["replayed"]
    shop.land("3.csv", "id,amount\n3,3\n", folder="shop")
    assert [flow.state for flow in shop.run("shop").flows] == ["done", "done"]
    assert lines(shop) == ["0,0", "1,1", "2,2", "3,3", "9,9"]
