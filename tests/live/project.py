"""The project of the live tests: a fresh clone with some edits."""

from __future__ import annotations

import json
import re
import shutil
from datetime import date
from pathlib import Path

from demo import flights_feed
from tests.docs import guides

ROOT = Path(__file__).parents[2]

QUICK_RETRIES = """
from datetime import timedelta

import tidegate.airflow.retry

# Shorter delays than 30 s keep the tests fast.
tidegate.airflow.retry.FIRST_DELAY = timedelta(seconds=3)
for name in ("plan", "run"):
    dag.task_dict[name].retry_delay = timedelta(seconds=1)
"""

# Blocks the transform while a file exists, so that tests can observe a running flow.
HOLD = """

def _wait(transform):
    import time
    from pathlib import Path

    def wait_and_transform(rows):
        while (Path(__file__).parents[1] / "hold").exists():
            time.sleep(0.1)
        return transform(rows)

    return wait_and_transform


clean = _wait(clean)
"""

TWO_FLOWS = """
import dataclasses

pipeline = dataclasses.replace(pipeline, flows=pipeline.flows[:2])
"""

BROKEN_DAG = "from airflow.sdk import dag\n\nraise ValueError('no such table')\n"

PEOPLE = '''"""A pipeline without a schedule, whose contract refuses undeclared fields."""

from tidegate.spec import ChangeFeed, Contract, FileSource, Flow, Pipeline, Table

pipeline = Pipeline(
    name="people",
    schedule=None,
    flows=(
        Flow(
            name="bronze",
            source=FileSource(
                path="people", format="json", schema="id STRING, age INT, at DATE", contract=Contract(mode="freeze")
            ),
            target=Table("bronze.people"),
        ),
        Flow(
            name="silver",
            source=ChangeFeed("bronze.people"),
            target=Table("silver.people", keys=("id",), sequence_by=("at",)),
        ),
    ),
)
'''

CANARY = "canary4711"
CANARY_FIELD = "Canaria Smith"
PEOPLE_RECORDS = [
    {"id": f"{CANARY}-good", "age": 41, "at": "2026-01-01"},
    {"id": f"{CANARY}-type", "age": CANARY, "at": "2026-01-01"},
    {"id": f"{CANARY}-more", "age": 42, "at": "2026-01-01", CANARY_FIELD: CANARY},
]

TRANSFORM_UNCHANGED = '        "dest",\n'
TRANSFORM_IN_LOWER_CASE = '        F.lower("dest").alias("dest"),\n'


def make_project(folder: Path, *, refusing: bool) -> dict[str, str]:
    """Create a project with a broken DAG file, in which no pipeline but flights has a schedule.

    Args:
        folder: Of the project.
        refusing: Whether silver of the first run of flights is blocked and then refused, and its transform is an older one.
            Otherwise flights has no schedule.

    Returns:
        The environment variables of a shell for this project.
    """
    environment = guides.scaffold(folder)
    shutil.copytree(ROOT / "plugins", folder / "plugins", ignore=shutil.ignore_patterns("__pycache__"))
    with (folder / "spark_jobs/flights.py").open("a") as transforms:
        transforms.write(HOLD)
    with (folder / "dags/flights.py").open("a") as dag:
        dag.write(QUICK_RETRIES)
    (folder / "dags/broken.py").write_text(BROKEN_DAG)
    # Their applications would keep the others waiting; the demo runs these pipelines, and `schedule_clickstream` the first.
    for name in ("clickstream", "delays", "payments", *(() if refusing else ("flights",))):
        declaration = folder / f"pipelines/{name}.py"
        declaration.write_text(re.sub(r"schedule=.*,", "schedule=None,", declaration.read_text()))
    if refusing:
        transform_dest(folder, TRANSFORM_UNCHANGED, TRANSFORM_IN_LOWER_CASE)
        allow_origins(folder, ["CDG"])
        (folder / "hold").touch()
    # The same permissions as the folders that the platform creates.
    for name in (".data", ".data/landing", ".data/landing/flights"):
        (folder / name).mkdir(mode=0o700)
    # The feeder continues with the next day: all of its flights, about a thousand.
    land_day(folder / ".data/landing", 1)
    return environment


def schedule_clickstream(folder: Path) -> None:
    """Give clickstream its schedule again, and only its flows bronze and silver: the demo runs all."""
    text = (ROOT / "pipelines/clickstream.py").read_text()
    (folder / "pipelines/clickstream.py").write_text(text + TWO_FLOWS)


def declare_people(folder: Path) -> None:
    """Add the pipeline `people`, whose contract is frozen."""
    (folder / ".data/landing/people").mkdir(mode=0o700)
    (folder / "pipelines/people.py").write_text(PEOPLE)
    text = (ROOT / "dags/flights.py").read_text()
    (folder / "dags/people.py").write_text(text.replace("flights", "people"))


def transform_dest(folder: Path, before: str, after: str) -> None:
    """Edit the expression of silver's column `dest` in the transform."""
    jobs = folder / "spark_jobs/flights.py"
    text = jobs.read_text()
    assert before in text
    jobs.write_text(text.replace(before, after))


def allow_origins(folder: Path, origins: list[str]) -> list[str]:
    """Change the airports that silver's suite allows; returns the previous ones."""
    path = folder / "expectations/flights/silver.json"
    suite = json.loads(path.read_text())
    allowed = next(e for e in suite["expectations"] if e["kwargs"].get("column") == "origin")["kwargs"]
    before: list[str] = allowed["value_set"]
    allowed["value_set"] = origins
    path.write_text(json.dumps(suite))
    return before


def land_day(landing: Path, day: int, records: int = 30) -> int:
    """Land a file with the first records of a day of January; returns their number."""
    draft = landing / "draft"
    landed = flights_feed.land_day(draft, date(2013, 1, day))
    header, *lines = (draft / flights_feed.FOLDER / landed.name).read_text().splitlines(keepends=True)
    (draft / landed.name).write_text("".join([header, *lines[:records]]))
    (draft / landed.name).chmod(0o600)
    (draft / landed.name).replace(landing / flights_feed.FOLDER / landed.name)
    shutil.rmtree(draft)
    return len(lines[:records])
