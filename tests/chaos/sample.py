"""A small landing zone with good, bad and corrected records and a bad file, and checks of the result."""

from __future__ import annotations

import gzip
import json
import re
from collections import Counter
from collections.abc import Callable
from datetime import date
from pathlib import Path

import pyarrow

from demo import flights_feed, recompute
from tests.deployment import Deployment

StartState = Callable[[Callable[[Deployment], None]], Deployment]
"""The fixture `start_state`."""
SILVER = ("flight_id", "day", "carrier", "origin", "dest", "cancelled", "dep_delay", "arr_delay", "distance")
GOLD = ("day", "carrier", "flights", "cancelled", "late", "p90_delay", "max_delay")


def landed(deployment: Deployment) -> None:
    """Forty flights of two days each, a correction of ten, a file with twelve bad records and a truncated gzip."""
    landing = deployment.environment.landing
    first, second, third = (flights_feed.days()[date(2013, 1, day)][:40] for day in (1, 2, 3))
    wrong = list(flights_feed._ERRORS)
    bad = [flights_feed._with_error(record, wrong[n] if n < len(wrong) else -1) for n, record in enumerate(third)]
    later = [flights_feed._delayed(record, minutes=7) for record in first[:10]]
    for name, records in (("a.csv", first), ("b.csv", second), ("broken [1].csv", bad), ("corrected 50%.csv", later)):
        flights_feed.land(landing / flights_feed.FOLDER, name, flights_feed.as_csv(records), len(records))
    packed = gzip.compress(flights_feed.as_csv(first))
    flights_feed.land(landing / flights_feed.FOLDER, "half.csv.gz", packed[: len(packed) // 2], 0)


def landed_later(deployment: Deployment) -> tuple[str, bytes]:
    """Thirty flights of a day more and a correction of ten: the name of the file in the landing zone, and its content."""
    name, days = "later.csv", flights_feed.days()
    corrected = [flights_feed._delayed(record, minutes=9) for record in days[date(2013, 1, 2)][:10]]
    records = [*days[date(2013, 1, 4)][:30], *corrected]
    content = flights_feed.as_csv(records)
    flights_feed.land(deployment.folder / "landing" / flights_feed.FOLDER, name, content, len(records))
    return f"{flights_feed.FOLDER}/{name}", content


def in_bronze(deployment: Deployment) -> None:
    """The sample, ingested to bronze."""
    landed(deployment)
    deployment.run(flows=["bronze"])


def in_silver(deployment: Deployment) -> None:
    """The sample, processed up to silver."""
    landed(deployment)
    deployment.run(flows=["bronze", "silver"])


WAITING = {"bronze": landed, "silver": in_bronze, "gold": in_silver}
"""By flow: the start state in which this flow has a backlog and the flows before it have none."""


def expect_everything_once(deployment: Deployment, landed: Path | None = None) -> None:
    """Check that every landed id is in bronze once, and that quarantine, silver and gold equal DuckDB's recomputation.

    Args:
        landed: A local copy of a landing zone in a bucket, in which the same files have other ids.
    """
    expected = recompute.flights(landed or deployment.environment.landing)
    differences = recompute.differences
    if landed is None:
        assert differences(expected, "ids", ["_row_id"], deployment.table("bronze.flights")) == 0
        assert differences(expected, "quarantined", ["_row_id"], deployment.quarantined("silver")) == 0
    else:
        assert _records(deployment.table("bronze.flights")) == _records(expected.table("ids").to_arrow_table())
        assert _records(deployment.quarantined("silver")) == _records(expected.table("quarantined").to_arrow_table())
    assert differences(expected, "silver", SILVER, deployment.table("silver.flights"), "NOT _deleted") == 0
    assert differences(expected, "gold", GOLD, deployment.table("gold.daily_delay")) == 0
    bad_files = deployment.quarantined("bronze").to_pylist()
    assert [Path(json.loads(file["source"])["path"]).name for file in bad_files] == ["half.csv.gz"]


def _records(rows: pyarrow.Table) -> Counter[str]:
    """Names of files with line numbers, without the folder and the time of a copy."""
    return Counter(re.sub(r"^.*/(.*)@\d+", r"\1", row_id) for row_id in rows["_row_id"].to_pylist())
