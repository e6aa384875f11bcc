"""A run through Airflow with real Spark that ends with an error of the whole application.

Nightly, because both halves are tested per merge: that the job reports the error (tests/spark_jobs), and that Airflow does not
retry after such a report (test_whole_runs.py). Successful runs with real Spark are tested in tests/live.
"""

from __future__ import annotations

import shutil
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from demo import flights_feed
from tidegate.lake.layout import Layout, run_key
from tidegate.lake.place import PipelinePlace
from tidegate.reports.report import RunReport
from tidegate.store import Address

pytestmark = [pytest.mark.nightly, pytest.mark.airflow, pytest.mark.jvm]


def test_a_missing_suite_fails_its_flow_without_a_retry(runs: Any, project_dir: Path) -> None:
    from dags.flights import dag

    layout = Layout.local(project_dir / ".data/lake", project_dir / ".data/landing")
    shutil.rmtree(project_dir / "expectations/flights")
    flights_feed.land_day(Path(layout.landing_root), date(2013, 1, 1))
    run = runs.start(dag)
    states = runs.states(run)
    assert (states["run"], states["bronze"], states["silver"]) == ("success", "success", "failed")
    (path,) = Path(PipelinePlace(layout, "flights").reports).glob(f"{run_key(run.run_id)}/*/report.json")
    report = RunReport.read(Address.local(path))
    assert report is not None
    silver = report.flow("silver")
    assert silver.error is not None
    assert not silver.error.transient
    assert "suite 'flights/silver' (flights/silver.json) does not exist" in silver.error.message
