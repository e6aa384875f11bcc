"""A landing zone that was moved: nothing is read twice, nothing is lost."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

import pytest

import spark_jobs
from tests import places
from tests.deployment import Deployment
from tidegate import hidden
from tidegate.errors import MovedLandingFolderError
from tidegate.planning import moved_landing
from tidegate.project import registry
from tidegate.project.resolution import resolve
from tidegate.requests.request import RunRequest, fresh_id
from tidegate.spark.intake.landing import FileBatch
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
def shop(
    deployment: Deployment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Deployment:
    (tmp_path / "moved_shop.py").write_text(
        "def rows(of):\n    return of.select('_row_id', '_origin', 'id', 'amount')\n"
    )
    monkeypatch.setattr(spark_jobs, "__path__", [*spark_jobs.__path__, str(tmp_path)])
    monkeypatch.setattr(registry, "load", lambda name: PIPELINE)
    for number in range(3):
        deployment.land(f"{number}.csv", f"id,amount\n{number},{number}\n", folder="shop")
    deployment.land("empty.csv", "", folder="shop")
    with monkeypatch.context() as earlier:
        if getattr(request, "param", "") == "without checksums":
            earlier.setattr(
                FileBatch, "rows", lambda self, *given, rows=FileBatch.rows: rows(self, *given).drop(hidden.CHECKSUM)
            )
        assert [flow.state for flow in deployment.run("shop").flows] == ["done", "done"]
    return deployment


def moved(shop: Deployment, *, keeps_times: bool = True) -> Deployment:
    """The deployment after its landing zone was renamed."""
    landing = shop.environment.landing
    elsewhere = landing.with_name("elsewhere")
    landing.rename(elsewhere)
    if not keeps_times:
        touch(elsewhere)
    return dataclasses.replace(shop, environment=dataclasses.replace(shop.environment, landing_at=elsewhere))


def touch(folder: Path) -> None:
    """Give all files another time, as a copy does."""
    for path in folder.rglob("*.csv"):
        os.utime(path, (1_900_000_000, 1_900_000_000))


def accept(shop: Deployment, unproven: int = 0) -> moved_landing.MovePlan:
    plan = moved_landing.plan(places.of(shop.layout, PIPELINE, PIPELINE.flows[0]), PIPELINE.flows[0])
    moved_landing.accept(plan, by="ada", reason="a new disk", unproven=unproven)
    return plan


def ids(shop: Deployment, table: str) -> list[int]:
    return sorted(row["id"] for row in shop.table(table).to_pylist())


def lines(shop: Deployment) -> list[str]:
    return sorted(row["line"] for row in shop.table("bronze.shop").to_pylist())


def behind(shop: Deployment) -> int:
    """How many files a plan says are new."""
    return lag.measure(shop.environment, resolve(PIPELINE, shop.environment.project).flow("bronze")).backlog.behind


@pytest.mark.parametrize(
    ("shop", "keeps_times", "unproven"),
    [
        ("", False, 0),
        *(pytest.param(*case, marks=pytest.mark.nightly) for case in (("", True, 0), ("without checksums", False, 3))),
    ],
    indirect=["shop"],
)
def test_a_moved_folder_stops_the_flow_until_it_is_accepted(shop: Deployment, keeps_times: bool, unproven: int) -> None:
    before = shop.environment.landing / "shop"
    shop = moved(shop, keeps_times=keeps_times)
    shop.land("3.csv", "id,amount\n3,3\n", folder="shop")
    refused = shop.run("shop")
    error = refused.flow("bronze").error
    assert error is not None
    assert f"below {before}" in error.message
    assert "tidegate landing moved shop bronze --accept --reason " in error.message
    assert len(lines(shop)) == 3
    with pytest.raises(MovedLandingFolderError):
        behind(shop)

    accepted = accept(shop, unproven)
    assert (accepted.same, len(accepted.recognised), len(accepted.unproven)) == (
        (4, 0, 0) if keeps_times else (0, 4 - unproven, unproven)
    )
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
    assert "3 rows of files that were read at another path or with another time" in verified.summary()


@pytest.mark.nightly
def test_a_file_that_was_corrected_in_the_moved_folder_is_replayed(shop: Deployment) -> None:
    shop = moved(shop)
    accept(shop)
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


@pytest.mark.nightly
@pytest.mark.parametrize("is_accepted", [True, False])
def test_files_that_were_restored_with_other_times_are_not_read_again(shop: Deployment, is_accepted: bool) -> None:
    touch(shop.environment.landing)
    rewritten = shop.environment.landing / "shop" / "2.csv"
    rewritten.write_text("id,amount\n2,5\n")
    reading = lag.measure(shop.environment, resolve(PIPELINE, shop.environment.project).flow("bronze"))
    assert (reading.backlog.rewritten, reading.backlog.touched) == (0, 4)
    assert "4 files have another time and the same size: the next run compares them" in reading.reason

    if is_accepted:
        accepted = accept(shop)
        assert (sorted(accepted.recognised), accepted.changed) == (["0.csv", "1.csv", "empty.csv"], ["2.csv"])
    else:
        assert "4 files with another time and the same size compared: 3 the same" in str(
            shop.run("shop").flow("bronze").notes
        )
    reading = lag.measure(shop.environment, resolve(PIPELINE, shop.environment.project).flow("bronze"))
    assert (reading.backlog.rewritten, reading.backlog.touched) == ((0, 1) if is_accepted else (1, 0))
    window = {"mode": "reingest", "flows": ["bronze"], "from_date": "2020-01-01", "to_date": "2035-01-01"}
    reingested = shop.try_run(RunRequest.check(PIPELINE, "again", window, requested_by="ada"))
    assert reingested.flow("bronze").state == "done", reingested
    assert lines(shop) == ["0,0", "1,1", "2,2", "2,5"]
    assert len(shop.quarantined("bronze", "shop")) == 1
