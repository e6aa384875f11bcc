"""Whole runs of `tidegate run`, and drivers that are killed, with lake and landing zone in a bucket whose policy refuses unsafe writes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.chaos.sample import expect_everything_once, landed_later
from tests.deployment import Deployment
from tests.slices import of_week
from tests.store.proxy import S3Proxy, received
from tidegate.lake.place import AttemptPlace, PipelinePlace
from tidegate.ops.attempts import ATTEMPTS
from tidegate.reports.report import RunReport
from tidegate.testing.lake import read

if TYPE_CHECKING:
    from tests.jvm.conftest import Deploy

pytestmark = pytest.mark.jvm

COMMAND = Path(sys.executable).parent / "tidegate"
MIXTURES = [("bucket", "bucket"), ("bucket", "folder"), ("folder", "bucket")]
STEPS = {
    "bronze": ("before:write_quarantine", "after:write_quarantine", "after:write_target", "after:record_batch"),
    "silver": ("before:write_quarantine", "after:write_quarantine", "after:write_target", "after:record_batch"),
    "gold": ("after:write_target", "after:record_batch"),
}
"""By flow: the steps at which its driver is killed, in the order of a batch."""
EXPLAINED = {"GET log", "GET other", "HEAD other", "PUT other"}
"""Kinds of requests of which an increment sends more than 50, for the reasons in ``docs/guides/buckets.md``."""


def tidegate(deployment: Deployment, *arguments: str) -> str:
    """What a command prints that ends with 0."""
    result = subprocess.run(
        [COMMAND, *arguments],
        env={**os.environ, **deployment.environment.variables()},
        cwd=deployment.folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def expect_as_in_a_folder(deployment: Deployment) -> None:
    """Check the tables, the ledger and the plan after a run."""
    expect_everything_once(deployment, deployment.folder / "landing")
    deployment.expect_a_balanced_ledger()
    assert "flights: nothing is new" in tidegate(deployment, "plan", "flights")


def expect_counted(deployment: Deployment, proxy: S3Proxy, start: int) -> None:
    """Check the requests in the report and in the table of attempts of the last run: those of Spark are those that the server got."""
    place = PipelinePlace(deployment.layout, "flights")
    # Not by `OwnTable.read`, which holds up the proxy, a thread of this process.
    line = max(read(ATTEMPTS.address(place)).to_pylist(), key=lambda line: line["recorded_at"])
    report = RunReport.read(AttemptPlace(deployment.layout, "flights", line["run_key"], line["attempt"]).report)
    assert report is not None
    assert report.requests == dict(line["requests"])
    sent = zip(proxy.requests[start:], proxy.agents[start:], strict=True)
    by_spark = received(request for request, agent in sent if "Hadoop" in agent)
    counted = Counter[str]()
    for kind, number in report.requests.items():
        if kind.startswith("spark "):
            # The server gets a copy as a PUT.
            counted[kind.removeprefix("spark ").replace("COPY", "PUT")] += number
    assert counted == by_spark
    assert by_spark["GET log"] > 0


def expect_few(proxy: S3Proxy, start: int) -> None:
    """Check the requests of all programs in an increment of three flows, beside listings, as ``docs/guides/buckets.md`` has them."""
    kinds = received(proxy.requests[start:])
    beside = {kind: number for kind, number in kinds.items() if not kind.startswith("LIST ")}
    assert sum(beside.values()) <= 350, kinds
    assert {kind for kind, number in beside.items() if number > 50} <= EXPLAINED, kinds


@pytest.mark.live
def test_a_run_after_a_killed_driver_leaves_every_row_once(deploy: Deploy, guarded_proxy: S3Proxy) -> None:
    deployment = deploy()
    deployment.run_and_kill("after:write_quarantine:silver", flows=["bronze", "silver"])
    assert "gold: done" in tidegate(deployment, "run", "flights")
    expect_as_in_a_folder(deployment)
    name, content = landed_later(deployment)
    (deployment.layout.landing_root / name).put(content)
    start = len(guarded_proxy.requests)
    assert "gold: done" in tidegate(deployment, "run", "flights")
    expect_few(guarded_proxy, start)
    expect_counted(deployment, guarded_proxy, start)
    expect_as_in_a_folder(deployment)
    start = len(guarded_proxy.requests)
    tidegate(deployment, "plan", "flights")
    assert len(guarded_proxy.requests[start:]) <= 20, guarded_proxy.requests[start:]
    logs = [entry for entry in PipelinePlace(deployment.layout, "flights").reports.walk() if entry.name == "driver.log"]
    assert len(logs) == 2 and all(log.size > 0 for log in logs)


@pytest.mark.nightly
@pytest.mark.parametrize("mixture", of_week(MIXTURES, 1))
def test_the_same_run_in_buckets_and_folders_gives_the_same_lake(deploy: Deploy, mixture: tuple[str, str]) -> None:
    deployments = [deploy("folder", "folder"), deploy(*mixture)]
    for deployment in deployments:
        tidegate(deployment, "run", "flights")
        expect_as_in_a_folder(deployment)
    expected, contents = map(_contents, deployments)
    assert contents == expected


@pytest.mark.nightly
@pytest.mark.parametrize("flow", of_week(list(STEPS), 1))
def test_drivers_that_are_killed_at_each_step_leave_every_row_once(deploy: Deploy, flow: str) -> None:
    deployment = deploy()
    names = list(STEPS)[: list(STEPS).index(flow) + 1]
    for step in STEPS[flow]:
        deployment.run_and_kill(f"{step}:{flow}", flows=names)
    assert "gold: done" in tidegate(deployment, "run", "flights")
    expect_as_in_a_folder(deployment)


def _contents(deployment: Deployment) -> dict[str, list[str]]:
    """What does not depend on the folder and the time: rows of tables and of quarantines, and the numbers of the ledger."""
    tables = {name: deployment.table(name) for name in ("bronze.flights", "silver.flights", "gold.daily_delay")}
    public = {
        name: rows.select([column for column in rows.column_names if not column.startswith("_")])
        for name, rows in tables.items()
    }
    refused = {
        flow: deployment.quarantined(flow).select(["level", "rules", "record", "state"])
        for flow in ("bronze", "silver")
    }
    contents = {name: sorted(map(repr, rows.to_pylist())) for name, rows in (public | refused).items()}
    changing = ("_at", "seconds", "run_key", "attempt", "fingerprint")
    lines = [
        {name: value for name, value in line.items() if not name.endswith(changing)} for line in deployment.ledger()
    ]
    return contents | {"ledger": [repr(line) for line in lines]}
