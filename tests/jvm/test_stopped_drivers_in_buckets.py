"""A driver is stopped at each step of a batch while another one takes it, with lake and landing zone in a bucket.

Before the other one runs, the suite and the transforms are edited: what the first had written decides which of the two is in the tables.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from demo import recompute
from tests.chaos.sample import GOLD, SILVER, expect_everything_once
from tests.deployment import Deployment
from tests.jvm.test_runs_in_buckets import expect_as_in_a_folder, tidegate
from tests.slices import of_week
from tests.waiting import TIMEOUT_SECONDS, wait_until
from tidegate.lake.place import FlowPlace
from tidegate.processes import end_group
from tidegate.requests.request import fresh_id

if TYPE_CHECKING:
    from tests.jvm.conftest import Deploy

pytestmark = [pytest.mark.jvm, pytest.mark.nightly, pytest.mark.chaos]

PROJECT = Path(__file__).parents[2]
STOPPED = Path(__file__).with_name("stopped_driver.py")
FLOWS = ("bronze", "silver", "gold")
POINTS = [
    ("before:evaluate_batch:silver", "second"),
    ("before:record_split:silver", "second"),
    ("before:write_quarantine:silver", "second"),
    ("behind:quarantine/flights/silver:silver", "second"),
    ("before:write_target:silver", "first"),
    ("behind:tables/silver/flights:silver", "first"),
    ("before:record_batch:silver", "written"),
    ("after:record_batch:silver", "written"),
    ("behind:quarantine/flights/bronze:bronze", "same"),
    ("behind:tables/bronze/flights:bronze", "same"),
    ("behind:tables/gold/daily_delay:gold", "second"),
    ("before:record_batch:gold", "first"),
]
"""Where the first driver stops, in the order of a batch, and whose suite and transform decide. Bronze has neither, so both drivers
write the same; ``written`` is the first's, in a target that the second finds. Of two steps without a write between them, one is here."""
A_WEEK = 3
EDIT = """

_clean, _daily_delay = clean, daily_delay


def clean(rows: DataFrame) -> DataFrame:
    return _clean(rows).withColumn("_filtered", F.when(F.col("carrier") == "UA", F.lit("no_united")))


def daily_delay(rows: DataFrame) -> DataFrame:
    return _daily_delay(rows.where("carrier <> 'UA'"))
"""


@pytest.mark.parametrize(("at", "decides"), of_week(POINTS, A_WEEK))
def test_a_driver_that_was_stopped_while_another_one_took_its_batch_ends_with_75_and_moves_no_row(
    deploy: Deploy, at: str, decides: str
) -> None:
    deployment, flow = deploy(), at.rpartition(":")[2]
    flows = list(FLOWS[: FLOWS.index(flow) + 1])
    first, marker = started(deployment, at, flows)
    try:
        wait_until(lambda: marker.exists() or first.poll() is not None, f"the driver stops at {at}")
        assert marker.exists(), first.communicate()[0][-3000:]
        refused_by_first = ids_in_quarantine(deployment)
        if flow != "bronze":
            edit_suite_and_transforms(deployment)
        second, _ = started(deployment, "never", flows)
        output, _ = second.communicate(timeout=TIMEOUT_SECONDS)
        assert second.returncode == 0, output[-3000:]
        os.killpg(first.pid, signal.SIGCONT)
        output, _ = first.communicate(timeout=TIMEOUT_SECONDS)
    finally:
        end_group(first.pid, grace=0)
    assert first.returncode == 75, output[-3000:]

    deployment.expect_a_balanced_ledger()
    if flow == "bronze":
        tidegate(deployment, "run", "flights")
        expect_as_in_a_folder(deployment)
    elif flow == "silver":
        expect_one_disposition_by(decides, deployment, refused_by_first)
    else:
        expect_groups_of(decides, deployment)


def expect_one_disposition_by(decides: str, deployment: Deployment, refused_by_first: Counter[str]) -> None:
    """Each row of silver's batch is in one place, where the suite and the transform of one driver put it."""
    silver, refused = deployment.table("silver.flights").to_pylist(), ids_in_quarantine(deployment)
    assert refused.total() == len(refused) > 0
    assert not {row["_row_id"] for row in silver} & refused.keys()
    (line,) = (line for line in deployment.ledger() if line["flow"] == "silver")
    bronze = deployment.table("bronze.flights")["_row_id"].to_pylist()
    assert (line["read"], line["quarantined"]) == (len(bronze), len(refused)), "each row has one disposition"
    assert set(bronze) >= refused.keys()
    delays = [row["dep_delay"] for row in silver if row["dep_delay"] is not None]
    if decides == "second":
        assert max(map(abs, delays)) <= 5 and not refused_by_first
    else:
        assert max(map(abs, delays)) > 5 and refused == refused_by_first
    if decides == "written":
        expected = recompute.flights(deployment.folder / "landing")
        assert (
            recompute.differences(expected, "silver", SILVER, deployment.table("silver.flights"), "NOT _deleted") == 0
        )
    else:
        assert {row["carrier"] for row in silver} >= {"AA", "B6"} and "UA" not in {row["carrier"] for row in silver}


def expect_groups_of(decides: str, deployment: Deployment) -> None:
    """The groups are those that the transform of one driver makes of silver, which was complete before it was edited."""
    gold, landing = deployment.table("gold.daily_delay"), deployment.folder / "landing"
    if decides == "first":
        expect_everything_once(deployment, landing)
        assert "UA" in gold["carrier"].to_pylist()
        return
    assert "UA" not in gold["carrier"].to_pylist()
    assert recompute.differences(recompute.flights(landing), "gold", GOLD, gold, "carrier <> 'UA'") == 0


def started(deployment: Deployment, at: str, flows: list[str]) -> tuple[subprocess.Popen[str], Path]:
    """A driver of its own, with the transforms of the project, and the file that it writes where it stops."""
    request, marker = deployment.request(flows=flows), deployment.folder / fresh_id("reached")
    request_id = request.write(deployment.layout)
    driver = subprocess.Popen(
        [sys.executable, str(STOPPED), at, str(marker), request.dag_id, request.run_key, request_id],
        env={
            **os.environ,
            **deployment.environment.variables(),
            "PYTHONPATH": os.pathsep.join(map(str, (deployment.folder / "project", PROJECT))),
        },
        cwd=deployment.folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    return driver, marker


def ids_in_quarantine(deployment: Deployment) -> Counter[str]:
    """How often each row is in the quarantine of silver."""
    if not FlowPlace(deployment.layout, "flights", "silver").quarantine.exists():
        return Counter()
    return Counter(deployment.quarantined("silver")["_row_id"].to_pylist())


def edit_suite_and_transforms(deployment: Deployment) -> None:
    """Refuse large delays alone, filter a carrier in silver, and leave it out of gold."""
    few_minutes = {"column": "dep_delay", "min_value": -5, "max_value": 5}
    rule = {"type": "expect_column_values_to_be_between", "kwargs": few_minutes, "severity": "warning"}
    deployment.edit_suite("flights/silver", [rule])
    module = deployment.environment.project / "spark_jobs" / "flights.py"
    module.write_text(module.read_text() + EDIT)
