"""`tidegate landing moved`: a plan, and with `--accept` the decision that the error message asks for. Starts no JVM."""

from __future__ import annotations

import hashlib
import os
import re
import shlex
from datetime import UTC, datetime

import pytest

from tests.cli.project import Project, orders
from tidegate import hidden
from tidegate.lake.file_id import url_of_path

pytestmark = pytest.mark.slow

CONTENT = "order_id,amount\nA-1,1.0\n"


@pytest.fixture
def moved(project: Project) -> Project:
    """A project whose landing zone has other times and is at another path than the one that was read."""
    pipeline = project.declare(orders())
    path = project.land("0 %ü#@1.csv", CONTENT)
    modified_at = datetime.fromtimestamp(int(path.stat().st_mtime), UTC)
    os.utime(path, (modified_at.timestamp(),) * 2)
    project.checkpoint(pipeline, pipeline.flow("bronze")).listed(0, path).plan(0, {"logOffset": 0}).commit(0)
    row = {
        hidden.PATH: url_of_path(str(path)),
        hidden.MODIFIED_AT: modified_at,
        "_size": len(CONTENT),
        hidden.INGESTED_AT: modified_at,
        hidden.CHECKSUM: hashlib.sha256(CONTENT.encode()).hexdigest(),
    }
    project.table("bronze.orders", [{"line": "A-1,1.0"} | row])
    os.utime(path, (1_900_000_000, 1_900_000_000))
    landing = project.environment.landing
    landing.rename(landing.with_name("elsewhere"))
    return project


def test_the_plan_says_what_was_read_and_the_command_of_the_error_accepts_it(moved: Project) -> None:
    elsewhere = {"TIDEGATE_LANDING": str(moved.environment.landing.with_name("elsewhere"))}
    (flow,) = moved.run("plan", "orders", "--flow", "bronze", "--json", **elsewhere).json["flows"]
    assert flow["error"]["kind"] == "MovedLandingFolderError"
    match = re.search(r"tidegate (landing moved .*?--reason) ", flow["error"]["message"])
    assert match is not None

    planned = moved.run("landing", "moved", "orders", **elsewhere)
    assert planned.code == 0
    assert "0 with the same time, 1 with another time and the same checksum (24 bytes compared)" in planned.out
    (plan,) = moved.run("landing", "moved", "orders", "--json", **elsewhere).json["flows"]
    assert (plan["recognised"], plan["new"]) == (["0 %ü#@1.csv"], 0)
    assert "There are no decisions" in moved.run("flow", "show", "orders", **elsewhere).out

    assert moved.run(*shlex.split(match[1]), "a new disk", **elsewhere).code == 0
    (flow,) = moved.run("plan", "orders", "--flow", "bronze", "--json", **elsewhere).json["flows"]
    assert (flow["has_work"], flow["error"]) == (False, None)
    assert moved.run("flow", "show", "orders", **elsewhere).row(
        "bronze", "the move of the landing folder", "a new disk"
    )
    again = moved.run("landing", "moved", "orders", "--accept", "--reason", "again", **elsewhere)
    assert (again.code, "`tidegate plan orders` shows what the next run reads" in again.err) == (64, True)
    assert moved.run("landing", "moved", "orders", "silver").code == 64
