"""Which requests replace rows, so that a dry run has something to judge; without a JVM."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from tests import places
from tests.cli.project import Project, orders
from tests.spark_files import DeltaLog, add, txn
from tests.status.sample_project import BRONZE, GOLD, SILVER, TRIPS, SampleProject
from tidegate.planning import rewrites
from tidegate.planning.extent import with_size
from tidegate.requests.request import RunRequest
from tidegate.spec import Pipeline

pytestmark = pytest.mark.slow


def has_any(project: SampleProject, pipeline: Pipeline = TRIPS, **params: Any) -> bool:
    return rewrites.has_any(project.layout, pipeline, RunRequest.check(pipeline, "r", params))


def test_a_refresh_replaces_rows_and_an_increment_and_a_reingest_do_not(tmp_path: Path) -> None:
    project = SampleProject(tmp_path)
    assert has_any(project, mode="full_refresh", flows=["gold"])
    assert not has_any(project)
    assert not has_any(project, mode="reingest")


@pytest.mark.parametrize(
    ("writers", "version", "expected"),
    [
        (["trips/silver/v1/0"], 1, False),
        (["trips/silver/v1/0"], 2, True),
        (["trips/silver/v1/0", "trips/silver/v2/0"], 2, False),
        # A first version, which replays and backfills did not write.
        (["trips/silver/v1/0/window", "trips/silver/replay"], 1, False),
        (["other/silver/v1/0"], 2, False),
        ([], 2, False),
    ],
)
def test_a_version_that_has_not_written_the_table_of_an_earlier_one_derives_it_again(
    tmp_path: Path, writers: list[str], version: int, expected: bool
) -> None:
    project = SampleProject(tmp_path)
    silver = dataclasses.replace(SILVER, checkpoint_version=version)
    pipeline = Pipeline(name="trips", flows=(BRONZE, silver, GOLD))
    if writers:
        log = DeltaLog(project.layout.table("silver.trips"))
        log.commit(add("a", 3), *(txn(writer, 0) for writer in writers))
        transactions = [{"appId": writer, "version": 0} for writer in writers]
        checksum = project.layout.table("silver.trips") / "_delta_log" / "00000000000000000000.crc"
        checksum.put((json.dumps({"setTransactions": transactions})).encode())
    assert rewrites.derives_again(places.of(project.layout, pipeline, silver), silver) is expected
    assert has_any(project, pipeline) is expected
    request = RunRequest.check(pipeline, "r", {"dry_run": True})
    sized = with_size(project.environment, pipeline, request)
    assert sized.small is not expected, "bronze.trips, which the new version derives the table from, is of unknown size"


def test_a_dry_run_without_anything_to_judge_starts_no_jvm(tmp_path: Path) -> None:
    project = Project.make(tmp_path / "project")
    project.declare(orders())
    project.land("0.csv", "order_id,amount\nA-1,1.0\n")
    result = project.run("run", "orders", "--dry-run", JAVA_HOME="/nowhere")
    assert (result.code, "nothing to judge" in result.out) == (0, True)
    refused = project.run("run", "orders", "--accept", "silver=3", JAVA_HOME="/nowhere")
    assert refused.code == 64
    assert "accept='silver=3' is not allowed; allowed: <flow>:deleted=<number>" in refused.err
