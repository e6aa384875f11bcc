"""Takes the pictures of docs/guides/pages.md of the sample lake, for ``python -m docs.take_pictures``; pytest does not collect it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from docs.take_pictures import PICTURES
from tests.airflow.pages.test_browser import Opened, framed, opened, session

__all__ = ["opened", "session"]

pytestmark = [pytest.mark.airflow, pytest.mark.browser]


@pytest.fixture(scope="session", autouse=True)
def scheduler(home_with_dags: Path) -> None:
    """A heartbeat: without one the overview begins with a warning."""
    from airflow.jobs.job import Job
    from airflow.utils.session import create_session

    later = datetime.now(UTC) + timedelta(hours=1)
    with create_session() as database:
        database.add(Job(job_type="SchedulerJob", state="running", latest_heartbeat=later))  # type: ignore[no-untyped-call]


def test_pictures(opened: Opened) -> None:
    page = opened("/tidegate/", viewport={"width": 1320, "height": 1120})
    page.screenshot(path=PICTURES / "pages-overview.png")
    page = opened("/plugin/tidegate/tidegate/pipelines/flights/flows/silver", color_scheme="dark")
    with framed(page) as frame:
        frame.get_by_role("heading", name="Last 30 batches").wait_for()
        page.screenshot(path=PICTURES / "pages-flow-dark.png")
