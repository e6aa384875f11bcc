"""Plans, statuses and alerts of a lake in a bucket are those of the same lake in a folder, whichever of the two the landing zone is in."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import pendulum
import pytest

from tests.resolved import resolved
from tests.s3_server import S3Process
from tests.spark_files import add, delta_offset
from tests.status.sample_project import TRIPS, SampleProject
from tidegate import json_codec
from tidegate.status import evaluation, flow_status, plan

NOW = pendulum.datetime(2026, 11, 2)
WHERE = list(itertools.product(["folder", "bucket"], repeat=2))


def fill(project: SampleProject) -> None:
    """Files that were read and one that was not, tables, checkpoints, and a refused batch."""
    project.layout.open()
    for number in range(3):
        (project.landing / f"{number} a.csv").put(b"a\n1\n2\n")
    project.read_everything(project.checkpoint("bronze"))
    (project.landing / "unread.csv").put(b"a\n1\n2\n")
    project.refuse_silver()
    silver = project.table("silver.trips")
    for number in range(4):
        silver.commit(add(f"f{number}", 1))
    project.checkpoint("gold").run(0, delta_offset(2))


def readings(project: SampleProject) -> str:
    """What is read, without the addresses of lake and landing zone, and times of objects."""
    pipelines = [("trips", resolved(TRIPS, project.environment.project))]
    planned = plan.decide(project.environment, pipelines[0][1], TRIPS.flows)
    statuses = flow_status.gather(project.environment, pipelines, 30.0, NOW)
    alerts = evaluation.evaluate_pipelines(project.environment, pipelines, NOW)
    results = {
        "plan": [planned.work, *planned.reasons, *map(str, planned.errors)],
        "status": [flow_status.to_json(each) for each in statuses],
        "alerts": [repr(each) for pipeline in alerts for each in pipeline.findings],
    }
    text = json_codec.encode(results, indent=1)
    for root, name in ((project.layout.root, "<lake>"), (project.layout.landing_root, "<landing>")):
        text = text.replace(root.uri, name)
    return re.sub(r"\b\d{13}\b", "<time>", text)


@pytest.mark.parametrize(("lake", "landing"), WHERE)
def test_what_is_read_of_a_lake_does_not_depend_on_where_it_is(
    lake: str, landing: str, tmp_path: Path, s3_server: S3Process
) -> None:
    local = SampleProject(tmp_path / "local")
    fill(local)
    bucket = s3_server.new_bucket()
    where = {"TIDEGATE_LAKE": lake, "TIDEGATE_LANDING": landing}
    in_bucket = {name: f"s3://{bucket}/{name.lower()}" for name, kind in where.items() if kind == "bucket"}
    project = SampleProject(tmp_path / "other", **s3_server.variables, **in_bucket)
    fill(project)
    expected = readings(local)
    assert "1 new file" in expected
    assert readings(project) == expected
